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
	// Idle is called when no slot of the node is taken any more.
	Idle()
}

// A Node is the slots of one machine, and the tasks that are for it alone. The
// scheduler's lock guards it.
type Node struct {
	host   Host
	rank   int // -1 unless it has a place
	state  State
	labels map[string]string
	slots  []bool // which are taken
	busy   int    // how many are

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

// Busy returns how many slots are taken.
func (n *Node) Busy() int { return n.busy }

// Pinned returns how many tasks wait for this very node.
func (n *Node) Pinned() int { return n.pinned.len() }

// takesTasks reports whether any task can start on the node now.
func (n *Node) takesTasks() bool { return n.state == Open && n.hasRoom() }

// takesPinned reports whether a task that is pinned to the node can start now.
func (n *Node) takesPinned() bool { return (n.state == Open || n.state == Leaving) && n.hasRoom() }

func (n *Node) hasRoom() bool { return n.busy < len(n.slots) }

// freeSlot returns the first slot that is free. There is one.
func (n *Node) freeSlot() int { return slices.Index(n.slots, false) }
