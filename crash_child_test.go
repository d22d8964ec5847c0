//go:build unix

package gputrain_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/container"
)

// A victim is a program that is killed: what it does, and where it stands still. It
// tells on its standard output what it does, a line each.
type victim struct {
	State  string // its state directory
	Name   string // the pool's
	Shared string // a folder that it and its nodes have
	Work   string // one of victimWork
	Attach bool   // to the pool, instead of opening it
	HangAt string // a point of a frozen driver, "" for none
	Spec   gputrain.Spec
}

const victimEnv = "GPUTRAIN_TEST_VICTIM"

// TestVictim is no test: it is the program that is killed. It starts no copy of
// itself, and ends by itself, whatever becomes of the test that has started it.
func TestVictim(t *testing.T) {
	text := os.Getenv(victimEnv)
	if text == "" {
		return
	}
	os.Unsetenv(victimEnv)
	time.AfterFunc(2*time.Minute, func() { os.Exit(3) })
	var v victim
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	provider := frozen{container.Config{}, v.HangAt}
	opts := []gputrain.Option{gputrain.WithStateDir(v.State), gputrain.WithEvents(sayEvent)}
	var pool *gputrain.Compute
	var err error
	if v.Attach {
		pool, err = gputrain.Attach(t.Context(), provider, v.Name, append(opts, gputrain.WithSecrets(victimSecrets))...)
	} else {
		pool, err = gputrain.Open(t.Context(), provider, v.Spec, append(opts, gputrain.WithName(v.Name))...)
	}
	if err != nil {
		say("failed %v", err)
		return
	}
	say("pool %s", pool.ID())
	victimWork[v.Work](pool, v)
	say("work is over")
	err = pool.Close()
	say("closed %s", kindName(err))
}

var sayMu sync.Mutex

// say tells the parent something, in one line.
func say(format string, args ...any) {
	sayMu.Lock()
	defer sayMu.Unlock()
	fmt.Println("victim: " + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " | "))
}

func sayEvent(e gputrain.Event) {
	say("%v %s %s%s", e.Kind, e.State, e.Phase, e.Name)
}

// kindName tells the kinds of an error that tests here ask for.
func kindName(err error) string {
	switch {
	case err == nil:
		return "well"
	case errors.Is(err, gputrain.ErrFenced):
		return "fenced"
	}
	return "with " + err.Error()
}

// victimWork is what a victim does with its pool.
var victimWork = map[string]func(*gputrain.Compute, victim){
	"nothing": func(*gputrain.Compute, victim) {},
	"stand":   func(*gputrain.Compute, victim) { select {} },
	"sleep": func(pool *gputrain.Compute, _ victim) {
		pool.Broadcast(gputrain.Cmd("sleep", "600"))
	},
	"gather":    gatherOfEverything,
	"secrets":   func(pool *gputrain.Compute, _ victim) { sayErrors(pool.Gather(secretTasks()...)) },
	"broadcast": func(pool *gputrain.Compute, _ victim) { sayErrors(pool.Broadcast(gateTask("rank $GPUTRAIN_RANK"))) },
	"jobs": func(pool *gputrain.Compute, _ victim) {
		for i := range 6 {
			pool.Start(gateTask(fmt.Sprint("job ", i)))
		}
		select {}
	},
	"stream": func(pool *gputrain.Compute, _ victim) {
		var tasks []gputrain.Task
		for i := range 6 {
			if i < 3 {
				tasks = append(tasks, gputrain.Script(fmt.Sprintf("echo ran >>/shared/%d; echo early %d", i, i)))
				continue
			}
			tasks = append(tasks, gateTask(fmt.Sprint("late ", i)))
		}
		for r, err := range pool.Stream(tasks...) {
			say("got %d %v", r.Index, err)
		}
	},
	"wait for some": func(pool *gputrain.Compute, _ victim) {
		for i, job := range pool.Jobs() {
			if i == 3 {
				break
			}
			r, err := job.Wait()
			say("got %d %v", r.Index, err)
		}
		select {}
	},
}

// gateTask is a task that says something once the file go is in the shared folder.
// That it ran is a line in the folder, in a file by its own name.
func gateTask(what string) gputrain.Task {
	return gputrain.Script(fmt.Sprintf(`echo ran >>"/shared/%s"; echo "begin %s"; until [ -e /shared/go ]; do sleep 0.1; done; echo "end %s"`, what, what, what))
}

func gatherOfEverything(pool *gputrain.Compute, v victim) {
	withInput := gputrain.Script(`cat >/shared/input; until [ -e /shared/go ]; do sleep 0.1; done; cat /shared/input`)
	withInput.Stdin = []byte("what it reads\n")
	withOutputs := gputrain.Script(`until [ -e /shared/go ]; do sleep 0.1; done; echo made >made.txt; mkdir -p "$GPUTRAIN_SCRATCH/deep"; echo deep >"$GPUTRAIN_SCRATCH/deep/file"`)
	withOutputs.Outputs = []string{"made.txt", "deep/*"}
	retried := gputrain.Script(`echo try >>/shared/tries; until [ -e /shared/go ]; do sleep 0.1; done; [ $(wc -l </shared/tries) -ge 3 ] && echo "third time"`)
	retried.Retries = 3
	done := withOutputs
	done.Script = `echo early >early.txt`
	done.Outputs = []string{"early.txt"}
	var waiting []gputrain.Task // these wait for a slot
	for _, t := range []gputrain.Task{withInput, withOutputs} {
		t.Script = strings.ReplaceAll(strings.ReplaceAll(t.Script, "/shared/input", "/shared/input2"), "made", "later")
		if t.Outputs != nil {
			t.Outputs = []string{"later.txt", "deep/*"}
		}
		waiting = append(waiting, t)
	}
	sayErrors(pool.Gather(append([]gputrain.Task{done, withInput, withOutputs, retried}, waiting...)...))
}

