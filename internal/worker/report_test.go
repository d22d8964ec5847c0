package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain/internal/steps"
	"github.com/gputrain/gputrain/providers/driver"
)

// reports are the steps that a client is told.
type reports struct {
	mu   sync.Mutex
	all  []steps.Step
	came chan struct{} // receives after each
}

func newReports() *reports { return &reports{came: make(chan struct{}, 1)} }

func (r *reports) add(s steps.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, s)
	select {
	case r.came <- struct{}{}:
	default:
	}
}

// until waits for a step.
func (r *reports) until(t *testing.T, n int64) {
	t.Helper()
	for {
		r.mu.Lock()
		there := len(r.all) > 0 && r.all[len(r.all)-1].N == n
		r.mu.Unlock()
		if there {
			return
		}
		select {
		case <-r.came:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// wantEnd checks the steps of the function "steps" after its end: the last one came, and not each of the others.
func (r *reports) wantEnd(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == 0 || len(r.all) > 5000 {
		t.Fatalf("%d steps", len(r.all))
	}
	if got, want := fmt.Sprint(r.all[len(r.all)-1]), fmt.Sprint(steps.Step{N: 10_000, Rank: 3, Values: map[string]float64{"loss": 0.5}}); got != want {
		t.Errorf("the last is %s, want %s", got, want)
	}
}

// Steps that come faster than they can be sent are dropped, but the last one comes: soon while the function runs, again over
// a new connection, and before the result.
func TestReport(t *testing.T) {
	n, m, r := startNode(t), newMeeting(t), newReports()
	c := dial(t, n, Hello{})
	ended := make(chan string, 1)
	go func() {
		got, err := c.Call(t.Context(), Request{Function: "steps", Arg: body(m.arg()), Step: r.add})
		ended <- fmt.Sprint(string(got.Head), err)
	}()
	conn := m.accept(t)
	r.until(t, 9999)
	r.mu.Lock()
	r.all = nil
	r.mu.Unlock()
	n.last().cmd.Process.Kill()
	r.until(t, 9999)
	answer(t, conn, "done")
	if got := <-ended; got != "done<nil>" {
		t.Errorf("got %q", got)
	}
	r.wantEnd(t)
	// A caller that does not want them, and a program outside of a call.
	conns := make(chan string, 1)
	go func() {
		got, err := c.Call(t.Context(), Request{Function: "steps", Arg: body(m.arg())})
		conns <- fmt.Sprint(string(got.Head), err)
	}()
	answer(t, m.accept(t), "again")
	if got := <-conns; got != "again<nil>" {
		t.Errorf("got %q", got)
	}
	Report(t.Context(), steps.Step{N: 1})
}

// A client that adopts a call gets its newest step, and those that follow, if it collects the call.
func TestReportOfAnAdoptedCall(t *testing.T) {
	n, m := startNode(t), newMeeting(t)
	first := dial(t, n, Hello{})
	call, err := first.start(Request{ID: 7, Function: "steps", Arg: body(m.arg())}, true)
	if err != nil {
		t.Fatal(err)
	}
	conn := m.accept(t)
	first.Close()
	<-call.done
	c, r := dial(t, n, Hello{Generation: 2, Adopt: true}), newReports()
	ended := make(chan string, 1)
	go func() {
		got, release, err := c.CollectHold(t.Context(), 7, Collection{Step: r.add})
		release()
		ended <- fmt.Sprint(string(got.Head), err)
	}()
	r.until(t, 9999)
	answer(t, conn, "done")
	if got := <-ended; got != "done<nil>" {
		t.Errorf("got %q", got)
	}
	r.wantEnd(t)
}

func TestStacks(t *testing.T) {
	n, m := startNode(t), newMeeting(t)
	c := dial(t, n, Hello{})
	ended := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), Request{Function: "meet", Arg: body(m.arg())})
		ended <- err
	}()
	conn := m.accept(t)
	if got, err := c.Stacks(t.Context()); err != nil || !strings.Contains(got, "worker.meet(") {
		t.Errorf("%q, %v", got, err)
	}
	answer(t, conn, "")
	<-ended
}

// The context of a function that has stalled ends with a cause that says so.
func TestCauseOfAStall(t *testing.T) {
	n := startNode(t)
	c := dial(t, n, Hello{Grace: patience})
	for cause, want := range map[error]string{fmt.Errorf("no step: %w", driver.ErrStalled): errStalled.Error(), driver.ErrBudget: context.Canceled.Error()} {
		m := newMeeting(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan string, 1)
		go func() {
			got, err := c.Call(ctx, Request{Function: "cause", Arg: body(m.arg())})
			ended <- fmt.Sprint(string(got.Head), err)
		}()
		m.accept(t)
		cancel(cause)
		if got := <-ended; got != want+"<nil>" {
			t.Errorf("%v: %q", cause, got)
		}
	}
}
