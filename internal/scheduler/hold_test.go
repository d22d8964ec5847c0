package scheduler

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// grown returns what a Grow that has begun returns.
func grown(ctx context.Context, h *Hold, n int) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := h.Grow(ctx, n)
		done <- err
	}()
	return done
}

func TestHoldTakesWholeNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 2, 2, false)
		began := make(chan *attempt, 6)
		b := s.NewBatch(t.Context(), t.Context())
		for i := range 6 {
			newWork(b, i, 0, Target{}, began)
		}
		b.Submit()
		synctest.Wait()
		if len(began) != 4 {
			t.Fatalf("%d tasks run in 4 slots", len(began))
		}
		h := newHold(s)
		done := grown(t.Context(), h, 2)
		synctest.Wait()
		for range 3 {
			(<-began).end <- None
			synctest.Wait()
		}
		if len(began) != 1 || len(done) != 0 {
			t.Errorf("%d tasks run, want the one that ran before; nodes were had: %v", len(began), len(done) > 0)
		}
		(<-began).end <- None
		if err := <-done; err != nil || len(h.nodes) != 2 {
			t.Fatal(err, len(h.nodes))
		}
		synctest.Wait()
		if len(began) != 0 {
			t.Error("a task has started on a node that is held")
		}
		h.Release()
		synctest.Wait()
		if len(began) != 2 {
			t.Errorf("after the release %d tasks run, want the 2 that waited", len(began))
		}
		(<-began).end <- None
		(<-began).end <- None
		b.Close()
	})
}

// Two holds never block each other with a part of what each needs.
func TestHoldsGetTheirNodesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 3, 1, false)
		first, second, small := newHold(s), newHold(s), newHold(s)
		if _, err := first.Grow(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		waits := grown(t.Context(), second, 3)
		synctest.Wait()
		overtakes := grown(t.Context(), small, 1)
		synctest.Wait()
		if len(second.nodes) != 0 || len(small.nodes) != 0 {
			t.Errorf("%d and %d nodes, before as many as the first of them needs are free", len(second.nodes), len(small.nodes))
		}
		// One that has nodes comes first: others wait for those.
		if nodes, err := first.Grow(t.Context(), 3); err != nil || len(nodes) != 3 {
			t.Fatal(nodes, err)
		}
		first.Release()
		if err := <-waits; err != nil {
			t.Fatal(err)
		}
		second.Release()
		if err := <-overtakes; err != nil {
			t.Fatal(err)
		}
		small.Release()
	})
}

func TestHoldReplacesNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(t, 3, 1, false)
		h := newHold(s)
		nodes, err := h.Grow(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		lost, spare := nodes[0], s.queues.nodes[2]
		set(s, lost, Over)
		h.Drop(lost, true)
		nodes, err = h.Grow(t.Context(), 2)
		if err != nil || !slices.Contains(nodes, spare) || slices.Contains(nodes, lost) {
			t.Fatalf("%v, %v: want the spare", nodes, err)
		}
		h.Drop(spare, true)
		f.grows = true
		done := grown(t.Context(), h, 2)
		synctest.Wait()
		fresh := addNode(s, 1, 0) // in place of the lost one
		lock(s, s.Dispatch)
		if err := <-done; err != nil || !slices.Contains(h.nodes, fresh) || slices.Contains(h.nodes, spare) {
			t.Errorf("%v: want the new node, and never a broken one again", err)
		}
		h.Release()
	})
}

// A hold waits for what takes the place of a broken node, and not for a broken node that stays.
func TestHoldOfBrokenNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(t, 2, 1, false)
		h := newHold(s)
		nodes, err := h.Grow(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		set(s, nodes[0], Leaving)
		h.Drop(nodes[0], true)
		done := grown(t.Context(), h, 2)
		synctest.Wait()
		fresh := addNode(s, 1, 0)
		set(s, nodes[0], Over)
		if err := <-done; err != nil || !slices.Contains(h.nodes, fresh) {
			t.Errorf("%v, %v", h.nodes, err)
		}
		h.Drop(fresh, true)
		f.grows = true
		ctx, cancel := context.WithCancel(t.Context())
		done = grown(ctx, h, 2)
		synctest.Wait()
		if d := demand(s); d.Held != 3 {
			t.Errorf("it demands %d nodes, want 3: its own, another one, and the broken one that stays", d.Held)
		}
		cancel()
		<-done
		f.grows = false
		if _, err := h.Grow(t.Context(), 2); !errors.Is(err, errNoNodes) {
			t.Errorf("a broken node that stays: %v", err)
		}
		h.Release()
	})
}

