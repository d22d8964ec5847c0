package gang

import (
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
)

// A Kind says what has failed: the program, a node, a start.
type Kind int

const (
	// Own is a failure of the program: see Failure.Why.
	Own Kind = iota
	// NodeLost is the loss of a node.
	NodeLost
	// NeverStarted is a node that is not fit, or a share that could not be started.
	NeverStarted
	// Stalled is a share that made no progress.
	Stalled
	// Idle is an accelerator that did nothing.
	Idle
	// Accelerator is an accelerator that is broken.
	Accelerator
	// Peer is a share that failed because another one did.
	Peer
)

// A Failure is why a share, or a node, failed.
type Failure struct {
	Kind Kind
	// Node is the rank of the node in the gang, or -1 if it is not known, or the gang as a whole. Share is the share, or -1 if it is
	// the node as a whole. Rank is the process, or -1 if it is not known.
	Node, Share, Rank int
	// Step is the last step that the share reported, or 0.
	Step int64
	// At is when it failed, by this computer's clock.
	At time.Time
	// Why is how the share's process ended, or nil. Err says more, or is nil.
	Why *attempt.Failure
	Err error
	// Stack is what its processes did, or the traceback of what ended one.
	Stack string
	// Final means that no other attempt can do better.
	Final bool
	// Broken means that the node is to be replaced.
	Broken bool
}

// endedError is why the shares of an attempt are ended.
type endedError struct{ failures []Failure }

func (e *endedError) Error() string {
	switch {
	case len(e.failures) == 0:
		return "the training has ended"
	case e.failures[0].Node < 0:
		return "the training's processes start again, or have failed"
	}
	return fmt.Sprintf("another process of the training has failed, on its node %d", e.failures[0].Node)
}

// The processes of a gang get KILL if they have not ended KillGrace after TERM. It is longer than the 30 s that torchrun and
// others give the processes that they started.
const KillGrace = 35 * time.Second

// Ended is why processes are ended because of others.
var Ended error = &endedError{}

// IsEnded reports whether an error is why a gang ended its shares.
func IsEnded(err error) bool {
	_, ended := err.(*endedError)
	return ended
}
