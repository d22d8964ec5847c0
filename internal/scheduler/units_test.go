package scheduler

import (
	"fmt"
	"maps"
	"math/rand/v2"
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

// checkUnits compares what each node and queue says of itself with what runs and waits.
func checkUnits(s *Scheduler) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	var queues []*queue
	s.queues.each(func(q *queue) { queues = append(append(queues, q), q.sized()...) })
	for _, n := range s.queues.nodes {
		queues = append(append(queues, &n.pinned), n.pinned.sized()...)
		u := &n.units
		holders := make([]int, len(u.slots))
		for slot, taken := range n.slots {
			lo, hi := u.of(slot, len(n.slots))
			for i := lo; taken && i < hi; i++ {
				holders[i]++
				if u.taken[i] {
					return fmt.Errorf("rank %d: unit %d is held by slot %d and by a task without one", n.rank, i, slot)
				}
			}
		}
		if !slices.Equal(holders, u.slots) {
			return fmt.Errorf("rank %d: %v tasks in slots hold its units, not %v", n.rank, holders, u.slots)
		}
		for slot, held := range u.held {
			if slot != len(n.slots)+held[0] {
				return fmt.Errorf("rank %d: units %v have slot %d", n.rank, held, slot)
			}
			for _, i := range held {
				if holders[i]++; holders[i] > 1 || !u.taken[i] {
					return fmt.Errorf("rank %d: unit %d is held by %d tasks", n.rank, i, holders[i])
				}
			}
		}
		free := 0
		for _, tasks := range holders {
			if tasks == 0 {
				free++
			}
		}
		if free != u.free {
			return fmt.Errorf("rank %d: %d units are free, not %d", n.rank, free, u.free)
		}
		if q := n.reserved; q != nil && (q.reservation() != n || q.waiting == 0) {
			return fmt.Errorf("rank %d is reserved for no queue that needs it", n.rank)
		}
	}
	for _, q := range queues {
		if q.waiting == 0 {
			continue
		}
		for _, n := range s.queues.nodes {
			if allows(q, n) && n.admits(q) {
				return fmt.Errorf("a task for %v waits for %d units, and rank %d has %d free", q.target, q.size(), n.rank, n.units.free)
			}
		}
		if q.main() == q || q.reservation() != nil || q.main().oldest(func(*queue) bool { return true }) != q {
			continue
		}
		for _, n := range s.queues.nodes {
			if allows(q, n) && n.state == Open && n.reserved == nil && q.size() <= len(n.units.slots) {
				return fmt.Errorf("the oldest task for %v waits for %d units, and rank %d is not reserved", q.target, q.size(), n.rank)
			}
		}
	}
	return nil
}

// allows reports whether the tasks of a queue may run on a node, whatever its state.
func allows(q *queue, n *Node) bool {
	if q.pin != nil {
		return q.pin == n
	}
	now, _ := q.target.matches(n)
	return now
}

// A unitsLab submits tasks of all sizes, for all kinds of targets, and loses nodes.
type unitsLab struct {
	t     *testing.T
	s     *Scheduler
	rng   *rand.Rand
	slots int
	all   sync.WaitGroup // of the tasks
	began chan *attempt

	mu   sync.Mutex
	runs map[*Node]map[*attempt]chan struct{} // ends an attempt with the loss of its node
}

// serve ends each attempt after a while, or with its node.
func (l *unitsLab) serve(rng *rand.Rand) {
	for a := range l.began {
		lost, long := make(chan struct{}), time.Duration(1+rng.IntN(20))*time.Second
		l.mu.Lock()
		if l.runs[a.n] == nil {
			l.runs[a.n] = map[*attempt]chan struct{}{}
		}
		l.runs[a.n][a] = lost
		l.mu.Unlock()
		l.s.running.Go(func() {
			end := None
			select {
			case <-time.After(long):
			case <-lost:
				end = Lost
			}
			l.mu.Lock()
			delete(l.runs[a.n], a)
			l.mu.Unlock()
			a.end <- end
		})
	}
}

// submit submits a batch of one kind.
func (l *unitsLab) submit() {
	b, kind := l.s.NewBatch(l.t.Context(), l.t.Context()), l.rng.IntN(5)
	l.s.lock.Lock()
	nodes := slices.Clone(l.s.queues.nodes)
	l.s.lock.Unlock()
	for i := range 1 + l.rng.IntN(6) {
		target := map[int]Target{1: OnRank(l.rng.IntN(len(nodes))), 2: OnLabels(map[string]string{"zone": strconv.Itoa(l.rng.IntN(2))})}[kind]
		w := newWork(b, i, 0, target, l.began)
		w.WantUnits([]int{0, 1, 1, 1, 2, 3, 4, 8}[l.rng.IntN(8)])
		if kind == 3 {
			w.PinTo(nodes[l.rng.IntN(len(nodes))])
		}
	}
	b.Submit()
	l.all.Go(b.waitAndClose)
	if kind == 4 && l.rng.IntN(4) == 0 {
		after := time.Duration(l.rng.IntN(9)) * time.Second
		l.all.Go(func() {
			time.Sleep(after)
			b.Cancel()
		})
	}
}

