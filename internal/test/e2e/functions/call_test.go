package functions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

var doubles = gputrain.Func("functions/doubles", func(_ context.Context, x int) (int, error) { return 2 * x, nil })

var fails = gputrain.Func("call/fails", func(ctx context.Context, times int) (int, error) {
	attempt := gputrain.ThisNode(ctx).Attempt
	if attempt <= times {
		return 0, fmt.Errorf("attempt %d fails", attempt)
	}
	return attempt, nil
})

// The goroutine that waits for a single call also makes it. The call is retried like any other.
func TestASingleCallIsTriedAgain(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	task := fails.Call(1)
	task.Retries = 1
	r, err := pool.Run(task)
	if err != nil || r.Attempts != 2 {
		t.Errorf("%d attempts, %v", r.Attempts, err)
	}
	if got, err := fails.Value(r); got != 2 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	task = fails.Call(2)
	task.Retries = 1
	var te *gputrain.TaskError
	if r, err := pool.Run(task); !errors.As(err, &te) || te.Cause != gputrain.CauseFunction || r.Attempts != 2 {
		t.Errorf("%d attempts, %v", r.Attempts, err)
	}
}

// Between the attempts of a single call, the end of its context ends it.
func TestASingleCallIsCancelledBetweenAttempts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventRetry && e.Attempt == 3 { // two seconds before the next attempt
			cancel()
		}
	}))
	task := fails.Call(3)
	task.Retries = 3
	var te *gputrain.TaskError
	if r, err := pool.WithContext(ctx).Run(task); !errors.As(err, &te) || te.Cause != gputrain.CauseCancelled || r.Attempts != 3 {
		t.Errorf("%d attempts, %v", r.Attempts, err)
	}
}

// Single calls from many goroutines share the slots with each other and with queued calls, and each
// returns its own result.
func TestSingleCallsShareTheSlots(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Concurrency: 2})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				if got, err := fails.Run(pool, 0); got != 1 || err != nil {
					t.Errorf("got %d, %v", got, err)
				}
			}
		})
	}
	all.Go(func() {
		outs, err := fails.Gather(pool, make([]int, 100)...)
		for _, got := range outs {
			if got != 1 {
				t.Errorf("got %d", got)
			}
		}
		if err != nil || len(outs) != 100 {
			t.Errorf("%d results, %v", len(outs), err)
		}
	})
	all.Wait()
}
