package scheduler

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// No task of a batch with Bound starts while too many of its results are unread. Other batches have
// the slots meanwhile.
func TestBoundHoldsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 1, 1, false)
		began := make(chan *attempt, 10)
		b := s.NewBatch(t.Context(), t.Context())
		b.Bound()
		tasks := UnreadResults + 10
		for i := range tasks {
			newWork(b, i, 0, Target{}, began)
		}
		b.Submit()
		for range UnreadResults + 1 { // a slot takes its next task before it ends the last one
			(<-began).end <- None
		}
		synctest.Wait()
		if len(began) > 0 {
			t.Fatal("a task runs though too many results wait")
		}
		other, works := submit(t, s, began, 1, 0, Target{})
		(<-began).end <- None
		want(t, works[0], "done")
		b.Taken(1)
		for range tasks - UnreadResults - 1 {
			b.Taken(1)
			(<-began).end <- None
		}
		for _, task := range b.tasks {
			<-task.Over()
		}
		b.Close()
		other.Close()
	})
}

// Large results hold tasks too.
func TestUnreadBytes(t *testing.T) {
	u := &unread{}
	u.add(UnreadBytes - 1)
	if u.hold(nil, nil) {
		t.Error("held too early")
	}
	u.add(1)
	if !u.hold(nil, nil) {
		t.Error("not held")
	}
	if !u.take(1) || u.take(1) {
		t.Error("it goes on once, as soon as there is room")
	}
	var none *unread
	none.add(1 << 40)
	if none.hold(nil, nil) {
		t.Error("a batch without a bound is held")
	}
}

// A batch's context on a node ends with either of them, and Close releases both.
func TestBatchContexts(t *testing.T) {
	s, _ := newTest(t, 1, 1, false)
	n := s.queues.nodes[0]
	also := s.NewBatch(t.Context(), t.Context())
	b := s.NewBatch(t.Context(), also.Context())
	life := s.NewBatch(t.Context(), t.Context())
	on := b.ContextOn(n, life.Context())
	if b.ContextOn(n, life.Context()) != on {
		t.Error("each attempt has a context of its own")
	}
	life.Cancel()
	<-on.Done()
	if b.Context().Err() != nil {
		t.Error("the batch ends with a node")
	}
	also.Cancel()
	<-b.Context().Done()
	b.Close()
	if b.contexts != nil || b.stops != nil {
		t.Error("the batch holds a node after Close")
	}
}

// Jobs are listed in the order of their start, until they are removed.
func TestJobs(t *testing.T) {
	var jobs Jobs[int]
	var remove []func()
	for i := range 6 {
		remove = append(remove, jobs.Add(i))
	}
	for _, i := range []int{3, 0, 5} {
		remove[i]()
	}
	if got := jobs.All(); !slices.Equal(got, []int{1, 2, 4}) {
		t.Errorf("%v", got)
	}
}

// RunHere runs a task in the caller's goroutine if a slot is free, and passes the slot on. A retry
// is queued.
func TestRunHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 1, 1, false)
		began := make(chan *attempt, 10)
		b := s.NewBatch(t.Context(), t.Context())
		w := newWork(b, 0, 1, Target{}, began)
		returned := make(chan bool, 1)
		go func() { returned <- b.RunHere() }()
		a := <-began
		other := s.NewBatch(t.Context(), t.Context())
		waits := newWork(other, 0, 0, Target{}, began)
		if other.RunHere() {
			t.Error("it ran without a slot")
		}
		other.Submit()
		a.end <- Failed
		if !<-returned || w.IsOver() {
			t.Error("it has not returned after its attempt, with another one to come")
		}
		next := <-began
		if next.w != waits {
			t.Error("the slot was not passed on")
		}
		next.end <- None
		(<-began).end <- None
		want(t, w, "done")
		want(t, waits, "done")
		b.Close()
		other.Close()
	})
}

// Fail ends what waits and what runs, with its reason, unless the batch has ended before.
func TestFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 1, 1, false)
		began := make(chan *attempt, 10)
		b, tasks := submit(t, s, began, 2, 1, Target{})
		<-began
		b.Fail(errors.New("the first"))
		b.Fail(errors.New("the second"))
		want(t, tasks[0], "final")
		want(t, tasks[1], "cancelled: the first")
		b.Close()
		if why := context.Cause(b.Context()); why.Error() != "the first" {
			t.Error(why)
		}
	})
}
