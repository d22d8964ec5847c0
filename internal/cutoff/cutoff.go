// Package cutoff makes the errors of what has failed since a context has ended, and keeps the
// deadlines of a caller apart from all other times that are over.
package cutoff

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// An Interrupted is the end of a context, with the error that followed from it. It unwraps to
// Cause only.
type Interrupted struct{ Cause, Err error }

func (e *Interrupted) Error() string { return fmt.Sprintf("%v (%v)", e.Cause, e.Err) }

func (e *Interrupted) Unwrap() error { return e.Cause }

// By returns err, or an [Interrupted] if ctx has ended and err is not the cause of that.
func By(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if errors.Is(err, cause) {
		return err
	}
	return &Interrupted{cause, err}
}

// Grace returns how long what runs in ctx may go on after the end of ctx: the usual time, or less if the cause of that
// end has a method KillGrace that says so.
func Grace(ctx context.Context, usual time.Duration) time.Duration {
	var hasty interface{ KillGrace() time.Duration }
	if errors.As(context.Cause(ctx), &hasty) {
		return max(min(usual, hasty.KillGrace()), 0)
	}
	return usual
}

// NotDeadline returns an error that is not context.DeadlineExceeded: the time that is over was
// one of the library, of a driver or of a client, and no deadline of the caller.
func NotDeadline(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &ownTimeout{err}
}

// An ownTimeout is any of the errors in its chain but context.DeadlineExceeded.
type ownTimeout struct{ err error }

func (e *ownTimeout) Error() string { return e.err.Error() }

func (e *ownTimeout) Is(target error) bool {
	return target != context.DeadlineExceeded && errors.Is(e.err, target)
}

func (e *ownTimeout) As(target any) bool { return errors.As(e.err, target) }

// While completes e, the error of what failed since ctx has ended, with what was being done and
// with err. If ctx has not ended, it returns err, which is then no deadline of the caller.
func While(ctx context.Context, e *driver.Error, doing string, err error) error {
	end, cause := ctx.Err(), context.Cause(ctx)
	if end == nil {
		return NotDeadline(err)
	}
	e.Err = fmt.Errorf("%w while %s", cause, doing)
	if err.Error() != cause.Error() {
		e.Err = fmt.Errorf("%w: %s", e.Err, OneLine(err))
	}
	var own *driver.Error
	if !errors.Is(cause, end) && !errors.As(cause, &own) { // a cause of the caller's own
		e.Err = fmt.Errorf("%w (%w)", e.Err, end)
	}
	return e
}

// OneLine returns the text of an error in one line.
func OneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
