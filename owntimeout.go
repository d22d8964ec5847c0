package gputrain

import (
	"context"
	"errors"
)

// notDeadline returns an error that is not context.DeadlineExceeded: the time that is over
// was one of this package, of a driver or of a client, and no deadline of the caller's.
func notDeadline(err error) error {
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
