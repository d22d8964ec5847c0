//go:build unix

package tasks

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// hang reports a step and then waits for the end of its context.
var hang = gputrain.Func("tasks.hang", func(ctx context.Context, step int64) (int, error) {
	gputrain.ReportStep(ctx, gputrain.Step{N: step})
	<-ctx.Done()
	return 0, context.Cause(ctx)
})

// recorded are events of tasks and of their steps, in order: "step 3/9", "done".
type recorded struct {
	mu  sync.Mutex
	all map[string][]string // by task
}

func (r *recorded) add(ev gputrain.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string][]string{}
	}
	switch ev.Kind {
	case gputrain.EventTask:
		r.all[ev.Name] = append(r.all[ev.Name], ev.State)
	case gputrain.EventStep:
		r.all[ev.Name] = append(r.all[ev.Name], fmt.Sprintf("step %d/%d %v on %d, attempt %d", ev.Step.N, ev.Step.Of, ev.Step.Values, ev.Node, ev.Attempt))
	}
}

func (r *recorded) of(task string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all[task])
}

// The last step of a task is an event before its end, in whatever way it is reported.
func TestSteps(t *testing.T) {
	var events recorded
	pool := e2etest.Open(t, gputrain.Spec{Concurrency: 4}, gputrain.WithEvents(events.add))
	scripts := map[string]string{
		"stdout":   `echo gputrain: step=1/9; echo "gputrain: step=9/9 loss=0.5"`,
		"stderr":   `echo gputrain: step=1/9 >&2; printf '[1,4]<stderr>:gputrain: step=9/9 loss=0.5' >&2`,
		"torchrun": `for i in 1 2 3; do echo "[default0]:gputrain: step=$i/9"; echo "[default1]:epoch $i"; done; echo "[default0]:gputrain: step=9/9 loss=0.5"`,
		"file":     `echo "1/9" >"$GPUTRAIN_STEPS/.0"; mv "$GPUTRAIN_STEPS/.0" "$GPUTRAIN_STEPS/0"; echo "9/9 loss=0.5" >"$GPUTRAIN_STEPS/.0"; mv "$GPUTRAIN_STEPS/.0" "$GPUTRAIN_STEPS/0"`,
		"failure":  `echo "gputrain: step=9/9 loss=0.5"; exit 3`,
	}
	var tasks []gputrain.Task
	for name, script := range scripts {
		task := gputrain.Script(script)
		task.Name = name
		tasks = append(tasks, task)
	}
	results, err := pool.Gather(tasks...)
	for _, r := range results {
		if (r.Err != nil) != (tasks[r.Index].Name == "failure") {
			t.Errorf("%s: %v", tasks[r.Index].Name, r.Err)
		}
	}
	var failed *gputrain.TaskError
	if !errors.As(err, &failed) || failed.Step != 9 {
		t.Errorf("%+v", failed)
	}
	for name := range scripts {
		end := "done"
		if name == "failure" {
			end = "failed"
		}
		e2etest.Until(t, "the end of "+name, func() bool { return slices.Contains(events.of(name), end) })
		got := events.of(name)
		if want := []string{"step 9/9 map[loss:0.5] on 0, attempt 1", end}; len(got) < 3 || !slices.Equal(got[len(got)-2:], want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A step file that is written while its task runs becomes an event while it runs.
func TestStepFileOfARunningTask(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it takes ten seconds")
	}
	var events recorded
	dir := t.TempDir()
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithEvents(events.add))
	task := gputrain.Script(`echo "5/9" >"$GPUTRAIN_STEPS/0"; until [ -e '` + dir + `/go' ]; do sleep 0.1; done`)
	task.Name = "train"
	job := pool.Start(task)
	e2etest.Until(t, "the step", func() bool { return slices.Contains(events.of("train"), "step 5/9 map[] on 0, attempt 1") })
	e2etest.Write(t, filepath.Join(dir, "go"), nil)
	if _, err := job.Wait(); err != nil {
		t.Error(err)
	}
}

// An attempt that makes no progress ends, whatever it prints and ignores, and the next one follows. ExampleTask_stallTimeout
// has a real one.
func TestStall(t *testing.T) {
	exec := func(_ context.Context, cmd sim.Command) int {
		attempt := cmd.Getenv("GPUTRAIN_ATTEMPT")
		for step := range 5 {
			fmt.Fprintf(cmd.Stdout, "gputrain: step=%s%d\n", attempt, step)
			time.Sleep(7 * time.Minute)
		}
		for until := time.Now().Add(time.Hour); attempt == "1" && time.Now().Before(until); {
			if _, err := fmt.Fprintln(cmd.Stdout, "still here"); err != nil {
				return -9 // it is killed
			}
			time.Sleep(200 * time.Millisecond)
		}
		return 0
	}
	e2etest.InCloud(t, sim.Options{Exec: exec}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{})
		task := gputrain.Cmd("train")
		task.StallTimeout, task.Retries = 8*time.Minute, 1
		begun := time.Now()
		r, err := p.Run(task)
		if took := time.Since(begun); err != nil || r.Attempts != 2 || took < 71*time.Minute || took > 73*time.Minute {
			t.Errorf("after %v: %+v, %v", took, r, err)
		}
		var failed *gputrain.TaskError
		for _, e := range c.Events() {
			if e.Kind == gputrain.EventRetry && errors.As(e.Err, &failed) && (failed.Cause != gputrain.CauseStalled || failed.Step != 14) {
				t.Errorf("%+v", failed)
			}
		}
		if failed == nil {
			t.Error("no event has the failure")
		}
		c.CloseAndCheck(t, p)
	})
}

// The context of a function that makes no progress ends with a cause. The error has the step and the stack of the
// function.
func TestStallOfAFunction(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	call := hang.Call(7)
	call.StallTimeout = 5 * time.Second // the least
	_, err := pool.Run(call)
	var failed *gputrain.TaskError
	if !errors.As(err, &failed) || failed.Cause != gputrain.CauseStalled || failed.Step != 7 || !errors.Is(err, gputrain.ErrStalled) || !strings.Contains(failed.Stack, "steps_test.go") {
		t.Fatalf("%v", err)
	}
}

func TestStallTimeoutBounds(t *testing.T) {
	for timeout, want := range map[time.Duration]bool{-1: false, 0: true, time.Second: false, 5 * time.Second: true, time.Hour: true} {
		task := gputrain.Cmd("true")
		task.StallTimeout = timeout
		if err := task.Validate(); (err == nil) != want || err != nil && !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("%v: %v", timeout, err)
		}
	}
}
