//go:build unix

package calls

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/steps"
	"github.com/gputrain/gputrain/internal/worker"
	"github.com/gputrain/gputrain/providers/driver"
)

// A diary records the calls of an attempt.Progress.
type diary struct {
	mu    sync.Mutex
	steps []int64
	bytes int
}

func (d *diary) Step(s steps.Step) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = append(d.steps, s.N)
}

func (d *diary) Output(p []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bytes += len(p)
}

// Steps come from what a function reports and from what it prints.
func TestSteps(t *testing.T) {
	h, got := newTestHost(t, newFakeNode(t), 1, time.Minute), &diary{}
	c := newCall(t.Context(), "t1", "step", "")
	c.Progress = got
	if o := h.Call(c); o.Failure != nil || int64(got.bytes) != o.Stdout.Bytes {
		t.Errorf("%+v, %d bytes", o, got.bytes)
	}
	slices.Sort(got.steps)
	if !slices.Equal(got.steps, []int64{3, 4}) {
		t.Errorf("%v", got.steps)
	}
}

// A function that makes no progress ends with its context, whose cause says so. Where it was is in the failure.
func TestStalledCall(t *testing.T) {
	t.Parallel() // it waits
	h := newTestHost(t, newFakeNode(t), 1, time.Minute)
	c := newCall(t.Context(), "t1", "hang", "")
	c.Stall = attempt.NewStall(100 * time.Millisecond)
	o := h.Call(c)
	if f := o.Failure; f == nil || f.Cause != attempt.Stalled || !errors.Is(f.Err, driver.ErrStalled) || !strings.Contains(f.Err.Error(), "step 7") || !strings.Contains(f.Stack, "calls.TestMain") || o.Gone != nil {
		t.Fatalf("%+v", f)
	}
	if f := h.Call(newCall(t.Context(), "t2", "step", "")).Failure; f != nil {
		t.Errorf("the next call: %+v", f)
	}
}

// A function that ignores the end of its context is left alone, and its process gets no other call.
func TestStalledCallThatGoesOn(t *testing.T) {
	t.Parallel() // it waits
	n := newFakeNode(t)
	h, file := newTestHost(t, n, 1, 50*time.Millisecond), filepath.Join(n.root, "go")
	c := newCall(t.Context(), "t1", "stubborn", file)
	c.Stall = attempt.NewStall(100 * time.Millisecond)
	o := h.Call(c)
	if f := o.Failure; f == nil || f.Cause != attempt.Stalled || !strings.Contains(f.Err.Error(), "ignored") || o.Gone == nil {
		t.Fatalf("%+v", f)
	}
	<-o.Gone
}

// What calls print that run at the same time counts for each of them.
func TestCrowdedCallsDoNotStall(t *testing.T) {
	t.Parallel() // it waits
	n := newFakeNode(t)
	h, file := newTestHost(t, n, 1, time.Minute), filepath.Join(n.root, "go")
	var calls sync.WaitGroup
	for _, id := range []string{"t1", "t2"} {
		c := newCall(t.Context(), id, "chatter", file)
		c.Stall = attempt.NewStall(100 * time.Millisecond)
		calls.Go(func() {
			if f := h.Call(c).Failure; f != nil {
				t.Errorf("%+v", f)
			}
		})
	}
	time.Sleep(3 * time.Second) // longer than the timeout with all that is waited for
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
}

// Steps of an adopted call come too, the newest at once.
func TestStepsOfAnAdoptedCall(t *testing.T) {
	t.Parallel() // it waits
	n := newFakeNode(t)
	c := newCall(t.Context(), "wanted", "hang", "")
	c.Hold = true
	begun := &diary{}
	c.Progress = begun
	go newTestHost(t, n, 1, time.Minute).Call(c)
	until(t, "a step", func() bool { begun.mu.Lock(); defer begun.mu.Unlock(); return len(begun.steps) > 0 })
	later, got, outcome := newTestHost(t, n, 2, time.Minute), &diary{}, make(chan attempt.Outcome, 1)
	later.Adopt(n.workers()[0], func(held worker.HeldCall) *Claim {
		c := newCall(t.Context(), "wanted", held.Function, "")
		c.Progress, c.Stall = got, attempt.NewStall(100*time.Millisecond)
		return &Claim{Call: c, Since: time.Now(), Done: func(o attempt.Outcome) { outcome <- o }}
	})
	o := <-outcome
	if o.Failure == nil || o.Failure.Cause != attempt.Stalled || !slices.Equal(got.steps, []int64{7}) {
		t.Errorf("%v, %+v", got.steps, o.Failure)
	}
	o.Release()
}
