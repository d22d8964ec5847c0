package fleet

import "fmt"

// A State is where a node is in its life.
type State int

const (
	// A Launching node is asked for, or on its way up.
	Launching State = iota
	// A Connecting node runs; SSH is not there yet.
	Connecting
	// A Bootstrapping node is made ready: packages, files, setup.
	Bootstrapping
	// A Ready node takes tasks.
	Ready
	// An Unreachable node was ready; its connection is down and is being reopened.
	Unreachable
	// A Lost node is given up: vanished, preempted, or unreachable for too long.
	Lost
	// A Failed node never became ready.
	Failed
	// A Terminated node was ended by the pool.
	Terminated
)

var stateNames = [...]string{"launching", "connecting", "bootstrapping", "ready", "unreachable", "lost", "failed", "terminated"}

// String returns the state in lower case: "ready".
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("NodeState(%d)", int(s))
	}
	return stateNames[s]
}

// Over reports whether the node will never take a task again.
func (s State) Over() bool { return s >= Lost }

// Works reports whether the node takes tasks, or does so again once it can be reached.
func (s State) Works() bool { return s == Ready || s == Unreachable }
