package cutoff

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

var errTimeout = fmt.Errorf("the engine: %w", context.DeadlineExceeded)

func TestBy(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	if err := By(ctx, errTimeout); err != errTimeout {
		t.Errorf("before the end: %v", err)
	}
	end(driver.ErrExpired)
	err := By(ctx, errTimeout)
	if !errors.Is(err, driver.ErrExpired) || errors.Is(err, context.DeadlineExceeded) || err.Error() != "pool has expired (the engine: context deadline exceeded)" {
		t.Errorf("after it: %v", err)
	}
	if again := By(ctx, err); again != err {
		t.Errorf("the cause twice: %v", again)
	}
}

func TestNotDeadline(t *testing.T) {
	of := &driver.Error{Kind: driver.ErrUnavailable, Err: errTimeout}
	err := NotDeadline(of)
	if errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, driver.ErrUnavailable) || err.Error() != of.Error() {
		t.Errorf("%v", err)
	}
	if got, ok := errors.AsType[*driver.Error](err); !ok || got != of {
		t.Errorf("errors.As finds %v", got)
	}
	if err := NotDeadline(driver.ErrAuth); err != driver.ErrAuth {
		t.Errorf("another error: %v", err)
	}
	if err := NotDeadline(nil); err != nil {
		t.Errorf("no error: %v", err)
	}
}

func TestWhile(t *testing.T) {
	own := &driver.Error{Op: "pool", Kind: driver.ErrClosed}
	for _, tt := range []struct {
		cause, err error
		is         []error
		want       string
	}{
		{context.Canceled, errors.New("no\nanswer"), []error{context.Canceled}, "acme: open: context canceled while dialing: no answer"},
		{context.Canceled, context.Canceled, []error{context.Canceled}, "acme: open: context canceled while dialing"},
		{errors.New("shutdown"), errTimeout, []error{context.Canceled}, "acme: open: shutdown while dialing: the engine: context deadline exceeded (context canceled)"},
		{own, own, []error{driver.ErrClosed}, "acme: open: pool is closed while dialing"},
	} {
		ctx, end := context.WithCancelCause(t.Context())
		end(tt.cause)
		err := While(ctx, &driver.Error{Provider: "acme", Op: "open"}, "dialing", tt.err)
		if err.Error() != tt.want || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		for _, is := range append(tt.is, tt.cause) {
			if !errors.Is(err, is) {
				t.Errorf("%v is not %v", err, is)
			}
		}
	}
	ctx, end := context.WithTimeout(t.Context(), time.Nanosecond)
	defer end()
	<-ctx.Done()
	if err := While(ctx, &driver.Error{Op: "open"}, "dialing", errors.New("no")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's deadline: %v", err)
	}
	if err := While(t.Context(), &driver.Error{Op: "open"}, "dialing", errTimeout); errors.Is(err, context.DeadlineExceeded) || err.Error() != errTimeout.Error() {
		t.Errorf("before the end: %v", err)
	}
}

// A hasty error leaves what it ends a second.
type hasty struct{ error }

func (hasty) KillGrace() time.Duration { return time.Second }

func TestGrace(t *testing.T) {
	for name, tt := range map[string]struct {
		cause error
		usual time.Duration
		want  time.Duration
	}{
		"not ended":    {nil, time.Minute, time.Minute},
		"as usual":     {errors.New("no"), time.Minute, time.Minute},
		"hasty":        {fmt.Errorf("why: %w", hasty{errors.New("no")}), time.Minute, time.Second},
		"hasty enough": {hasty{errors.New("no")}, time.Millisecond, time.Millisecond},
	} {
		parent, cancel := context.WithCancelCause(t.Context())
		ctx, stop := context.WithCancel(parent)
		if tt.cause != nil {
			cancel(tt.cause)
		}
		if got := Grace(ctx, tt.usual); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		stop()
		cancel(nil)
	}
}
