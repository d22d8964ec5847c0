package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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
