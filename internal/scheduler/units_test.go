package scheduler

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// addUnits gives a rank an open node with units.
func addUnits(s *Scheduler, rank, slots, units, group int) *Node {
	s.lock.Lock()
	defer s.lock.Unlock()
	n := NewNode(&testHost{state: Open, units: units, group: group, labels: map[string]string{"zone": strconv.Itoa(rank % 2)}}, slots)
	s.Place(n, rank)
	s.Update(n)
	s.Fill(n)
	return n
}

// submitUnits submits a batch of tasks that want these numbers of units. Zero is a slot.
func submitUnits(t *testing.T, s *Scheduler, began chan *attempt, target Target, sizes ...int) (*Batch, []*testWork) {
	b := s.NewBatch(t.Context(), t.Context())
	var all []*testWork
	for i, size := range sizes {
		w := newWork(b, i, 0, target, began)
		w.WantUnits(size)
		all = append(all, w)
	}
	b.Submit()
	return b, all
}

// unitsOf returns the units that an attempt holds.
func (a *attempt) unitsOf(s *Scheduler) []int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return a.n.Units(a.slot)
}

// Tasks of different sizes share a node, the first that has room. None waits while they fit.
func TestFirstFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 0, 0, false)
		for rank := range 2 {
			addUnits(s, rank, 1, 8, 1)
		}
		began := make(chan *attempt, 10)
		b, _ := submitUnits(t, s, began, Target{}, 1, 4, 4, 3, 4)
		defer b.Close()
		synctest.Wait()
		got := map[string]bool{}
		for range 5 {
			a := <-began
			got[fmt.Sprintf("%d on %d: %v", a.w.index, a.n.rank, a.unitsOf(s))] = true
			a.end <- None
		}
		want := []string{"0 on 0: [0]", "1 on 0: [1 2 3 4]", "2 on 1: [0 1 2 3]", "3 on 0: [5 6 7]", "4 on 1: [4 5 6 7]"}
		if have := slices.Sorted(maps.Keys(got)); !slices.Equal(have, want) {
			t.Errorf("%q", have)
		}
	})
}

// A task that fits nowhere is overtaken by smaller ones only until it is its turn. Then the node with the most free units
// is reserved for it, and it starts once the tasks there have ended, though smaller ones never stop coming.
func TestLargeTasksDoNotStarve(t *testing.T) {
	const long = 10 * time.Second // each small task
	for _, large := range []int{8, 0} {
		t.Run(fmt.Sprint(large), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newTest(t, 0, 0, false)
				for rank := range 2 {
					addUnits(s, rank, 1, 8, 1)
				}
				began := make(chan *attempt, 1000)
				small, _ := submitUnits(t, s, began, Target{}, slices.Repeat([]int{1}, 500)...)
				ctxDone := t.Context().Done()
				done := make(chan time.Time, 1)
				var serving sync.WaitGroup
				var overtaken atomic.Int32
				serving.Go(func() {
					for {
						select {
						case <-ctxDone:
							return
						case a, ok := <-began:
							if !ok {
								return
							}
							if int(a.w.units) == large {
								done <- time.Now()
								a.end <- None
								continue
							}
							overtaken.Add(1)
							serving.Go(func() {
								time.Sleep(long)
								a.end <- None
							})
						}
					}
				})
				time.Sleep(long / 2)
				synctest.Wait()
				running := overtaken.Load()
				b, _ := submitUnits(t, s, began, Target{}, large)
				asked := time.Now()
				if waited := (<-done).Sub(asked); waited > 2*long {
					t.Errorf("it waited for %v", waited)
				}
				if n := overtaken.Load() - running; n > 3*8 { // until its turn on both nodes, then on the other one
					t.Errorf("%d small tasks have overtaken it", n)
				}
				small.Cancel()
				small.Close()
				b.Close()
				s.running.Wait()
				close(began)
				serving.Wait()
			})
		})
	}
}

