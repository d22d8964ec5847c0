package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A testHost is a machine whose state a test sets.
type testHost struct {
	state  State
	labels map[string]string
	units  int
	group  int // how many units in a row are shares of one device
	idle   int // how often the last taken slot was freed
}

func (h *testHost) State() State              { return h.state }
func (h *testHost) Labels() map[string]string { return h.labels }
func (h *testHost) Units() (count, group int) { return h.units, h.group }
func (h *testHost) End() error                { return errOver }
func (h *testHost) Idle()                     { h.idle++ }

var (
	errOver    = errors.New("the node is over")
	errNoNodes = errors.New("no node is left")
)

// A testFleet is a fleet whose state a test sets.
type testFleet struct {
	most     int
	grows    bool
	units    int
	rescaled int
}

func (f *testFleet) Most() int      { return f.most }
func (f *testFleet) Grows() bool    { return f.grows }
func (f *testFleet) Units() int     { return f.units }
func (f *testFleet) NoNodes() error { return errNoNodes }
func (f *testFleet) Rescale()       { f.rescaled++ }

func (f *testFleet) Impossible(o Obstacle) error {
	if o.Units > 0 {
		return fmt.Errorf("%v: %d units, at most %d", o.Target, o.Units, o.Most)
	}
	return fmt.Errorf("%v: %d ranks, %d over, %q", o.Target, o.Ranks, len(o.Over), o.Have)
}

// newTest returns a scheduler with open nodes.
func newTest(tb testing.TB, nodes, slots int, elastic bool) (*Scheduler, *testFleet) {
	f := &testFleet{most: nodes}
	s := New(Config{Fleet: f, Elastic: elastic, Lock: &sync.Mutex{}, Running: &sync.WaitGroup{}})
	for rank := range nodes {
		addNode(s, slots, rank)
	}
	tb.Cleanup(s.running.Wait)
	return s, f
}

// addNode gives a rank an open node.
func addNode(s *Scheduler, slots, rank int) *Node {
	s.lock.Lock()
	defer s.lock.Unlock()
	n := NewNode(&testHost{state: Open, labels: map[string]string{"host": "p-" + strconv.Itoa(rank), "zone": strconv.Itoa(rank % 3)}}, slots)
	s.Place(n, rank)
	s.Update(n)
	return n
}

// set changes a node's state, and notifies the scheduler.
func set(s *Scheduler, n *Node, state State) {
	s.lock.Lock()
	defer s.lock.Unlock()
	n.host.(*testHost).state = state
	s.Update(n)
	s.Dispatch()
}

// An attempt is one that a test ends by sending a Failure to its channel.
type attempt struct {
	w    *testWork
	n    *Node
	slot int
	end  chan Failure
}

// A testWork is a task whose attempts a test ends.
type testWork struct {
	Task
	began chan *attempt // gets each attempt as it begins
	ended chan string   // gets how the task ended, once
	never bool          // no other attempt can follow
	gone  chan struct{} // what the next attempt leaves behind, or nil

	queued int
	waits  []time.Duration // before each further attempt
}

func newWork(b *Batch, index, retries int, target Target, began chan *attempt) *testWork {
	w := &testWork{began: began, ended: make(chan string, 2)}
	b.Add(&w.Task, w, index, retries, target)
	return w
}

func (w *testWork) Queued() { w.queued++ }

func (w *testWork) Attempt(n *Node, slot int) (Outcome, <-chan struct{}) {
	a := &attempt{w, n, slot, make(chan Failure, 1)}
	w.began <- a
	var gone <-chan struct{}
	if w.gone != nil {
		gone = w.gone
	}
	select {
	case f := <-a.end:
		return testOutcome{w, f}, gone
	case <-w.batch.ctx.Done():
		return testOutcome{w, Final}, gone
	}
}

func (w *testWork) Cancelled()                { w.conclude("cancelled: " + context.Cause(w.batch.ctx).Error()) }
func (w *testWork) Stranded(_ *Node, e error) { w.conclude("stranded: " + e.Error()) }
func (w *testWork) Refused()                  { w.conclude("refused") }

func (w *testWork) conclude(how string) {
	w.End(1)
	w.ended <- how
}

type testOutcome struct {
	w *testWork
	f Failure
}

func (o testOutcome) Failure() Failure { return o.f }

func (o testOutcome) Again(wait time.Duration) bool {
	if o.w.never {
		return false
	}
	o.w.waits = append(o.w.waits, wait)
	return true
}

func (o testOutcome) End() { o.w.conclude([]string{"done", "final", "failed", "lost"}[o.f]) }
