package scheduler

import "slices"

// A State is which tasks a node takes.
type State int

const (
	// A Coming node takes no task yet, and may still get labels.
	Coming State = iota
	// An Open node takes any task that is allowed on it.
	Open
	// A Leaving node takes only what is pinned to it.
	Leaving
	// An Away node takes no task until it is back.
	Away
	// An Over node takes no task ever again.
	Over
)

// A Host is the machine of a Node. Its methods are called with the scheduler's lock held.
type Host interface {
	// State returns which tasks the machine takes now.
	State() State
	// Labels returns what the machine is known by. The map does not change.
	Labels() map[string]string
	// End returns why the machine is over. It is asked only if it is.
	End() error
	// Units returns how many units the machine has, which tasks can hold alone, and how many in a row are shares of one
	// device. They are 0 until they are known, and do not change while tasks run.
	Units() (count, group int)
	// Idle is called when no task runs on the node any more.
	Idle()
}

// A Node is the slots and units of one machine, and the tasks that are for it alone. The
// scheduler's lock guards it.
type Node struct {
	host   Host
	rank   int // -1 unless it has a place
	state  State
	labels map[string]string
	slots  []bool // which are taken
	busy   int    // how many are
	units  units
	// reserved is the queue whose task starts here next, or nil if any may: see reservations.
	reserved *queue
	// hold has the whole node, or is nil.
	hold *Hold

	pinned  queue              // shares of broadcasts
	targets []*queue           // for labels that it has
	turns   [queueKinds]uint64 // when each kind of queue had one of its slots last
}

// NewNode returns a node with free slots that has no place yet.
func NewNode(host Host, slots int) *Node {
	n := &Node{host: host, rank: -1, slots: make([]bool, slots)}
	n.pinned.pin = n
	return n
}

// Host returns what the node was made with.
func (n *Node) Host() Host { return n.host }

// Slots returns how many slots the node has. It needs no lock.
func (n *Node) Slots() int { return len(n.slots) }

// Busy returns how many tasks run on the node. A Hold that has the node counts as one.
func (n *Node) Busy() int {
	busy := n.busy + len(n.units.held)
	if n.hold != nil {
		busy++
	}
	return busy
}

// runsTasks reports whether a task runs on the node.
func (n *Node) runsTasks() bool { return n.busy > 0 || len(n.units.held) > 0 }

// Pinned returns how many tasks wait for this very node.
func (n *Node) Pinned() int {
	waiting := n.pinned.len()
	for _, q := range n.pinned.sized() {
		waiting += q.len()
	}
	return waiting
}

// takesTasks reports whether any task that wants a slot can start on the node now.
func (n *Node) takesTasks() bool {
	return n.state == Open && n.reserved == nil && n.hold == nil && n.hasRoom()
}

// takesPinned reports whether a task that is pinned to the node and wants a slot can start now.
func (n *Node) takesPinned() bool {
	return (n.state == Open || n.state == Leaving) && n.hold == nil && n.hasRoom()
}

// hasRoom reports whether a slot is free, with its units.
func (n *Node) hasRoom() bool {
	return n.busy < len(n.slots) && (len(n.units.held) == 0 || n.freeSlot() >= 0)
}

// freeSlot returns the first slot that is free, with its units, or -1.
func (n *Node) freeSlot() int {
	if len(n.units.held) == 0 {
		return slices.Index(n.slots, false)
	}
	for slot, taken := range n.slots {
		if !taken && !n.units.blocked(slot, len(n.slots)) {
			return slot
		}
	}
	return -1
}
