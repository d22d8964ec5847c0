package inventory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// An earlyRelease removes, while machines end, shared resources that they no longer need.
type earlyRelease struct {
	inv  *Inventory
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
		for wait := time.Second; retry.Sleep(ctx, wait); wait = min(2*wait, 15*time.Second) {
			info := e.inv.infoAtEnd()
			if len(info.Remaining) == 0 || e.inv.Fenced() != nil {
				return // release removes the rest
			}
			if e.inv.account.Driver.Release(ctx, info) == nil {
				return
			}
		}
	}()
}

// end returns when none of its goroutines run any more.
func (e *earlyRelease) end() {
	if e.stop != nil {
		e.stop()
		<-e.over
	}
}

// infoAtEnd is Info with the machines that are not confirmed gone.
func (inv *Inventory) infoAtEnd() driver.PoolInfo {
	info := inv.Info()
	info.Remaining = slices.Sorted(maps.Keys(inv.machines.known()))
	return info
}

// release removes what the machines shared, and returns when the provider lists nothing of
// the pool any more, the limit is over, or the caller's context ends. If machines remain it removes what they do not
// need.
func (inv *Inventory) release(caller context.Context, limit time.Duration) error {
	ctx, stop := context.WithTimeout(caller, limit)
	defer stop()
	info := inv.infoAtEnd()
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		at := time.Now()
		err := inv.account.Driver.Release(ctx, info)
		listed, listErr := inv.lister.all(ctx)
		if done := err == nil && listErr == nil; done && len(listed)+len(info.Remaining) == 0 && !at.Before(inv.lag.end()) {
			inv.shared.released()
			return nil
		}
		if last := len(info.Remaining) > 0; last || !retry.Sleep(ctx, inv.lag.pause(wait)) {
			return inv.notReleased(caller, at, listed, err, listErr, ctx.Err())
		}
	}
}

// notReleased returns what is left of what the machines shared, after a last release at a time. over is why no other one follows,
// or nil.
func (inv *Inventory) notReleased(caller context.Context, at time.Time, listed []driver.Resource, err, listErr, over error) error {
	if listErr != nil {
		last, stop := context.WithTimeout(caller, 10*time.Second)
		listed, listErr = inv.lister.all(last)
		stop()
	}
	remaining := inv.machines.known() // which terminate has reported
	if listErr == nil && len(listed)+len(remaining) == 0 && err == nil && !at.Before(inv.lag.end()) {
		inv.shared.released()
		return nil
	}
	if err != nil {
		listed = inv.shared.addMade(listed)
	}
	listed = slices.DeleteFunc(listed, func(r driver.Resource) bool { _, reported := remaining[r.ID]; return reported })
	if len(listed) == 0 && listErr == nil {
		return nil
	}
	why := errors.Join(err, listErr, over)
	if why == nil {
		why = errNotYet
	}
	return &LeakError{Resources: listed, Err: why}
}
