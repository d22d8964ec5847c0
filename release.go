package gputrain

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// sharedTimeout bounds the removal of what machines shared, once they are gone or given up.
const sharedTimeout = 2 * time.Minute

// An earlyRelease removes, while machines end, what they shared and need no more.
type earlyRelease struct {
	p    *pool
	stop context.CancelFunc // nil until it has begun
	over chan struct{}
}

// begin starts it, once.
func (e *earlyRelease) begin(ctx context.Context) {
	if e.stop != nil {
		return
	}
	ctx, e.stop = context.WithCancel(ctx)
	e.over = make(chan struct{})
	go func() {
		defer close(e.over)
		for wait := time.Second; sleep(ctx, wait); wait = min(2*wait, 15*time.Second) {
			info := e.p.infoAtEnd()
			if len(info.Remaining) == 0 || e.p.fenced() != nil {
				return // the rest is release's
			}
			if e.p.driver.Release(ctx, info) == nil {
				return
			}
		}
	}()
}

// end returns when nothing of it runs any more.
func (e *earlyRelease) end() {
	if e.stop != nil {
		e.stop()
		<-e.over
	}
}

// infoAtEnd is infoNow, with the machines that are not confirmed gone.
func (p *pool) infoAtEnd() PoolInfo {
	info := p.infoNow()
	info.Remaining = slices.Sorted(maps.Keys(p.known()))
	return info
}

// release removes what the nodes shared, and returns when the provider lists nothing of
// the pool any more. If machines remain it removes what they do not need.
func (p *pool) release(ctx context.Context) error {
	info := p.infoAtEnd()
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		at := now()
		err := p.driver.Release(ctx, info)
		listed, listErr := p.list(ctx)
		if done := err == nil && listErr == nil; done && len(listed)+len(info.Remaining) == 0 && !at.Before(p.wholeFrom()) {
			p.noteReleased()
			return nil
		}
		if last := len(info.Remaining) > 0; last || !sleep(ctx, p.untilWhole(wait)) {
			return p.notReleased(ctx, at, listed, err, listErr)
		}
	}
}

// notReleased says what is left of what the nodes shared, after a release at a time that
// was the last.
func (p *pool) notReleased(ctx context.Context, at time.Time, listed []Resource, err, listErr error) error {
	if listErr != nil {
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		listed, listErr = p.list(last)
		stop()
	}
	remaining := p.known() // which terminate has told of
	if listErr == nil && len(listed)+len(remaining) == 0 && err == nil && !at.Before(p.wholeFrom()) {
		p.noteReleased()
		return nil
	}
	if err != nil {
		listed = p.unreleased(listed)
	}
	listed = slices.DeleteFunc(listed, func(r Resource) bool { _, told := remaining[r.ID]; return told })
	if len(listed) == 0 && listErr == nil {
		return nil
	}
	why := errors.Join(err, listErr, ctx.Err())
	if why == nil {
		why = errNotYet
	}
	return &LeakError{Resources: listed, Err: why}
}
