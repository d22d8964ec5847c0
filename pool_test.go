package gputrain

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The end of the user's context closes a pool even if it came before the pool watched for it.
func TestPoolOfAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lifetime
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l.begin(ctx, time.Time{}, 0)
		closed := false
		l.closeAtEnd(func() error {
			l.stop(ErrClosed)
			closed = true
			return nil
		})
		synctest.Wait()
		if !closed {
			t.Error("it is not closed")
		}
	})
}

// Until Attach has finished, the end of its context neither closes the pool nor ends the pool's own
// context, with which tasks would end. Afterwards it closes the pool, even if it came during Attach.
func TestAttachedPoolOfAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lifetime
		ctx, cancel := context.WithCancelCause(t.Context())
		l.begin(context.WithoutCancel(ctx), time.Time{}, 0)
		l.attaching.Store(true)
		closed := false
		end := func() error {
			return l.closeBy(func() error {
				l.stop(ErrClosed)
				closed = true
				return nil
			})
		}
		l.closeAtEnd(end)
		enough := errors.New("enough")
		cancel(enough)
		synctest.Wait()
		if closed || l.ctx.Err() != nil {
			t.Errorf("closed while attaching: %v; its context: %v", closed, context.Cause(l.ctx))
		}
		l.attached(ctx, end)
		synctest.Wait()
		if !closed || !errors.Is(context.Cause(l.ctx), enough) {
			t.Errorf("closed: %v; its context: %v", closed, context.Cause(l.ctx))
		}
	})
}