func (b *Batch) waitAndClose() {
	for _, t := range b.tasks {
		<-t.over
	}
	b.Close()
}

// change loses a node, which gets a successor, or changes its state for a while.
func (l *unitsLab) change() {
	l.s.lock.Lock()
	n := l.s.queues.nodes[l.rng.IntN(len(l.s.queues.nodes))]
	l.s.lock.Unlock()
	state := []State{Over, Leaving, Away}[l.rng.IntN(3)]
	if state != Over {
		set(l.s, n, state)
		time.Sleep(time.Second)
		synctest.Wait()
		if err := checkUnits(l.s); err != nil {
			l.t.Fatal(err)
		}
		set(l.s, n, Open)
		return
	}
	l.s.lock.Lock()
	n.host.(*testHost).state = Over
	l.s.Update(n)
	l.s.Strand(n)
	l.s.lock.Unlock()
	l.mu.Lock()
	for a, lost := range l.runs[n] {
		close(lost)
		delete(l.runs[n], a)
	}
	l.mu.Unlock()
	addUnits(l.s, n.rank, l.slots, 8, 1)
}

// Whatever tasks come, end and are cancelled, and whatever becomes of nodes: no two tasks hold a unit, no task waits for
// what is free and not reserved, each queue's oldest task has a node reserved, and all tasks end.
func TestUnitsOfAnyTasks(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			s, f := newTest(t, 0, 0, seed%2 == 1)
			f.most, f.units = 3, 8
			l := &unitsLab{
				t: t, s: s, rng: rand.New(rand.NewPCG(seed, 1)), slots: []int{1, 2, 8, 12}[seed%4], began: make(chan *attempt),
				runs: map[*Node]map[*attempt]chan struct{}{},
			}
			for rank := range 3 {
				addUnits(s, rank, l.slots, 8, 1)
			}
			var serving sync.WaitGroup
			serving.Go(func() { l.serve(rand.New(rand.NewPCG(seed, 2))) })
			for range 100 {
				if l.submit(); l.rng.IntN(5) == 0 {
					l.change()
				}
				synctest.Wait()
				if err := checkUnits(s); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				time.Sleep(time.Duration(l.rng.IntN(10)) * time.Second)
			}
			l.all.Wait()
			s.running.Wait()
			close(l.began)
			serving.Wait()
			if err := checkUnits(s); err != nil {
				t.Errorf("seed %d: at the end: %v", seed, err)
			}
			for _, n := range s.queues.nodes {
				if n.Busy() != 0 || n.Pinned() != 0 || n.reserved != nil {
					t.Errorf("seed %d: rank %d runs %d tasks at the end, and is reserved: %t", seed, n.rank, n.Busy(), n.reserved != nil)
				}
			}
		})
	}
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

// Units have a short text, which is all that ParseUnits accepts.
func TestUnitsAsText(t *testing.T) {
	all := make([]int, MostUnits)
	for i := range all {
		all[i] = i
	}
	for _, units := range [][]int{{0}, {1, 3}, {191}, {0, 191}, all} {
		if text := FormatUnits(units); !slices.Equal(ParseUnits(text), units) || len(text) > 39 {
			t.Errorf("%v: %s: %v", units, text, ParseUnits(text))
		}
	}
	if text := FormatUnits([]int{0, 3}); text != "9" {
		t.Error(text)
	}
}

func FuzzParseUnits(f *testing.F) {
	for _, text := range []string{"", "0", "9", "-1", "09", "A", "+1", "0x1", "1_0", "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		units := ParseUnits(text)
		if units != nil && (FormatUnits(units) != text || slices.Max(units) >= MostUnits || !slices.IsSorted(units)) {
			t.Errorf("%q: %v", text, units)
		}
	})
}

// Every slot has units, and no two slots share one while there are enough.
func TestUnitsOfSlots(t *testing.T) {
	for units := range 17 {
		for slots := 1; slots < 20; slots++ {
			used := map[int]int{}
			for slot := range slots {
				lo, hi := slotUnits(slot, slots, units)
				if lo == hi && units > 0 || lo < 0 || hi > units || (hi-lo == units) != (slots == 1 || units < 2) {
					t.Errorf("%d units, slot %d of %d: %d to %d", units, slot, slots, lo, hi)
				}
				for i := lo; i < hi; i++ {
					used[i]++
				}
			}
			if len(used) != units {
				t.Errorf("%d units, %d slots: only %v are used", units, slots, used)
			}
			for _, most := range used {
				if slots <= units && most > 1 || most > (slots+units-1)/units {
					t.Errorf("%d units, %d slots: shared as %v", units, slots, used)
				}
			}
		}
	}
}
