// Package rootcause tells which of a gang's failures was the first, from how its processes ended, what they printed last
// and what their nodes reported. The others mostly followed from it: when one process of a gang ends, its peers fail too,
// within a second, and each launcher calls its own process the root cause.
package rootcause

import (
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
)

// A Failure is a share of a gang that has failed or, while the gang hangs, one that still runs: a process, or a launcher
// with all of its node's processes.
type Failure struct {
	// Node is the rank of the node in the gang.
	Node int
	// Ranks are the ranks of the share's processes.
	Ranks []int
	// Daemon means that the share is a daemon of mpirun's, which ends with mpirun.
	Daemon bool
	// Why is how it failed. It is nil for one that runs, that has ended with success, that gputrain has ended, or whose
	// node was lost.
	Why *attempt.Failure
	// At is when it ended, by this computer's clock. A program need not have heard of it then: see attempt.Failure.
	At time.Time
	// Output is the last of what it printed, on stdout and stderr: 64 KiB are enough, and of more the last are read. A
	// launcher's own words can fill 4 KiB.
	Output string
	// Steps are the last steps that its processes have reported, by rank.
	Steps map[int]int64
	// Succeeded means that it has ended with success, at At.
	Succeeded bool
	// Heard is when it last printed or reported something, or zero.
	Heard time.Time
	// Stalled means that it made no progress for too long.
	Stalled bool
	// Stacks are what its processes were doing, by rank, as package stacks describes them. A text may be about the processes of
	// other ranks too.
	Stacks map[int]string
	// Lost means that the node was lost or preempted.
	Lost bool
	// Faults are those of the node's devices.
	Faults []Fault
}

// A Fault is a fault of an accelerator.
type Fault struct {
	At time.Time
	// Xid is NVIDIA's number, or 0.
	Xid int
	// Ends means that no program can go on with the device: it must start again, at least.
	Ends bool
	Text string
}

// A Verdict is a failure with its cause.
type Verdict struct {
	Failure
	// Index is that of the failure in the argument of Order, or -1 for a root that nothing tells.
	Index int
	// Rank is the process that failed, or -1 if that is not known. It may run on another node than the share if mpirun
	// named it: Node is the process's, or -1 if nothing tells it.
	Rank int
	// ExitCode and Signal are those of the process. They are not the launcher's, if that has named them. An ExitCode of -1
	// is not known.
	ExitCode int
	Signal   string
	// Fault is the fault of a device that is its cause, or nil.
	Fault *Fault
	// Peer means that it failed only because another one had.
	Peer bool
	// Rule is the rule of Order that applies to it, or 0. Reason says why in a few words.
	Rule   int
	Reason string
	// Hint says what to do, or is empty.
	Hint string
}

// The fault of a device may be the cause of a failure from before it until after it: the kernel's messages come by another
// way, and may be late.
const (
	before = time.Minute
	after  = 10 * time.Second
)

// causesExit reports whether a fault may be why a program on the device ended. Most notes are not: 45, say, is the cleanup
// after another fault.
func (f *Fault) causesExit() bool {
	switch f.Xid {
	case 13, 31, 32, 69: // illegal accesses, which the program may have made
		return true
	}
	return f.Ends
}

// fault returns the first fault that may be why a share failed.
func (f *Failure) fault() *Fault {
	var first *Fault
	for i := range f.Faults {
		x := &f.Faults[i]
		near := f.At.IsZero() || x.At.After(f.At.Add(-before)) && x.At.Before(f.At.Add(after))
		if near && (x.Ends || f.Why != nil && x.causesExit()) && (first == nil || x.At.Before(first.At)) {
			first = x
		}
	}
	return first
}
