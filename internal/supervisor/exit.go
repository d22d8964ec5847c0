package supervisor

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Cause is the reason for a task's end.
type Cause int

const (
	// Exited means that the command ended by itself, with Exit.Code.
	Exited Cause = iota
	// Signaled means that a signal ended it that gputrain did not send.
	Signaled
	// OutOfMemory means that the kernel ended it for its memory.
	OutOfMemory
	// TimedOut means that it ran longer than its Timeout.
	TimedOut
	// Cancelled means that it was ended, or never started, on request.
	Cancelled
	// Vanished means that the process that waited for it on the node was killed: nothing is known of its end.
	Vanished
	// Lapsed means that the node ended it, or did not start it, since no client had been heard for the lease: see [Keep].
	Lapsed
)

// String returns the cause in lower case: "timed out".
func (c Cause) String() string {
	names := [...]string{"exited", "signaled", "out of memory", "timed out", "cancelled", "vanished", "lapsed"}
	if c < 0 || int(c) >= len(names) {
		return "unknown"
	}
	return names[c]
}

// An Exit is how a task ended.
type Exit struct {
	// Code is the exit status: 128 plus the signal's number if a signal ended the command, -1 if nothing is known.
	Code int
	// Signal is the signal's name without SIG, "KILL", or "". If the node has bash but no perl, statuses 130, 141 and
	// 143 always read as INT, PIPE and TERM: bash does not distinguish a command that died of these from one that
	// exited with these numbers.
	Signal string
	Cause  Cause
	// Elapsed is how long the command ran, by the node's clock if that can be read, to a hundredth of a second. It is
	// never negative, and never longer than this side waited: from when it asked for the start of the task, or from
	// Resume's since, until the node reported the end.
	Elapsed time.Duration
	// StdoutBytes and StderrBytes are how many bytes of each the sinks got.
	StdoutBytes, StderrBytes int64
	// DiskFull is true if the node's disk had no room for the status or for output, some of which may be missing, or if
	// it was full when a command failed.
	DiskFull bool
	// Scratch is the absolute path of the task's own directory, with Spec.Scratch. It exists until Release.
	Scratch string
	// Steps is true if the task has left a file in its folder for steps.
	Steps bool
}

// ErrNotStarted means that the command was never started. Errors that wrap it have the reason.
var ErrNotStarted = errors.New("not started")

// ErrClosed means that the node's supervisor was closed.
var ErrClosed = errors.New("the node's supervisor is closed")

// ErrLapsed means that the node ended the pool on its own: its lease or TTL ran out, or its folder was removed.
var ErrLapsed = errors.New("the node has ended itself: its lease or TTL ran out, or its folder was removed")

// ErrRestarted means that the machine, or its container, was restarted: everything that ran there is gone.
var ErrRestarted = errors.New("the node was restarted: what ran there is gone")

// ErrOverdue means that the node did not keep a time limit: long after it the node had not reported the end of the
// command. The node is given up.
var ErrOverdue = errors.New("the node did not keep a time limit")

// ErrSink means that a sink failed, which ends the task. Its end is then known.
var ErrSink = errors.New("the task's output cannot be written")

// ErrDiskFull means that the node's disk has no room for what was to be written.
var ErrDiskFull = errors.New("the node's disk is full")

// An outcome is the content of a 'D' frame: how a task ended, and where each stream is.
type outcome struct {
	Exit
	inFile [2]bool   // the stream is in a file, to be asked for
	text   [2]string // otherwise all of the stream
}

var signalPattern = regexp.MustCompile(`^[A-Z0-9+-]{1,16}$`)

// parseDone parses a 'D' frame: id, code, signal, cause, milliseconds, the sum of 1 if the disk was full and 2 if there are
// step files, for each stream 0 (empty), 1 (in its file) or 2 (in the text), and the text of those with 2, quoted as by
// bash's printf %q. If the command never started it returns an error that wraps ErrNotStarted.
func parseDone(s, dir string) (x outcome, err error) {
	w := strings.SplitN(s, " ", 9)
	if len(w) < 8 {
		return x, fmt.Errorf("%w: end of a task in %d words", errFrame, len(w))
	}
	rest := ""
	if len(w) == 9 {
		rest = w[8]
	}
	for s, where := range w[6:8] {
		switch where {
		case "0":
		case "1":
			x.inFile[s] = true
		case "2":
			if x.text[s], rest, err = unquote(rest); err != nil {
				return x, fmt.Errorf("%w: %w", errFrame, err)
			}
		default:
			return x, fmt.Errorf("%w: output in %.20q", errFrame, where)
		}
	}
	code, err := strconv.Atoi(w[1])
	if err != nil {
		return x, fmt.Errorf("%w: exit status %.20q", errFrame, w[1])
	}
	x.Code = code
	if x.Signal = strings.TrimPrefix(w[2], "SIG"); w[2] == "-" {
		x.Signal = ""
	} else if !signalPattern.MatchString(x.Signal) {
		return x, fmt.Errorf("%w: signal %.20q", errFrame, w[2])
	}
	if ms, err := strconv.ParseInt(w[4], 10, 64); err == nil {
		x.Elapsed = time.Duration(min(max(ms, 0), maxSize/int64(time.Millisecond))) * time.Millisecond
	} else {
		x.Elapsed = -1
	}
	x.DiskFull, x.Steps = w[5] == "1" || w[5] == "3", w[5] == "2" || w[5] == "3"
	switch w[3] {
	case "exit":
		x.Cause = Exited
	case "signal":
		x.Cause = Signaled
	case "oom":
		x.Cause = OutOfMemory
	case "timedout":
		x.Cause = TimedOut
	case "cancelled":
		x.Cause = Cancelled
	case "vanished": // the runner was killed
		x.Cause, x.Code = Vanished, -1
	case "lapsed": // the lease was over
		x.Cause, x.Code = Lapsed, -1
	case "never": // cancelled before it was started
		x.Cause, x.Code = Cancelled, -1
	case "nodir":
		return x, fmt.Errorf("%w: no such folder on the node, or it cannot be entered: %s", ErrNotStarted, dir)
	case "nostdin":
		return x, fmt.Errorf("%w: its stdin is gone from the node", ErrNotStarted)
	case "noscratch":
		return x, fmt.Errorf("%w: its scratch directory cannot be made: %w, or cannot be written to", ErrNotStarted, ErrDiskFull)
	case "nofork":
		return x, fmt.Errorf("%w: the node can make no process for it: it has too many already, too little memory, or too many open files", ErrNotStarted)
	case "notty":
		return x, fmt.Errorf("%w: it needs a terminal, which takes perl or python3 on the node, and neither can be used; Image.Apt can install one", ErrNotStarted)
	case "nopty":
		return x, fmt.Errorf("%w: the node cannot make a terminal for it: it has no /dev/ptmx that works, or too many terminals", ErrNotStarted)
	case "nodisk":
		return x, fmt.Errorf("%w: %w", ErrNotStarted, ErrDiskFull)
	case "fenced": // its client was deposed just before
		return x, fmt.Errorf("%w: %w", ErrNotStarted, ErrFenced)
	default:
		return x, fmt.Errorf("%w: cause %.20q", errFrame, w[3])
	}
	return x, nil
}
