package cloud

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// cleanupTimeout bounds calls that are made even after the caller has given up.
const cleanupTimeout = time.Minute

// A Search looks for the result of a create whose answer was lost. It creates nothing.
type Search[T any] struct {
	Pool driver.PoolInfo
	// Name is the node's, for messages. Why is the error of the create.
	Name string
	Why  error
	// The cloud's lists may lack a new machine for Lag. Pause is the time between two looks.
	Lag, Pause time.Duration
	// Failed looks are repeated until Grace after Lag. Zero means a minute.
	Grace time.Duration
	// Find looks once. Its answer is complete unless it returns an error.
	Find func(ctx context.Context) (found T, ok bool, err error)
}

// Settle looks until it finds something, or until a complete answer from after the lag lacks
// it, which is an error of the kind driver.ErrUnavailable. If the caller has given up, it looks
// once.
func (s Search[T]) Settle(caller context.Context) (T, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), s.Lag+cmp.Or(s.Grace, cleanupTimeout))
	defer cancel()
	until := time.Now().Add(s.Lag)
	s.Pool.Settling(fmt.Errorf("%s may have been made: %w", s.Name, s.Why), until)
	for {
		asked := time.Now()
		found, ok, err := s.Find(ctx)
		if ok {
			return found, nil
		}
		if err == nil && asked.After(until) || !retry.Sleep(caller, s.Pause) || ctx.Err() != nil {
			var none T
			return none, &driver.Error{Kind: driver.ErrUnavailable, Err: s.Why, Hint: "it may have been made nevertheless: List shows it"}
		}
	}
}
