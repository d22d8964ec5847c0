package invalid

import (
	"context"
	"errors"

	"github.com/gputrain/gputrain/providers/driver"
)

// NoContext returns an error if the context that a user has given to an operation is nil.
func NoContext(op string, ctx context.Context) error {
	if ctx != nil {
		return nil
	}
	return &driver.Error{Op: op, Kind: driver.ErrInvalid, Err: errors.New("the context is nil"), Hint: "context.Background() never ends"}
}

// OrEnded returns the context or, if it is nil, one that has ended because of that.
func OrEnded(op string, ctx context.Context) context.Context {
	err := NoContext(op, ctx)
	if err == nil {
		return ctx
	}
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(err)
	return ended
}
