package scheduler

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// submit submits a batch of tasks with a target. Each task may be retried so often.
func submit(t *testing.T, s *Scheduler, began chan *attempt, tasks, retries int, target Target) (*Batch, []*testWork) {
	b := s.NewBatch(t.Context(), t.Context())
	var all []*testWork
	for i := range tasks {
		all = append(all, newWork(b, i, retries, target, began))
	}
	b.Submit()
	return b, all
}

// want fails the test unless a task has ended in this way.
func want(t *testing.T, w *testWork, how string) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-w.ended:
		if got != how || !w.IsOver() {
			t.Errorf("task %d: %s, not %s", w.index, got, how)
		}
	default:
		t.Errorf("task %d has not ended, but for: %s", w.index, how)
	}
}

// A task is started again as often as Retries allows, after growing pauses.
func TestSchedulerRetries(t *testing.T) {
	for _, tt := range []struct {
		name    string
		retries int
		ends    []Failure
		how     string
		pauses  []time.Duration
		never   bool
		pinned  bool
	}{
		{name: "a success", ends: []Failure{None}, how: "done"},
		{name: "no retries", ends: []Failure{Failed}, how: "failed"},
		{name: "a second success", retries: 3, ends: []Failure{Failed, None}, how: "done", pauses: []time.Duration{500 * time.Millisecond}},
		{name: "all fail", retries: 2, ends: []Failure{Failed, Failed, Failed}, how: "failed", pauses: []time.Duration{500 * time.Millisecond, time.Second}},
		{name: "final", retries: 2, ends: []Failure{Final}, how: "final"},
		{name: "lost nodes", ends: []Failure{Lost, Lost, Lost, Lost}, how: "lost", pauses: []time.Duration{0, 0, 0}},
		{name: "lost nodes do not count as failures", retries: 1, ends: []Failure{Lost, Failed, Lost, None}, how: "done", pauses: []time.Duration{0, 500 * time.Millisecond, 0}},
		{name: "a share of a broadcast is not done elsewhere", retries: 2, ends: []Failure{Lost}, how: "lost", pinned: true},
		{name: "a share of a broadcast may fail", retries: 1, ends: []Failure{Failed, None}, how: "done", pinned: true, pauses: []time.Duration{500 * time.Millisecond}},
		{name: "what cannot be repeated", retries: 2, ends: []Failure{Failed}, how: "failed", never: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newTest(t, 2, 1, false)
				began := make(chan *attempt, 1)
				b := s.NewBatch(t.Context(), t.Context())
				defer b.Close()
				w := newWork(b, 0, tt.retries, Target{}, began)
				w.never = tt.never
				if tt.pinned {
					w.PinTo(s.queues.nodes[1])
				}
				b.Submit()
				for i, end := range tt.ends {
					a := <-began
					if tt.pinned && a.n != s.queues.nodes[1] {
						t.Error("it ran on another node")
					}
					if last := w.IsLast(end); !tt.never && last != (i == len(tt.ends)-1) {
						t.Errorf("attempt %d is the last: %t", i+1, last)
					}
					if w.Attempts != i+1 {
						t.Errorf("attempt %d counts as %d", i+1, w.Attempts)
					}
					a.end <- end
				}
				want(t, w, tt.how)
				if !slices.Equal(w.waits, tt.pauses) || w.queued != 1 {
					t.Errorf("pauses of %v, queued %d times", w.waits, w.queued)
				}
			})
		})
	}
}

func TestPausesGrow(t *testing.T) {
	var pauses []time.Duration
	for failures := range 100 {
		pauses = append(pauses, pauseAfter(failures+1))
	}
	if !slices.IsSorted(pauses) || pauses[0] != 500*time.Millisecond || pauses[99] != 30*time.Second {
		t.Errorf("%v", pauses)
	}
}

// The end of a batch's context ends its tasks, wherever they are, and no other tasks.
func TestSchedulerCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 1, 1, false)
		began := make(chan *attempt, 10)
		b, tasks := submit(t, s, began, 3, 1, Target{})
		other, others := submit(t, s, began, 1, 0, Target{})
		(<-began).end <- Failed // it waits for its retry
		(<-began).end <- None   // its batch had its turn before the other was submitted
		next := <-began
		if next.w != others[0] {
			t.Error("the other batch has no turn")
		}
		b.Cancel()
		want(t, tasks[0], "cancelled: context canceled")
		want(t, tasks[1], "done")
		want(t, tasks[2], "cancelled: context canceled")
		next.end <- None
		want(t, others[0], "done")
		b.Close()
		other.Close()
		late := s.NewBatch(t.Context(), t.Context())
		w := newWork(late, 0, 0, Target{}, began)
		late.Cancel()
		if late.RunHere() {
			t.Error("it runs after the end of its context")
		}
		late.Submit()
		want(t, w, "cancelled: context canceled")
		late.Close()
	})
}

// Tasks that the scheduler's Submit queues are watched for the end of their batch's context.
func TestSchedulerCancelsWatchedTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 1, 1, false)
		began := make(chan *attempt, 1)
		b := s.NewBatch(t.Context(), t.Context())
		w := newWork(b, 0, 0, Target{}, began)
		s.TakeTurn(&w.Task)
		b.Watch()
		busy, works := submit(t, s, began, 1, 0, Target{})
		s.Submit(&w.Task)
		a := <-began
		b.Cancel()
		want(t, w, "cancelled: context canceled")
		a.end <- None
		want(t, works[0], "done")
		b.Close()
		busy.Close()
	})
}