// A slot has its units while a task runs in it: neither takes what the other holds.
func TestSlotsAndUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 0, 0, false)
		n := addUnits(s, 0, 2, 4, 1)
		began := make(chan *attempt, 10)
		first, _ := submitUnits(t, s, began, Target{}, 0) // slot 0: units 0 and 1
		a := <-began
		sized, _ := submitUnits(t, s, began, Target{}, 1) // unit 2: of slot 1
		b := <-began
		waits, _ := submitUnits(t, s, began, Target{}, 0) // slot 1 lacks unit 2
		synctest.Wait()
		if got := b.unitsOf(s); !slices.Equal(got, []int{2}) || b.slot != 4 || n.Busy() != 2 || len(began) != 0 {
			t.Errorf("units %v as slot %d; %d tasks run, %d began", got, b.slot, n.Busy(), len(began))
		}
		b.end <- None
		if c := <-began; c.slot != 1 {
			t.Errorf("slot %d", c.slot)
		} else {
			c.end <- None
		}
		a.end <- None
		for _, b := range []*Batch{first, sized, waits} {
			b.waitAndClose()
		}
		if h := n.host.(*testHost); h.idle != 1 {
			t.Errorf("it was idle %d times", h.idle)
		}
	})
}

// Shares of one device go to one task, if a device has as many.
func TestUnitsOfOneDevice(t *testing.T) {
	u := units{slots: make([]int, 8), taken: make([]bool, 8), free: 8, group: 4}
	u.taken[0] = true
	for _, tt := range []struct {
		want int
		got  []int
	}{{1, []int{1}}, {3, []int{1, 2, 3}}, {4, []int{4, 5, 6, 7}}, {5, []int{1, 2, 3, 4, 5}}} {
		if got := u.pick(tt.want); !slices.Equal(got, tt.got) {
			t.Errorf("%d: %v", tt.want, got)
		}
	}
	u.slots[4], u.slots[5] = 1, 1
	if got := u.pick(4); !slices.Equal(got, []int{1, 2, 3, 6}) {
		t.Errorf("no device has 4: %v", got)
	}
}

// A task that wants more units than any node can have is refused, or fails once that is known.
func TestTooManyUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(t, 0, 0, true)
		f.most, f.grows, f.units = 3, true, 4
		impossible := func(target Target, units int) string {
			s.lock.Lock()
			defer s.lock.Unlock()
			if err := s.Impossible(target, units); err != nil {
				return err.Error()
			}
			return ""
		}
		for _, tt := range []struct {
			target Target
			units  int
			want   string
		}{{Target{}, 4, ""}, {Target{}, 5, "any node: 5 units, at most 4"}, {OnRank(1), 4, ""}, {OnRank(7), 1, "rank 7: 3 ranks, 0 over, []"}} {
			if got := impossible(tt.target, tt.units); got != tt.want {
				t.Errorf("%v, %d: %q", tt.target, tt.units, got)
			}
		}
		began := make(chan *attempt, 10)
		b, works := submitUnits(t, s, began, Target{}, 4)
		addUnits(s, 0, 1, 6, 1) // it has more than was promised: so may others
		if got := impossible(Target{}, 6); got != "" {
			t.Errorf("six of six: %s", got)
		}
		(<-began).end <- None
		want(t, works[0], "done")
		b.Close()
		addUnits(s, 1, 1, 2, 1)
		if got := impossible(OnRank(1), 3); got != "" { // a new machine may have as many
			t.Errorf("three of two: %s", got)
		}
		b, works = submitUnits(t, s, began, OnRank(1), 3)
		f.grows, f.most = false, 2
		s.lock.Lock()
		s.Dispatch()
		s.lock.Unlock()
		want(t, works[0], "stranded: rank 1: 3 units, at most 2")
		b.Close()
		pinned := s.NewBatch(t.Context(), t.Context())
		w := newWork(pinned, 0, 0, Target{}, began)
		w.WantUnits(3)
		w.PinTo(s.queues.nodes[1])
		pinned.Submit()
		want(t, w, "stranded: rank 1: 3 units, at most 2")
		pinned.Close()
	})
}