var victimSecrets = map[string]gputrain.Secret{"TOKEN": "s3cr3t-of-a-task-0451"}

// secretTasks are three for one slot: the first one waits for the file go and fails
// then, to be tried again, and the others wait for it.
func secretTasks() []gputrain.Task {
	first := gputrain.Script(`echo try >>/shared/tries; until [ -e /shared/go ]; do sleep 0.1; done; [ "$TOKEN" = s3cr3t-of-a-$WHOSE-0451 ] || exit 9; [ $(wc -l </shared/tries) -ge 2 ] && echo "${#TOKEN}"`)
	first.Env, first.Secrets, first.Retries = map[string]string{"WHOSE": "task"}, victimSecrets, 2
	then := gputrain.Script(`echo "${#TOKEN}"`)
	then.Secrets = victimSecrets
	return []gputrain.Task{first, then, gputrain.Cmd("echo", "no secret")}
}

func sayErrors(results []gputrain.Result, err error) {
	for _, r := range results {
		say("result %d %s", r.Index, kindName(r.Err))
	}
	say("all %s", kindName(err))
}

// A frozen provider stands still for ever at one point of a pool's life, and says
// each that it comes to.
type frozen struct {
	container.Config
	at string
}

func (f frozen) Open(ctx context.Context) (gputrain.Driver, error) {
	d, err := f.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &frozenDriver{d, d.(gputrain.Dialer), d.(gputrain.SelfDestructor), f.at}, nil
}

type frozenDriver struct {
	gputrain.Driver
	gputrain.Dialer
	gputrain.SelfDestructor
	at string
}

func (d *frozenDriver) reach(point string) {
	say("at %s", point)
	if d.at == point {
		select {}
	}
}

func (d *frozenDriver) Offers(ctx context.Context, s gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	d.reach("offers")
	return d.Driver.Offers(ctx, s)
}

func (d *frozenDriver) Prepare(ctx context.Context, p gputrain.PoolInfo) error {
	d.reach("prepare")
	err := d.Driver.Prepare(ctx, p)
	d.reach("prepared")
	return err
}

func (d *frozenDriver) Launch(ctx context.Context, req gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	d.reach("launch")
	if d.at == "half launched" {
		half := req
		half.Nodes = req.Nodes[:1]
		d.Driver.Launch(ctx, half)
		d.reach("half launched")
	}
	got, err := d.Driver.Launch(ctx, req)
	d.reach("launched")
	return got, err
}

func (d *frozenDriver) Terminate(ctx context.Context, ids ...string) error {
	d.reach("terminate")
	if d.at == "half terminated" && len(ids) > 1 {
		d.Driver.Terminate(ctx, ids[0])
		d.reach("half terminated")
	}
	err := d.Driver.Terminate(ctx, ids...)
	d.reach("terminated")
	return err
}

func (d *frozenDriver) Release(ctx context.Context, p gputrain.PoolInfo) error {
	d.reach("release")
	err := d.Driver.Release(ctx, p)
	d.reach("released")
	return err
}

// A running victim is a child process, and what it says.
type runningVictim struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines chan string
	ended chan struct{}
	log   strings.Builder // what was read of it
	told  []string        // what it said of that, and nobody has awaited yet
}

// start runs a victim, which ends with the test at the latest.
func (v victim) start(t testing.TB) *runningVictim {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestVictim$", "-test.timeout=3m")
	cmd.Env = append(os.Environ(), victimEnv+"="+string(text), "TMPDIR="+t.TempDir())
	return follow(t, cmd)
}

// follow runs a program that says what it does, and that ends with the test.
func follow(t testing.TB, cmd *exec.Cmd) *runningVictim {
	t.Helper()
	r := &runningVictim{t: t, cmd: cmd, lines: make(chan string, 1000), ended: make(chan struct{})}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		defer close(r.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			r.lines <- s.Text()
		}
		io.Copy(io.Discard, out)
		cmd.Wait()
	}()
	t.Cleanup(r.kill)
	return r
}

// await returns what follows the prefix in the first line that has it, of what the
// victim has said or is yet to say. Each line is awaited once, and those that are passed
// over wait for another await: what a victim does at once it may tell in any order.
func (r *runningVictim) await(prefix string) string {
	r.t.Helper()
	timeout := time.After(90 * time.Second)
	for {
		for i, text := range r.told {
			if rest, ok := strings.CutPrefix(text, prefix); ok {
				r.told = slices.Delete(r.told, i, i+1)
				return strings.TrimSpace(rest)
			}
		}
		select {
		case line, open := <-r.lines:
			if !open {
				r.t.Fatalf("the victim has ended, and never said %q; it said\n%s", prefix, r.log.String())
			}
			r.log.WriteString(line + "\n")
			if text, ok := strings.CutPrefix(line, "victim: "); ok {
				r.told = append(r.told, text)
			}
		case <-timeout:
			r.t.Fatalf("the victim never said %q; it said\n%s", prefix, r.log.String())
		}
	}
}

// kill kills the victim with SIGKILL, and returns when it is gone.
func (r *runningVictim) kill() {
	r.cmd.Process.Kill()
	for range r.lines {
	}
	<-r.ended
}

func (r *runningVictim) signal(s syscall.Signal) { r.cmd.Process.Signal(s) }

// poolID returns the ID of the one pool in a state directory.
func poolID(t testing.TB, state string) string {
	t.Helper()
	pools, err := gputrain.StateDir(state).Pools()
	if err != nil || len(pools) != 1 {
		t.Fatalf("the state directory has %d pools, %v", len(pools), err)
	}
	return pools[0].ID
}
