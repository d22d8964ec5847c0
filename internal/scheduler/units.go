package scheduler

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/gputrain/gputrain/internal/least"
)

// MostUnits is how many units of a node are given out at most: the rest stays unused.
const MostUnits = 192

// units are the parts of a node that tasks hold alone: its accelerators, or shares of them. A slot holds the units of
// slotUnits while a task runs in it; a task with WantUnits holds any units, and no slot. The zero value has none.
type units struct {
	slots []int         // how many tasks in slots hold each; more than one only if there are more slots than units
	taken []bool        // which are held by tasks without a slot
	free  int           // how many are held by no task
	group int           // so many in a row are shares of one device
	held  map[int][]int // the units of each task without a slot, by the number that it has in place of a slot's
}

// slotUnits returns which of a node's units a slot has: from lo up to hi. With more slots than units, slots share units.
func slotUnits(slot, slots, units int) (lo, hi int) {
	switch {
	case slots <= 1 || units == 0:
		return 0, units
	case slots > units:
		return slot % units, slot%units + 1
	}
	return slot * units / slots, (slot + 1) * units / slots
}

// of returns the units of a slot.
func (u *units) of(slot, slots int) (lo, hi int) { return slotUnits(slot, slots, len(u.slots)) }

// setUnits gives the node as many units as its host has. It does nothing while tasks run.
func (n *Node) setUnits() {
	count, group := n.host.Units()
	if count = min(count, MostUnits); n.runsTasks() || count == len(n.units.slots) && group == n.units.group {
		return
	}
	n.units = units{slots: make([]int, count), taken: make([]bool, count), free: count, group: max(group, 1)}
}

// UnitCount returns how many units the node has. The lock is held.
func (n *Node) UnitCount() int { return len(n.units.slots) }

// Units returns the units that the task with this slot holds, or with this number in place of a slot's. They are nil for a
// slot that has the whole node, and for a number that no task has. The lock is held.
func (n *Node) Units(slot int) []int {
	if slot < 0 || slot >= len(n.slots) {
		return n.units.held[slot]
	}
	if len(n.slots) == 1 || n.UnitCount() <= 1 {
		return nil
	}
	lo, hi := n.units.of(slot, len(n.slots))
	units := make([]int, 0, hi-lo)
	for i := lo; i < hi; i++ {
		units = append(units, i)
	}
	return units
}

// blocked reports whether a slot has a unit that a task without a slot holds.
func (u *units) blocked(slot, slots int) bool {
	if len(u.held) == 0 {
		return false
	}
	lo, hi := u.of(slot, slots)
	return slices.Contains(u.taken[lo:hi], true)
}

// takeSlot and giveSlot count a task in a slot.
func (u *units) takeSlot(slot, slots int) {
	lo, hi := u.of(slot, slots)
	for i := lo; i < hi; i++ {
		if u.slots[i] == 0 {
			u.free--
		}
		u.slots[i]++
	}
}

func (u *units) giveSlot(slot, slots int) {
	lo, hi := u.of(slot, slots)
	for i := lo; i < hi; i++ {
		if u.slots[i]--; u.slots[i] == 0 {
			u.free++
		}
	}
}

// isFree reports whether no task holds a unit.
func (u *units) isFree(i int) bool {
	return i >= 0 && i < len(u.slots) && u.slots[i] == 0 && !u.taken[i]
}

// pick returns the units for a task that wants so many, which are free: those of the first device that has as many, if
// that is enough, else the first.
func (u *units) pick(want int) []int {
	picked := make([]int, 0, want)
	for i := range u.slots {
		if want <= u.group && i%u.group == 0 {
			picked = picked[:0] // another device
		}
		if u.isFree(i) {
			picked = append(picked, i)
		}
		if len(picked) == want {
			return picked
		}
	}
	picked = picked[:0]
	for i := range u.slots { // no device alone has as many
		if u.isFree(i) && len(picked) < want {
			picked = append(picked, i)
		}
	}
	return picked
}

// takeUnits gives a task units that are free. It returns the number that the task has in place of a slot's: that of no slot
// and of no other such task.
func (n *Node) takeUnits(picked []int) (slot int) {
	u := &n.units
	if u.held == nil {
		u.held = map[int][]int{}
	}
	slot = len(n.slots) + slices.Min(picked)
	u.held[slot] = picked
	for _, i := range picked {
		u.taken[i] = true
	}
	u.free -= len(picked)
	return slot
}

// giveUnits takes a task's units back.
func (n *Node) giveUnits(slot int) {
	u := &n.units
	for _, i := range u.held[slot] {
		u.taken[i] = false
	}
	u.free += len(u.held[slot])
	delete(u.held, slot)
}

// unitsBase is the base of a number with a bit for each unit: its digits are 0 to 9 and a to v.
const unitsBase = 32

// FormatUnits returns a short text for units: lower-case letters and digits, 39 at most.
func FormatUnits(units []int) string {
	var bits big.Int
	for _, i := range units {
		bits.SetBit(&bits, i, 1)
	}
	return bits.Text(unitsBase)
}

// ParseUnits reverses FormatUnits. It returns nil for a text that FormatUnits does not return.
func ParseUnits(text string) (units []int) {
	if len(text) > MostUnits/5+1 {
		return nil
	}
	bits, ok := new(big.Int).SetString(text, unitsBase)
	if !ok || bits.Sign() <= 0 || bits.BitLen() > MostUnits || bits.Text(unitsBase) != text {
		return nil
	}
	for i := range bits.BitLen() {
		if bits.Bit(i) == 1 {
			units = append(units, i)
		}
	}
	return units
}

