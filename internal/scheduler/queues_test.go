package scheduler

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// A schedulerLab drives the queues as a scheduler does, and tracks the waiting tasks on its own.
type schedulerLab struct {
	t       *testing.T
	rng     *rand.Rand
	s       *queues
	nodes   []*Node
	waiting map[*Task]bool
	running map[*Task]*Node
	slots   map[*Task]int
}

// mayRun reports whether a node may run a task now, directly by the rules.
func mayRun(t *Task, n *Node) bool {
	switch state := n.host.State(); {
	case state != Open && state != Leaving || n.busy == len(n.slots):
		return false
	case t.pin != nil:
		return t.pin == n
	case state == Leaving:
		return false
	case t.target.rank != 0:
		return n.rank == t.target.rank-1
	}
	for _, l := range t.target.labels {
		if n.host.Labels()[l.Key] != l.Value {
			return false
		}
	}
	return true
}

func (l *schedulerLab) run(t *Task, n *Node) {
	if !l.waiting[t] || !mayRun(t, n) {
		l.t.Fatalf("task %d of target %v, which waits: %t, got a slot of rank %d", t.index, t.target, l.waiting[t], n.rank)
	}
	for other := range l.waiting { // within a batch and a queue, tasks start in order
		if other.batch == t.batch && other.pin == t.pin && other.target.Equal(t.target) && other.index < t.index {
			l.t.Fatalf("task %d started before task %d of its batch", t.index, other.index)
		}
	}
	delete(l.waiting, t)
	slot := n.freeSlot()
	l.s.takeSlot(n, slot)
	l.running[t], l.slots[t] = n, slot
}

func (l *schedulerLab) push(t *Task) {
	l.waiting[t] = true
	q := l.s.push(t)
	for q.len() > 0 {
		n := l.s.freest(q)
		if n == nil {
			return
		}
		if t.pin == nil {
			for _, other := range l.nodes {
				if mayRun(t, other) && nodeBefore(l.s.elastic)(other, n) {
					l.t.Fatalf("rank %d with %d busy was chosen, not rank %d with %d", n.rank, n.busy, other.rank, other.busy)
				}
			}
		}
		l.run(l.s.popFor(q, n), n)
	}
}

func (l *schedulerLab) fill(n *Node) {
	for n.takesPinned() {
		t := l.s.next(n)
		if t == nil {
			return
		}
		l.run(t, n)
	}
}

// call pushes a batch with a few tasks of any kind.
func (l *schedulerLab) call() {
	b := &Batch{}
	kind := l.rng.IntN(4)
	for i := range 1 + l.rng.IntN(5) {
		t := &Task{batch: b, index: i}
		switch kind {
		case 0:
			t.pin = l.nodes[l.rng.IntN(len(l.nodes))]
		case 1:
			t.target = OnRank(l.rng.IntN(len(l.nodes)))
		case 2:
			t.target = OnLabels(map[string]string{"zone": strconv.Itoa(l.rng.IntN(3))})
			if l.rng.IntN(2) == 0 {
				t.target = OnLabels(map[string]string{"zone": strconv.Itoa(l.rng.IntN(3)), "host": "p-" + strconv.Itoa(l.rng.IntN(len(l.nodes)))})
			}
		}
		l.push(t)
	}
}

// finish ends a running task, which may be pushed again.
func (l *schedulerLab) finish() {
	for t, n := range l.running {
		slot := l.slots[t]
		delete(l.running, t)
		l.s.giveSlot(n, slot)
		l.fill(n)
		if l.rng.IntN(4) == 0 {
			l.push(t)
		}
		return
	}
}

// change changes what a node may run.
func (l *schedulerLab) change() {
	n := l.nodes[l.rng.IntN(len(l.nodes))]
	h := n.host.(*testHost)
	switch l.rng.IntN(4) {
	case 0:
		h.state = []State{Open: Leaving, Leaving: Open, Away: Away}[h.state]
	case 1:
		h.state = []State{Open: Away, Leaving: Away, Away: Open}[h.state]
	case 2:
		h.labels = map[string]string{"host": h.labels["host"], "zone": strconv.Itoa(l.rng.IntN(3))}
	case 3:
		other := l.nodes[l.rng.IntN(len(l.nodes))]
		rank := n.rank
		l.s.place(n, other.rank)
		l.s.place(other, rank)
		l.s.update(other)
		l.s.update(n) // an update below sees a free slot at the other rank
		l.fill(other)
	}
	l.s.update(n)
	l.fill(n)
}