// Two holds that each lack a node that the other has do not block each other: the last one to ask gets it, and then the
// other, but never one that is in use.
func TestHoldsThatHaveDroppedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 4, 1, false)
		first, second := newHold(s), newHold(s)
		one, err := first.Grow(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		two, err := second.Grow(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		set(s, one[0], Over)
		first.Drop(one[0], false)
		second.Drop(two[0], true) // it stays, and is good enough for the other
		set(s, two[0], Away)
		gets := grown(t.Context(), first, 2)
		synctest.Wait()
		then := grown(t.Context(), second, 2)
		if err := <-then; err != nil || len(second.nodes) != 2 || !slices.Contains(second.nodes, one[1]) {
			t.Errorf("%v, with %d nodes", err, len(second.nodes))
		}
		set(s, two[0], Open)
		synctest.Wait()
		if len(gets) > 0 || len(first.nodes) > 1 {
			t.Error("a hold has got a node that another one uses")
		}
		second.Release()
		if err := <-gets; err != nil || len(first.nodes) != 2 {
			t.Errorf("%v, with %d nodes", err, len(first.nodes))
		}
		first.Release()
	})
}

func TestHoldThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(t, 2, 1, false)
		h := newHold(s)
		if _, err := h.Grow(t.Context(), 3); !errors.Is(err, errNoNodes) || len(h.nodes) != 0 {
			t.Errorf("3 of 2 nodes: %v", err)
		}
		f.grows = true
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errOver)
		defer cancel()
		if _, err := h.Grow(ctx, 3); err != errOver {
			t.Errorf("after the end of its context: %v", err)
		}
		done := grown(t.Context(), h, 3)
		synctest.Wait()
		if d := demand(s); d.Held != 3 {
			t.Errorf("it demands %d nodes, want 3", d.Held)
		}
		f.grows = false
		lock(s, s.Dispatch)
		if err := <-done; !errors.Is(err, errNoNodes) {
			t.Errorf("once no node is to come: %v", err)
		}
		if d := demand(s); d.Held != 0 {
			t.Errorf("it demands %d nodes still", d.Held)
		}
	})
}

// A hold that has given back a broken node waits for the one that follows it, and not for one that goes on as it is.
func TestHoldWaitsForTheSuccessorOfABrokenNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 2, 1, false)
		h := newHold(s)
		nodes, err := h.Grow(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		h.Drop(nodes[1], true)
		if _, err := h.Grow(t.Context(), 2); !errors.Is(err, errNoNodes) {
			t.Errorf("the broken node goes on: %v", err)
		}
		set(s, nodes[1], Leaving)
		done := grown(t.Context(), h, 2)
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("the broken node is about to end: %v", err)
		default:
		}
		set(s, nodes[1], Over)
		if err := <-done; !errors.Is(err, errNoNodes) {
			t.Errorf("none follows: %v", err)
		}
	})
}

func demand(s *Scheduler) Demand {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.Demand()
}

func lock(s *Scheduler, f func()) {
	s.lock.Lock()
	defer s.lock.Unlock()
	f()
}

func newHold(s *Scheduler) (h *Hold) {
	lock(s, func() { h = NewHold(s, Target{}) })
	return h
}

// A hold whose context has ended gets no nodes, also if there are some: a pool that ends would give it the same ones again and
// again.
func TestHoldThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 2, 1, false)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("it has ended")
		cancel(why)
		h := newHold(s)
		if nodes, err := h.Grow(ctx, 2); nodes != nil || err != why {
			t.Errorf("%d nodes, %v", len(nodes), err)
		}
		h.Release()
	})
}

// A node that is set apart from a hold starts no task until its own hold gives it back, and the first hold never gets it again.
func TestHoldParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 2, 1, false)
		began := make(chan *attempt, 2)
		h := newHold(s)
		if err := <-grown(t.Context(), h, 2); err != nil {
			t.Fatal(err)
		}
		b := s.NewBatch(t.Context(), t.Context())
		newWork(b, 0, 0, Target{}, began)
		b.Submit()
		n := h.nodes[0]
		apart := h.Part(n)
		if apart == nil || h.Part(n) != nil || len(h.nodes) != 1 {
			t.Fatalf("it is apart: %v; the hold has %d nodes", apart != nil, len(h.nodes))
		}
		h.Drop(n, true) // which it has no more
		synctest.Wait()
		if len(began) != 0 {
			t.Error("a task has started on a node that is set apart")
		}
		apart.Release()
		synctest.Wait()
		if len(began) != 1 {
			t.Fatal("no task has started on a node that was given back")
		}
		(<-began).end <- None
		if err := <-grown(t.Context(), h, 2); err == nil {
			t.Error("the hold has got the node again")
		}
		h.Release()
		b.Close()
	})
}