// Units of tasks that run already are taken again, once.
func TestUnitsAreTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 0, 0, false)
		n := addUnits(s, 0, 2, 4, 1)
		s.lock.Lock()
		slot, ok := s.TakeUnits(n, []int{1, 3})
		for _, bad := range [][]int{nil, {3}, {0, 0}, {-1}, {4}} {
			if slot, ok := s.TakeUnits(n, bad); ok {
				t.Errorf("%v are taken as slot %d", bad, slot)
			}
		}
		if s.Take(n, 0) || s.Take(n, 1) {
			t.Error("a slot lacks none of its units")
		}
		s.lock.Unlock()
		if !ok || slot != 3 {
			t.Errorf("slot %d, %t", slot, ok)
		}
		began := make(chan *attempt, 10)
		b, works := submitUnits(t, s, began, Target{}, 3)
		synctest.Wait()
		if len(began) != 0 {
			t.Error("two tasks have a unit")
		}
		s.Free(n, slot)
		(<-began).end <- None
		want(t, works[0], "done")
		b.Close()
	})
}

// A node says which units each slot has, and none for a number that no task has: that of a task that ended before it was
// found is -1.
func TestUnitsOfNode(t *testing.T) {
	for _, tt := range []struct {
		slots, units int
		want         [][]int // of slots -1, 0, ...
	}{
		{2, 4, [][]int{nil, {0, 1}, {2, 3}, nil}},
		{3, 2, [][]int{nil, {0}, {1}, {0}, nil}},
		{1, 4, [][]int{nil, nil, nil}}, // the whole node
		{2, 1, [][]int{nil, nil, nil, nil}},
		{2, 0, [][]int{nil, nil, nil, nil}},
	} {
		s, _ := newTest(t, 0, 0, false)
		n := addUnits(s, 0, tt.slots, tt.units, 1)
		var got [][]int
		for i := range tt.slots + 2 {
			got = append(got, n.Units(i-1))
		}
		if !reflect.DeepEqual(got, tt.want) || n.UnitCount() != tt.units {
			t.Errorf("%d slots and %d units: %v of %d; want %v", tt.slots, tt.units, got, n.UnitCount(), tt.want)
		}
	}
}

// A call that waits for its only task runs it at once, if units are free.
func TestUnitsInTheCallersGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 0, 0, false)
		n := addUnits(s, 0, 1, 2, 1)
		began := make(chan *attempt, 1)
		b := s.NewBatch(t.Context(), t.Context())
		w := newWork(b, 0, 0, Target{}, began)
		w.WantUnits(2)
		go func() {
			a := <-began
			if got := a.unitsOf(s); !slices.Equal(got, []int{0, 1}) {
				t.Errorf("%v", got)
			}
			a.end <- None
		}()
		if !b.RunHere() || n.Busy() != 0 {
			t.Errorf("%d run", n.Busy())
		}
		want(t, w, "done")
		b.Close()
	})
}

// Demand counts tasks by their sizes.
func TestDemandOfUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(t, 0, 0, true)
		f.most, f.grows, f.units = 9, true, 8
		addUnits(s, 0, 1, 8, 1)
		began := make(chan *attempt, 10)
		any, _ := submitUnits(t, s, began, Target{}, 3, 3, 3, 8, 0)
		ranked, _ := submitUnits(t, s, began, OnRank(4), 2)
		s.lock.Lock()
		d := s.Demand()
		s.lock.Unlock()
		if want := map[int]int{2: 1, 3: 3, 8: 1}; !maps.Equal(d.Units, want) || d.Tasks != 1 || d.Ranks != 5 || d.MostUnits != 8 {
			t.Errorf("%+v", d)
		}
		for _, b := range []*Batch{any, ranked} {
			b.Cancel()
			b.Close()
		}
	})
}
