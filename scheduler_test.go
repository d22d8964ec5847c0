package gputrain

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// schedulerLab drives a scheduler as a pool does, and knows by itself what waits.
type schedulerLab struct {
	t       *testing.T
	rng     *rand.Rand
	c       *Compute
	nodes   []*poolNode
	calls   []*batch
	waiting map[*unit]bool
	running map[*unit]*poolNode
	slots   map[*unit]int
}

// mayRun reports whether a node may run a unit now, by the definition.
func mayRun(u *unit, n *poolNode) bool {
	switch {
	case n.state != NodeReady || n.busy == len(n.slots):
		return false
	case u.pin != nil:
		return u.pin == n
	}
	now, _ := u.task.Target.matchesLocked(n)
	return now && !n.leaves && n.taken.IsZero()
}

func (l *schedulerLab) run(u *unit, n *poolNode) {
	if !l.waiting[u] || !mayRun(u, n) {
		l.t.Fatalf("unit %d of target %v, which waits: %t, got a slot of rank %d", u.index, u.task.Target, l.waiting[u], n.rank())
	}
	for other := range l.waiting { // within a call and a queue the order is kept
		if other.batch == u.batch && other.pin == u.pin && other.task.Target.equal(u.task.Target) && other.index < u.index {
			l.t.Fatalf("unit %d started before unit %d of its call", u.index, other.index)
		}
	}
	delete(l.waiting, u)
	l.running[u], l.slots[u] = n, n.takeSlot()
}

func (l *schedulerLab) s() *scheduler { return &l.c.p.tasks }

func (l *schedulerLab) push(u *unit) {
	l.waiting[u] = true
	q := l.s().push(u)
	for q.len() > 0 {
		n := l.c.p.freestLocked(q)
		if n == nil {
			return
		}
		if u.pin == nil {
			for _, other := range l.nodes {
				if mayRun(u, other) && nodeBefore(other, n) {
					l.t.Fatalf("rank %d with %d busy was chosen, not rank %d with %d", n.rank(), n.busy, other.rank(), other.busy)
				}
			}
		}
		l.run(l.s().popFor(q, n), n)
	}
}

func (l *schedulerLab) fill(n *poolNode) {
	for n.state == NodeReady && n.busy < len(n.slots) {
		u := l.s().next(n)
		if u == nil {
			return
		}
		l.run(u, n)
	}
}

// call is a call with a few units of any kind.
func (l *schedulerLab) call() {
	b := &batch{}
	l.calls = append(l.calls, b)
	kind := l.rng.IntN(4)
	for i := range 1 + l.rng.IntN(5) {
		u := &unit{batch: b, index: i}
		switch kind {
		case 0:
			u.pin = l.nodes[l.rng.IntN(len(l.nodes))]
		case 1:
			u.task.Target = OnRank(l.rng.IntN(len(l.nodes)))
		case 2:
			u.task.Target = OnLabels(map[string]string{"zone": strconv.Itoa(l.rng.IntN(3))})
			if l.rng.IntN(2) == 0 {
				u.task.Target = OnLabels(map[string]string{"zone": strconv.Itoa(l.rng.IntN(3)), "host": "p-" + strconv.Itoa(l.rng.IntN(len(l.nodes)))})
			}
		}
		l.push(u)
	}
}

// finish ends one that runs; it may be pushed again.
func (l *schedulerLab) finish() {
	for u, n := range l.running {
		slot := l.slots[u]
		delete(l.running, u)
		n.freeSlot(slot)
		l.fill(n)
		if l.rng.IntN(4) == 0 {
			l.push(u)
		}
		return
	}
}

// change changes what a node may run.
func (l *schedulerLab) change() {
	n := l.nodes[l.rng.IntN(len(l.nodes))]
	switch l.rng.IntN(4) {
	case 0:
		n.leaves = !n.leaves
	case 1:
		n.state = NodeReady + NodeUnreachable - n.state
	case 2:
		labels := map[string]string{"host": n.labels["host"], "zone": strconv.Itoa(l.rng.IntN(3))}
		n.labels = labels
		l.s().relabel(n)
	case 3:
		other := l.nodes[l.rng.IntN(len(l.nodes))]
		rank := n.rank()
		n.at.Store(int32(other.rank()))
		other.at.Store(int32(rank))
		l.c.p.nodes[n.rank()], l.c.p.nodes[other.rank()] = n, other
		l.s().update(other)
		l.fill(other)
	}
	l.s().update(n)
	l.fill(n)
}