// No task waits for a free slot that it may use, whatever happens to nodes and tasks, and each task
// starts on the freest node.
func TestSchedulerLeavesNoSlotFree(t *testing.T) {
	for seed := range uint64(8) {
		s, _ := newTest(t, 6, 2, seed%2 == 1)
		l := &schedulerLab{
			t: t, rng: rand.New(rand.NewPCG(seed, 0)), s: &s.queues, nodes: slices.Clone(s.queues.nodes),
			waiting: map[*Task]bool{}, running: map[*Task]*Node{}, slots: map[*Task]int{},
		}
		for range 1500 {
			switch x := l.rng.IntN(10); {
			case x < 3:
				l.call()
			case x < 8:
				l.finish()
			case x < 9:
				for task := range l.waiting {
					delete(l.waiting, task)
					l.s.leave(task)
					break
				}
			default:
				l.change()
			}
			for task := range l.waiting {
				for _, n := range l.nodes {
					if mayRun(task, n) {
						t.Fatalf("seed %d: a task with target %v waits while rank %d has a free slot", seed, task.target, n.rank)
					}
				}
			}
		}
		for range 100_000 { // until all tasks have ended
			if len(l.running) == 0 && len(l.waiting) == 0 {
				break
			}
			for _, n := range l.nodes {
				n.host.(*testHost).state = Open
				l.s.update(n)
				l.fill(n)
			}
			l.finish()
			for task := range l.waiting {
				if to := task.target; to.labels != nil && len(l.s.queueFor(to).matching) == 0 { // no node has these labels
					delete(l.waiting, task)
					l.s.leave(task)
				}
			}
		}
		if len(l.running)+len(l.waiting) > 0 || len(l.s.active)+len(l.s.ranks) > 0 {
			t.Errorf("seed %d: %d run, %d wait, %d queues are left", seed, len(l.running), len(l.waiting), len(l.s.active)+len(l.s.ranks))
		}
	}
}

// With one slot, no batch of a kind has two turns while another batch of that kind has none, and no
// kind has two while another kind with tasks has none.
func TestSchedulerTakesTurns(t *testing.T) {
	whole, _ := newTest(t, 1, 1, false)
	s := &whole.queues
	n := s.nodes[0]
	s.takeSlot(n, 0)
	targets := []Target{OnRank(0), OnLabels(map[string]string{"zone": "0"}), OnLabels(map[string]string{"host": "p-0"})}
	const batches, tasks = 5, 30
	left := map[*Batch]int{}
	for range batches {
		for kind := range queueKinds {
			b := &Batch{}
			for i := range tasks {
				t := &Task{batch: b, index: i}
				switch queueKind(kind) {
				case queuePinned:
					t.pin = n
				case queueTargeted:
					t.target = targets[len(left)%len(targets)]
				}
				s.push(t)
			}
			left[b] = tasks
		}
	}
	s.giveSlot(n, 0)
	lastKind := map[queueKind]int{}
	lastBatch := map[*Batch]int{}
	for i := range batches * tasks * queueKinds {
		q := s.choose(n)
		task := s.popFor(q, n)
		if i-lastKind[q.kind] > queueKinds {
			t.Fatalf("start %d: kind %d waited for %d others", i, q.kind, i-lastKind[q.kind]-1)
		}
		if i-lastBatch[task.batch] > queueKinds*batches {
			t.Fatalf("start %d: a batch waited for %d others", i, i-lastBatch[task.batch]-1)
		}
		lastKind[q.kind], lastBatch[task.batch] = i, i
	}
	if s.next(n) != nil {
		t.Error("there is more than was pushed")
	}
}

// Targets by labels that come and go leave a bounded number of queues.
func TestSchedulerForgetsLabels(t *testing.T) {
	s, _ := newTest(t, 4, 1, false)
	for i := range 10_000 {
		target := OnLabels(map[string]string{"zone": strconv.Itoa(i % 3), "none": strconv.Itoa(i)})
		if i%2 == 0 {
			target = OnLabels(map[string]string{"host": "p-" + strconv.Itoa(i%4)})
		}
		err := s.Impossible(target, 0)
		if (err == nil) != (i%2 == 0) {
			t.Fatalf("target %v: %v", target, err)
		}
	}
	most := keptPairs*(4+keptPairs) + 1
	if got := len(s.queues.labels); got > most || s.queues.pairs > most+4 {
		t.Errorf("%d queues and %d pairs are kept", got, s.queues.pairs)
	}
	for _, n := range s.queues.nodes {
		if len(n.targets) > most {
			t.Errorf("rank %d is in %d queues", n.rank, len(n.targets))
		}
	}
}

// Many tasks that each ask for other labels are queued without a search among all of them, and
// leave nothing behind.
func TestSchedulerTakesManyTargets(t *testing.T) {
	const targets = 5_000
	whole, _ := newTest(t, 2, 1, false)
	s := &whole.queues
	n := s.nodes[0]
	for _, other := range s.nodes {
		s.takeSlot(other, 0)
	}
	b := &Batch{}
	var tasks []*Task
	for i := range targets {
		task := &Task{batch: b, index: i, target: OnLabels(map[string]string{"job": strconv.Itoa(i)})}
		s.push(task)
		tasks = append(tasks, task)
	}
	if s.next(n) != nil {
		t.Fatal("a node got what it has no labels for")
	}
	for i := range targets {
		if i%1000 != 0 { // the node's labels change only for every 1000th task
			s.leave(tasks[targets-1-i])
			continue
		}
		n.host.(*testHost).labels = map[string]string{"host": "p-0", "job": strconv.Itoa(targets - 1 - i)}
		s.update(n)
		if s.next(n) != tasks[targets-1-i] {
			t.Fatalf("label %d got another task", targets-1-i)
		}
	}
	if len(s.active) > 0 {
		t.Errorf("%d queues are active", len(s.active))
	}
	for i := range 3 * targets { // when all are idle, queues for later targets replace them
		s.queueFor(OnLabels(map[string]string{"later": strconv.Itoa(i)}))
	}
	if n := len(s.labels); n > 2*targets {
		t.Errorf("%d queues are kept", n)
	}
}
