package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/cutoff"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/providers/driver"
)

// await calls done at each change of the fleet, and when one of the contexts ends, until it
// reports true, and returns its error. The lock is held while done runs.
func (f *Fleet) await(done func() (bool, error), contexts ...context.Context) error {
	for _, ctx := range contexts {
		defer context.AfterFunc(ctx, func() {
			f.config.Lock.Lock() // or it comes between a look and the wait that follows
			defer f.config.Lock.Unlock()
			f.changed.Broadcast()
		})()
	}
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	for {
		if ok, err := done(); ok {
			return err
		}
		f.changed.Wait()
	}
}

// AwaitReady waits until so many members are ready, or can no longer become so.
func (f *Fleet) AwaitReady(want int) error {
	ctx := f.config.Context
	return f.await(func() (bool, error) {
		switch {
		case f.roster.count(func(m *Member) bool { return m.state == Ready }) >= want:
			return true, nil
		case ctx.Err() != nil:
			return true, cutoff.By(ctx, context.Cause(ctx))
		case f.roster.count(func(m *Member) bool { return !m.state.Over() }) < want:
			return true, f.NoNodes()
		}
		return false, nil
	}, ctx)
}

// AwaitEach waits until each of the members has been seen ready, or over before the end of the pool.
func (f *Fleet) AwaitEach(members []*Member) error {
	ctx := f.config.Context
	return f.await(func() (bool, error) {
		if ctx.Err() != nil { // which may be why the rest is over
			return true, cutoff.By(ctx, context.Cause(ctx))
		}
		for len(members) > 0 {
			if state := members[0].state; state != Ready && !state.Over() {
				return false, nil
			}
			members = members[1:]
		}
		return true, nil
	}, ctx)
}

// Resize has the fleet have n members, at least so many if it is elastic, and returns when as
// many are ready and the end of all others was asked for, or when ctx ends. Members that are over are tried anew.
func (f *Fleet) Resize(ctx context.Context, n int) error {
	f.resize(n)
	f.scaler.rescale()
	return f.await(func() (bool, error) {
		members := len(f.roster.members)
		ready := f.roster.count(func(m *Member) bool { return m.state == Ready && !m.leaves })
		over := f.roster.count(func(m *Member) bool { return m.state.Over() })
		switch {
		case f.closing:
			return true, f.ClosedError()
		case ctx.Err() != nil:
			return true, cutoff.By(f.config.Context, context.Cause(ctx))
		case f.scaler.least != n:
			return true, &driver.Error{Op: "resize", Err: fmt.Errorf("another Resize, to %d nodes, has overtaken it", f.scaler.least)}
		case ready >= n && members <= f.scaler.most && f.ending == 0:
			return true, nil
		case members >= n && over > 0 && ready+over >= members, ready < n && !f.scaler.stalled.IsZero():
			return true, f.NoNodes()
		}
		return false, nil
	}, ctx, f.config.Context)
}

// resize sets how many members the fleet has, and drops those that are over.
func (f *Fleet) resize(n int) {
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	f.scaler.least, f.scaler.most = n, n
	if f.config.Elastic {
		f.scaler.most = max(n, f.config.Most)
	}
	f.scaler.stalled, f.roster.lastErr = time.Time{}, nil
	for _, m := range slices.Backward(slices.Clone(f.roster.members)) {
		if m.state.Over() {
			f.remove(m)
		}
	}
	f.Tasks.Dispatch()
}

// Wake has an elastic fleet get the member that the target of a broadcast names, and one if it
// has none, and waits for that. The broadcast's task wants so many units.
func (f *Fleet) Wake(ctx context.Context, t scheduler.Target, units int) error {
	if !f.config.Elastic {
		return nil
	}
	began := time.Now()
	rank, byRank := t.Rank()
	waited := false
	return f.await(func() (bool, error) {
		if waited {
			f.scaler.woken = 0
		} else if err := f.Tasks.Impossible(t, units); err != nil {
			return true, err
		}
		switch {
		case f.roster.count(func(m *Member) bool { return m.takesPart() && (!byRank || m.Rank() == rank) }) > 0:
			for _, m := range f.roster.members {
				m.idleSince = time.Now() // none is about to go, which would change ranks
			}
			return true, nil
		case f.closing:
			return true, f.ClosedError()
		case ctx.Err() != nil:
			return true, context.Cause(ctx)
		case !f.scaler.stalled.Before(began):
			return true, f.NoNodes()
		}
		f.scaler.woken = max(rank+1, 1) // if two want different ones, each asks again
		f.scaler.rescale()
		waited = true
		return false, nil
	}, ctx, f.config.Context)
}