// Nothing waits for a free slot, whatever happens to nodes and tasks, and each task starts
// on the freest node.
func TestSchedulerLeavesNoSlotFree(t *testing.T) {
	for seed := range uint64(8) {
		l := &schedulerLab{t: t, rng: rand.New(rand.NewPCG(seed, 0)), c: fakePool(t, 6, 2), waiting: map[*unit]bool{}, running: map[*unit]*poolNode{}, slots: map[*unit]int{}}
		l.nodes = append(l.nodes, l.c.p.nodes...)
		if seed%2 == 1 {
			l.c.p.spec.MaxNodes = len(l.nodes)
		}
		for range 1500 {
			switch x := l.rng.IntN(10); {
			case x < 3:
				l.call()
			case x < 8:
				l.finish()
			case x < 9:
				for u := range l.waiting {
					delete(l.waiting, u)
					l.s().leave(u)
					break
				}
			default:
				l.change()
			}
			for u := range l.waiting {
				for _, n := range l.nodes {
					if mayRun(u, n) {
						t.Fatalf("seed %d: a task with target %v waits while rank %d has a free slot", seed, u.task.Target, n.rank())
					}
				}
			}
		}
		for range 100_000 { // everything comes to its end
			if len(l.running) == 0 && len(l.waiting) == 0 {
				break
			}
			for _, n := range l.nodes {
				n.leaves, n.state = false, NodeReady
				l.s().update(n)
				l.fill(n)
			}
			l.finish()
			for u := range l.waiting {
				if t := u.task.Target; t.labels != nil && len(l.s().queueFor(t).matching) == 0 { // no node has them
					delete(l.waiting, u)
					l.s().leave(u)
				}
			}
		}
		if len(l.running)+len(l.waiting) > 0 || len(l.s().active)+len(l.s().ranks) > 0 {
			t.Errorf("seed %d: %d run, %d wait, %d queues are left", seed, len(l.running), len(l.waiting), len(l.s().active)+len(l.s().ranks))
		}
	}
}

// With one slot, no call of a kind has two turns while another one of that kind has none,
// and no kind has two while another one with tasks has none.
func TestSchedulerTakesTurns(t *testing.T) {
	c := fakePool(t, 1, 1)
	n := c.p.nodes[0]
	n.takeSlot()
	targets := []Target{OnRank(0), OnLabels(map[string]string{"zone": "0"}), OnLabels(map[string]string{"host": "p-0"})}
	const calls, units = 5, 30
	left := map[*batch]int{}
	perKind := [queueKinds]int{}
	for range calls {
		for kind := range queueKinds {
			b := &batch{}
			for i := range units {
				u := &unit{batch: b, index: i}
				switch queueKind(kind) {
				case queuePinned:
					u.pin = n
				case queueTargeted:
					u.task.Target = targets[len(left)%len(targets)]
				}
				c.p.tasks.push(u)
			}
			left[b] = units
			perKind[kind]++
		}
	}
	n.freeSlot(0)
	lastKind := map[queueKind]int{}
	lastCall := map[*batch]int{}
	for i := range calls * units * queueKinds {
		q := c.p.tasks.choose(n)
		u := c.p.tasks.popFor(q, n)
		if i-lastKind[q.kind] > queueKinds {
			t.Fatalf("start %d: kind %d waited for %d others", i, q.kind, i-lastKind[q.kind]-1)
		}
		if i-lastCall[u.batch] > queueKinds*calls {
			t.Fatalf("start %d: a call waited for %d others", i, i-lastCall[u.batch]-1)
		}
		lastKind[q.kind], lastCall[u.batch] = i, i
	}
	if u := c.p.tasks.next(n); u != nil {
		t.Error("there is more than was pushed")
	}
}

// Targets by labels that come and go leave a bounded number of queues.
func TestSchedulerForgetsLabels(t *testing.T) {
	c := fakePool(t, 4, 1)
	for i := range 10_000 {
		task := Cmd("true")
		task.Target = OnLabels(map[string]string{"zone": strconv.Itoa(i % 3), "none": strconv.Itoa(i)})
		if i%2 == 0 {
			task.Target = OnLabels(map[string]string{"host": "p-" + strconv.Itoa(i%4)})
		}
		err := c.check(task)
		if (err == nil) != (i%2 == 0) {
			t.Fatalf("target %v: %v", task.Target, err)
		}
	}
	most := keptPairs*(4+keptPairs) + 1
	if got := len(c.p.tasks.labels); got > most || c.p.tasks.pairs > most+4 {
		t.Errorf("%d queues and %d pairs are kept", got, c.p.tasks.pairs)
	}
	for _, n := range c.p.nodes {
		if len(n.targets) > most {
			t.Errorf("rank %d is in %d queues", n.rank(), len(n.targets))
		}
	}
}

// Many tasks that each ask for other labels wait without a search among all of them, and
// leave nothing behind.
func TestSchedulerTakesManyTargets(t *testing.T) {
	const targets = 5_000
	c := fakePool(t, 2, 1)
	n := c.p.nodes[0]
	for _, other := range c.p.nodes {
		other.takeSlot()
	}
	b := &batch{}
	var units []*unit
	for i := range targets {
		u := &unit{batch: b, index: i}
		u.task.Target = OnLabels(map[string]string{"job": strconv.Itoa(i)})
		c.p.tasks.push(u)
		units = append(units, u)
	}
	if u := c.p.tasks.next(n); u != nil {
		t.Fatal("a node got what it has no labels for")
	}
	for i := range targets {
		labels := map[string]string{"host": "p-0", "job": strconv.Itoa(targets - 1 - i)}
		if i%1000 != 0 { // a node that changes for each is not what is meant
			c.p.tasks.leave(units[targets-1-i])
			continue
		}
		n.labels = labels
		c.p.tasks.relabel(n)
		if u := c.p.tasks.next(n); u != units[targets-1-i] {
			t.Fatalf("label %d got another task", targets-1-i)
		}
	}
	if len(c.p.tasks.active) > 0 {
		t.Errorf("%d queues are active", len(c.p.tasks.active))
	}
	for i := range 3 * targets { // with all of them idle the next targets drop them
		c.p.tasks.queueFor(OnLabels(map[string]string{"later": strconv.Itoa(i)}))
	}
	if n := len(c.p.tasks.labels); n > 2*targets {
		t.Errorf("%d queues are kept", n)
	}
}
