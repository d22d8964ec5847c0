//go:build unix

package crash

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
)

func init() {
	victimWork["fenced"] = func(pool *gputrain.Compute, _ victim) {
		var tasks []gputrain.Task
		for i := range 3 {
			tasks = append(tasks, gateTask(fmt.Sprint("task ", i)))
		}
		sayErrors(pool.Gather(tasks...))
		_, err := pool.Run(gputrain.Cmd("true"))
		e2etest.Say("then %s", kindName(err))
	}
	victimWork["shrink"] = func(pool *gputrain.Compute, v victim) {
		e2etest.Say("awake")
		for !e2etest.Exists(filepath.Join(v.Shared, "go")) {
			time.Sleep(time.Millisecond)
		}
		pool.Resize(1) // may succeed, as far as this program knows
	}
}

// A program is stopped just before it ends a node. When it resumes, another program has taken over the pool, and the
// first one leaves the node alone.
func fencedOffEndsNothing(t *testing.T) {
	v := shared(t, "shrink", 2, 1)
	r := v.start(t)
	r.Await("awake")
	r.Cmd.Process.Signal(syscall.SIGSTOP)
	pool := v.attach(t, gputrain.WithTakeover())
	before := hostKeys(t, pool.ID())
	v.goOn(t)
	r.Cmd.Process.Signal(syscall.SIGCONT)
	if got := r.Await("closed "); got != "fenced" {
		t.Errorf("the older program's Close: %s", got)
	}
	r.Wait()
	if after := hostKeys(t, pool.ID()); len(after) != 2 || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the nodes were %v, and are %v", before, after)
	}
	if all, err := pool.Broadcast(gputrain.Cmd("true")); err != nil || len(all) != 2 {
		t.Errorf("%d nodes, %v", len(all), err)
	}
}

// A program that is stopped while its pool is taken over is fenced off when it resumes: it gets the error and ends
// nothing.
func fencedOff(t *testing.T) {
	v := shared(t, "fenced", 2, 1)
	r := v.start(t)
	r.Await("task started")
	r.Await("task started")
	r.Cmd.Process.Signal(syscall.SIGSTOP)
	_, err := gputrain.Attach(t.Context(), container.Config{}, v.Name, gputrain.WithStateDir(v.State))
	if !errors.Is(err, gputrain.ErrInUse) {
		t.Errorf("while its program lives: %v", err)
	}
	if gone, err := gputrain.StateDir(v.State).Reap(t.Context(), container.Config{}); err != nil {
		t.Errorf("reap ended %v, %v", gone, err)
	}
	pool := v.attach(t, gputrain.WithTakeover())
	before := hostKeys(t, pool.ID())
	r.Cmd.Process.Signal(syscall.SIGCONT)
	for i := range 3 {
		if got := r.Await("result "); got != fmt.Sprint(i, " fenced") {
			t.Errorf("the older program's result: %s", got)
		}
	}
	for _, what := range []string{"all ", "then ", "closed "} {
		if got := r.Await(what); got != "fenced" {
			t.Errorf("the older program's %s ends with %s", what, got)
		}
	}
	r.Wait() // including its background work
	if after := hostKeys(t, pool.ID()); len(after) != 2 || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the nodes were %v, and are %v", before, after)
	}
	v.goOn(t)
	jobs := pool.Jobs()
	if len(jobs) != 3 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for i, job := range jobs {
		r, err := job.Wait()
		if want := fmt.Sprintf("begin task %d\nend task %d\n", i, i); err != nil || string(r.Stdout) != want {
			t.Errorf("task %d: %q, %v", i, r.Stdout, err)
		}
		v.ranOnce(t, fmt.Sprint("task ", i))
	}
	if all, err := pool.Broadcast(gputrain.Cmd("true")); err != nil || len(all) != 2 {
		t.Errorf("%d nodes, %v", len(all), err)
	}
}

// A pool that a program was closing when it was killed cannot be attached to.
func attachToWhatWasBeingClosed(t *testing.T) {
	v := shared(t, "nothing", 2, 1)
	v.HangAt = "terminate"
	r := v.start(t)
	r.Await("at terminate")
	r.Kill()
	_, err := gputrain.Attach(t.Context(), container.Config{}, v.Name, gputrain.WithStateDir(v.State))
	if !errors.Is(err, gputrain.ErrClosed) {
		t.Errorf("attach: %v", err)
	}
	id := poolID(t, v.State)
	if gone, err := gputrain.StateDir(v.State).Reap(t.Context(), container.Config{}); err != nil || len(gone) < 3 {
		t.Errorf("reap ended %v, %v", gone, err)
	}
	e2etest.WantNothingOf(t, id)
	wantNoPools(t, v.State)
}
