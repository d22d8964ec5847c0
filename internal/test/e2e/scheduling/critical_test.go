package scheduling

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// stubborn runs "fail after TIME", and "stay", which ignores TERM, with Exec. With a variable ONLY, all but the task
// of that index stay.
func stubborn(ctx context.Context, cmd sim.Command) int {
	if only := cmd.Getenv("ONLY"); cmd.Args[0] == "stay" || only != "" && only != cmd.Getenv("GPUTRAIN_TASK_INDEX") {
		<-ctx.Done()
		time.Sleep(time.Minute) // longer than any grace
		return 0
	}
	after, err := time.ParseDuration(cmd.Args[1])
	if err != nil {
		return 2
	}
	time.Sleep(after)
	cmd.Stderr.Write([]byte("loss is NaN\n"))
	return 7
}

// firstOf checks the error of a call: it is the failure of a task with exit code 7, and no cancellation.
func firstOf(t *testing.T, err error, results []gputrain.Result, first int) {
	t.Helper()
	var failed *gputrain.TaskError
	if !errors.As(err, &failed) || failed.Index != first || failed.ExitCode != 7 || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "loss is NaN") {
		t.Errorf("%v", err)
	}
	for i, r := range results {
		if r.ExitCode == 7 {
			continue
		}
		var why *gputrain.TaskError
		if !errors.As(r.Err, &failed) || failed.Cause != gputrain.CauseCancelled || !errors.Is(r.Err, context.Canceled) || !errors.As(failed.Err, &why) || why.Index != first || why.ExitCode != 7 {
			t.Errorf("task %d: %v", i, r.Err)
		}
		if text := r.Err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "cancelled: a critical task of the call has failed: ") || !strings.Contains(text, "exit code 7") {
			t.Errorf("task %d: %q", i, text)
		}
	}
}

// A broadcast of a critical task ends within a second of the first failure, though the other shares ignore TERM. The time
// is virtual.
func TestCriticalBroadcast(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Exec: stubborn}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 4})
		task := gputrain.Cmd("fail", "1m")
		task.Critical, task.Env = true, map[string]string{"ONLY": "2"}
		began := time.Now()
		results, err := p.Broadcast(task)
		if took := time.Since(began); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("it took %v", took)
		}
		if len(results) != 4 {
			t.Fatalf("%d results, %v", len(results), err)
		}
		firstOf(t, err, results, 2)
		if text := err.Error(); !strings.HasPrefix(text, "node 2: exit code 7") || !strings.HasSuffix(text, "\n3 other tasks cancelled because of the first failure, of a critical task") || strings.Count(text, "node ") != 1 {
			t.Errorf("%q", text)
		}
		c.CloseAndCheck(t, p)
	})
}

// A task that is not critical fails alone, and one that is has its retries first. Other calls go on.
func TestCriticalGather(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Exec: stubborn}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 5})
		early, critical, stays := gputrain.Cmd("fail", "1s"), gputrain.Cmd("fail", "10s"), gputrain.Cmd("stay")
		critical.Critical, critical.Retries = true, 2
		other := p.Start(gputrain.Cmd("fail", "2m"))
		results, err := p.Gather(early, critical, stays, stays)
		if len(results) != 4 {
			t.Fatalf("%d results, %v", len(results), err)
		}
		firstOf(t, err, results, 1)
		if results[0].ExitCode != 7 || results[1].Attempts != 3 {
			t.Errorf("%+v", results)
		}
		text := err.Error()
		if first, second := strings.Index(text, "task 1 "), strings.Index(text, "task 0 "); first != 0 || second < first || strings.Count(text, "cancelled") != 1 {
			t.Errorf("%q", text)
		}
		if r, _ := other.Wait(); r.ExitCode != 7 {
			t.Errorf("another call: %v", r.Err)
		}
		c.CloseAndCheck(t, p)
	})
}

// Tasks that have not begun when a critical one fails never do.
func TestCriticalGatherThatWaits(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Exec: stubborn}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2})
		critical, stays := gputrain.Cmd("fail", "10s"), gputrain.Cmd("stay")
		critical.Critical = true
		results, err := p.Gather(stays, critical, stays, stays)
		firstOf(t, err, results, 1)
		if results[0].Attempts != 1 || results[3].Attempts != 0 {
			t.Errorf("%+v", results)
		}
		c.CloseAndCheck(t, p)
	})
}

// A share that is lost with its node fails the broadcast too.
func TestCriticalBroadcastLosesANode(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Exec: stubborn}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 3})
		task := gputrain.Cmd("stay")
		task.Critical = true
		time.AfterFunc(time.Minute, func() { c.Vanish(p.Nodes()[1].ID) })
		results, err := p.Broadcast(task)
		var failed *gputrain.TaskError
		if !errors.As(err, &failed) || failed.Cause != gputrain.CauseNodeLost || failed.Index != 1 || !errors.Is(results[0].Err, gputrain.ErrNodeLost) || !errors.Is(results[0].Err, context.Canceled) {
			t.Errorf("%v", err)
		}
		c.CloseAndCheck(t, p)
	})
}

// A stream yields the failure and the cancelled tasks, and two critical tasks that fail on their own are both failures.
func TestCriticalStream(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Exec: stubborn}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 3})
		critical, stays := gputrain.Cmd("fail", "10s"), gputrain.Cmd("stay")
		critical.Critical = true
		codes, cancelled := 0, 0
		for r, err := range p.Stream(critical, critical, stays, stays) {
			var failed *gputrain.TaskError
			switch {
			case r.ExitCode == 7:
				codes++
			case errors.As(err, &failed) && failed.Cause == gputrain.CauseCancelled:
				cancelled++
			default:
				t.Errorf("%v", err)
			}
		}
		if codes+cancelled != 4 || codes < 1 || cancelled < 2 {
			t.Errorf("%d failed, %d cancelled", codes, cancelled)
		}
		c.CloseAndCheck(t, p)
	})
}
