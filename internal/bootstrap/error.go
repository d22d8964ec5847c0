package bootstrap

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
)

// An Error is the failure of a phase.
type Error struct {
	// Phase is the phase's name.
	Phase string
	// ExitCode is that of the phase's commands, or -1 if they did not exit; Cause then is how they ended. Cause means
	// something only if they ran.
	ExitCode int
	Cause    supervisor.Cause
	// Elapsed is how long the phase ran.
	Elapsed time.Duration
	// Tail is the end of the phase's output: stdout and stderr in order, without colours.
	Tail []string
	// Err is the reason. It is never nil.
	Err error
}

// Error returns the reason, and then the tail, one line each.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "bootstrap phase %q: %v", e.Phase, e.Err)
	if len(e.Tail) > 0 {
		b.WriteString("; its last lines:")
	}
	for _, line := range e.Tail {
		b.WriteString("\n  " + line)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// failure returns the error of something other than the phase's commands.
func failure(p Phase, err error) *Error { return &Error{Phase: p.Name, ExitCode: -1, Err: err} }

// ended returns the error of commands that did not exit with 0.
func ended(p Phase, exit supervisor.Exit, limit time.Duration) *Error {
	e := &Error{Phase: p.Name, Cause: exit.Cause, ExitCode: -1}
	switch exit.Cause {
	case supervisor.Exited:
		e.ExitCode = exit.Code
		e.Err = fmt.Errorf("exit code %d", exit.Code)
	case supervisor.TimedOut:
		e.Err = late(limit)
	case supervisor.Signaled:
		e.Err = fmt.Errorf("ended by signal %s", exit.Signal)
	default:
		e.Err = fmt.Errorf("ended: %v", exit.Cause)
	}
	return e
}

// A lateAll ends all phases, after so long.
type lateAll time.Duration

func (l lateAll) Error() string {
	return fmt.Sprintf("the phases were not done after %v together; a longer BootstrapTimeout gives them more time", time.Duration(l))
}

func (lateAll) Is(target error) bool { return target == context.DeadlineExceeded }

// late returns the error of a phase that was ended for its time.
func late(limit time.Duration) error {
	return fmt.Errorf("not done after %v; a longer Image.PhaseTimeout gives it more time", limit)
}