// WantUnits makes the task hold so many units of a node, instead of a slot, unless they are 0. It is called before the task
// is submitted.
func (t *Task) WantUnits(units int) { t.units = int32(min(units, MostUnits+1)) }

// TakeUnits takes units of a node for a task that runs there already, and returns the task's number in place of a slot's.
// It reports false if the node does not have them, or any of them is taken. The lock is held.
func (s *Scheduler) TakeUnits(n *Node, units []int) (slot int, ok bool) {
	n.setUnits()
	for i, unit := range units {
		if !n.units.isFree(unit) || slices.Contains(units[:i], unit) {
			return 0, false
		}
	}
	if len(units) == 0 {
		return 0, false
	}
	return s.queues.takeUnits(n, slices.Clone(units)), true
}

// takeUnits is Node.takeUnits for a node in the queues.
func (s *queues) takeUnits(n *Node, picked []int) (slot int) {
	s.divided = true
	slot = n.takeUnits(picked)
	s.refree(n)
	return slot
}

// sizedQueue returns the queue for tasks that may run on the nodes of another queue, and want so many units.
func (s *queues) sizedQueue(main *queue, size int) *queue {
	i, found := slices.BinarySearchFunc(main.sized(), size, func(q *queue, size int) int { return cmp.Compare(q.size(), size) })
	if found {
		return main.sizes.queues[i]
	}
	q := &queue{kind: main.kind, target: main.target, pin: main.pin, sizes: &sizes{size: size, main: main}}
	m := main.ofSizes()
	m.queues = slices.Insert(m.queues, i, q)
	switch {
	case q.kind == queueAny:
		q.free = least.New(nodeBefore(true)) // first fit
		for _, n := range s.nodes {
			q.setSized(n)
		}
	case main.matching != nil:
		q.free = least.New(nodeBefore(true))
		for n := range main.matching {
			q.setSized(n)
		}
		s.pairs += len(main.matching)
	}
	return q
}

// sizes are what a queue has in a scheduler with tasks that want units. A main queue is for tasks that want a slot. Those
// that may run on the same nodes and want units are in queues of their own, one for each number of units.
type sizes struct {
	size int    // how many units the queue's tasks want; zero for a main queue
	main *queue // its main queue; nil for a main queue

	queues   []*queue // of a main queue, by size
	reserved *Node    // the node that is reserved for a main queue or one of queues, or nil
}

// ofSizes returns a main queue's sizes, which it makes if there are none.
func (q *queue) ofSizes() *sizes {
	if q.sizes == nil {
		q.sizes = &sizes{}
	}
	return q.sizes
}

// size returns how many units the queue's tasks want.
func (q *queue) size() int {
	if q.sizes == nil {
		return 0
	}
	return q.sizes.size
}

// sized returns the queues of a main queue for tasks that want units.
func (q *queue) sized() []*queue {
	if q.sizes == nil {
		return nil
	}
	return q.sizes.queues
}

// setSized adds a node to those with enough free units, or removes it.
func (q *queue) setSized(n *Node) {
	if q.free == nil || n == nil {
		return
	}
	if n.state == Open && n.reserved == nil && n.hold == nil && n.units.free >= q.size() {
		q.free.Put(n)
	} else {
		q.free.Remove(n)
	}
}

// main returns the queue for a slot's tasks that may run on the same nodes.
func (q *queue) main() *queue {
	if q.sizes != nil && q.sizes.main != nil {
		return q.sizes.main
	}
	return q
}

// reservation returns the node that is reserved for the queue, or for another one for the same nodes, or nil.
func (q *queue) reservation() *Node {
	if sizes := q.main().sizes; sizes != nil {
		return sizes.reserved
	}
	return nil
}

// isEmpty reports whether no task is in the queue or, if it is a main one, in those for sizes, not even one of a batch
// that is held.
func (q *queue) isEmpty() bool {
	return len(q.batches) == 0 && !slices.ContainsFunc(q.sized(), func(q *queue) bool { return len(q.batches) > 0 })
}

// admits reports whether the next task of a queue that allows the node can start there now.
func (n *Node) admits(q *queue) bool {
	switch {
	case n.state != Open && (n.state != Leaving || q.kind != queuePinned), n.reserved != nil && n.reserved != q, n.hold != nil:
		return false
	case q.size() > 0:
		return n.units.free >= q.size()
	}
	return n.hasRoom()
}

// oldest returns which of a main queue and those for its sizes has the task whose turn it is, of those for which is
// reports true, or nil.
func (q *queue) oldest(is func(*queue) bool) (oldest *queue) {
	consider := func(q *queue) {
		if q.waiting > 0 && is(q) && (oldest == nil || q.nextTurn() < oldest.nextTurn()) {
			oldest = q
		}
	}
	consider(q)
	for _, sized := range q.sized() {
		consider(sized)
	}
	return oldest
}

// refill starts what waits for nodes whose reservation has ended. The lock is held.
func (s *Scheduler) refill() {
	for len(s.queues.reservations.released) > 0 {
		last := len(s.queues.reservations.released) - 1
		n := s.queues.reservations.released[last]
		s.queues.reservations.released = s.queues.reservations.released[:last]
		s.fill(n)
	}
}