// A task whose turn was taken precedes tasks that were submitted after that.
func TestSchedulerTakeTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 1, 1, false)
		began := make(chan *attempt, 1)
		first := s.NewBatch(t.Context(), t.Context())
		w := newWork(first, 0, 0, Target{}, began)
		s.TakeTurn(&w.Task)
		busy, _ := submit(t, s, began, 3, 0, Target{})
		first.Submit()
		a := <-began
		a.end <- None
		if a = <-began; a.w != w {
			t.Error("it waits for another batch")
		}
		a.end <- None
		for range 2 {
			(<-began).end <- None
		}
		first.Close()
		busy.Close()
	})
}

// After Close nothing is accepted, and running tasks go on.
func TestSchedulerRefusesAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 1, 2, false)
		began := make(chan *attempt, 1)
		b, runs := submit(t, s, began, 1, 0, Target{})
		a := <-began
		s.lock.Lock()
		s.Close()
		s.lock.Unlock()
		late, works := submit(t, s, began, 2, 0, Target{})
		for _, w := range works {
			want(t, w, "refused")
		}
		if again := s.NewBatch(t.Context(), t.Context()); newWork(again, 0, 0, Target{}, began) == nil || again.RunHere() {
			t.Error("a task runs after Close")
		}
		a.end <- None
		want(t, runs[0], "done")
		b.Close()
		late.Close()
	})
}

// A leaving node takes only tasks that are pinned to it.
func TestSchedulerLeavingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 1, 1, false)
		n := s.queues.nodes[0]
		set(s, n, Leaving)
		began := make(chan *attempt, 10)
		b, waits := submit(t, s, began, 1, 0, Target{})
		share := s.NewBatch(t.Context(), t.Context())
		pinned := newWork(share, 0, 0, Target{}, began)
		pinned.PinTo(n)
		share.Submit()
		a := <-began
		if a.w != pinned {
			t.Error("another task than the pinned one runs")
		}
		a.end <- None
		want(t, pinned, "done")
		if h := n.host.(*testHost); h.idle != 1 || n.Busy() != 0 {
			t.Errorf("it was idle %d times, and %d slots are taken", h.idle, n.Busy())
		}
		b.Cancel()
		want(t, waits[0], "cancelled: context canceled")
		b.Close()
		share.Close()
	})
}

// A slot stays taken until what an attempt left behind is gone. The attempt's result does not wait.
func TestSchedulerWaitsForWhatGoesOn(t *testing.T) {
	for _, here := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newTest(t, 1, 1, false)
			began := make(chan *attempt, 10)
			b := s.NewBatch(t.Context(), t.Context())
			w := newWork(b, 0, 0, Target{}, began)
			w.gone = make(chan struct{})
			ran := make(chan bool, 1)
			if here {
				go func() { ran <- b.RunHere() }()
			} else {
				b.Submit()
				ran <- true
			}
			a := <-began
			next, works := submit(t, s, began, 1, 0, Target{})
			a.end <- Failed
			want(t, w, "failed")
			if !<-ran {
				t.Error("there was a free slot")
			}
			if n := s.queues.nodes[0]; n.Busy() != 1 || len(began) > 0 {
				t.Errorf("%d slots are taken, %d tasks began", n.Busy(), len(began))
			}
			close(w.gone)
			(<-began).end <- None
			want(t, works[0], "done")
			b.Close()
			next.Close()
		})
	}
}

// A task that runs already has its slot. When the slot is freed, the next task gets it.
func TestTakeAndFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 1, 2, false)
		n := s.queues.nodes[0]
		s.lock.Lock()
		got := []bool{s.Take(n, 1), s.Take(n, 1), s.Take(n, 2), s.Take(n, -1)}
		s.lock.Unlock()
		if !slices.Equal(got, []bool{true, false, false, false}) {
			t.Errorf("%v", got)
		}
		began := make(chan *attempt, 10)
		b, works := submit(t, s, began, 2, 0, Target{})
		first := <-began
		if first.slot != 0 {
			t.Errorf("slot %d", first.slot)
		}
		s.Free(n, 1)
		second := <-began
		if second.slot != 1 || second.w != works[1] {
			t.Errorf("slot %d", second.slot)
		}
		first.end <- None
		second.end <- None
		want(t, works[0], "done")
		want(t, works[1], "done")
		b.Close()
	})
}

// Demand counts running and waiting tasks, and the ranks that are asked for.
func TestDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(t, 1, 2, true)
		f.most, f.grows = 9, true
		began := make(chan *attempt, 10)
		any, _ := submit(t, s, began, 5, 0, Target{})
		ranked, _ := submit(t, s, began, 1, 0, OnRank(6))
		s.lock.Lock()
		d := s.Demand()
		s.lock.Unlock()
		if d.Tasks != 6 || d.Ranks != 7 || d.Units != nil || f.rescaled == 0 {
			t.Errorf("%+v, rescaled %d times", d, f.rescaled)
		}
		any.Cancel()
		ranked.Cancel()
		any.Close()
		ranked.Close()
	})
}

// Many tasks in several goroutines end, and every slot is free then.
func TestSchedulerUnderLoad(t *testing.T) {
	s, _ := newTest(t, 4, 3, false)
	began := make(chan *attempt)
	go func() {
		for i := 0; ; i++ {
			a, more := <-began
			if !more {
				return
			}
			a.end <- []Failure{None, None, Lost, None}[i%4]
		}
	}()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			b, _ := submit(t, s, began, 200, 0, Target{})
			for _, task := range b.tasks {
				<-task.Over()
			}
			b.Close()
		})
	}
	all.Wait()
	s.running.Wait()
	close(began)
	for _, n := range s.queues.nodes {
		if n.Busy() != 0 || n.Pinned() != 0 || slices.Contains(n.slots, true) {
			t.Errorf("rank %d has %d slots taken", n.rank, n.Busy())
		}
	}
}
