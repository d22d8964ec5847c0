package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/cutoff"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Visit is a use of a member beside its tasks: a shell, a connection. While it lasts, an elastic fleet does not end the
// member for being idle. Resize, the budget and the end of the pool do not wait for it.
type Visit struct {
	Member *Member
	left   bool // guarded by the fleet's lock
}

// NewVisit begins a visit to the member of a rank, and waits until that member can be reached, or until ctx ends. It gets
// the fleet no member: an elastic one that has none of this rank now is an error.
func NewVisit(ctx context.Context, f *Fleet, rank int) (visit *Visit, err error) {
	ended := f.config.Context
	err = f.await(func() (bool, error) {
		switch {
		case f.closing || ended.Err() != nil:
			return true, f.ClosedError()
		case rank < 0:
			return true, &driver.Error{Provider: f.config.Node.Provider, Op: "target", Kind: driver.ErrInvalid, Err: fmt.Errorf("there is no node %d: ranks count from 0", rank)}
		}
		if err := f.Tasks.Impossible(scheduler.OnRank(rank), 0); err != nil {
			return true, err
		}
		if rank >= len(f.roster.members) {
			return true, &driver.Error{Provider: f.config.Node.Provider, Op: "target", Kind: driver.ErrUnavailable, Err: fmt.Errorf("the pool has no node %d now", rank), Hint: "a task gets it one"}
		}
		m := f.roster.members[rank]
		switch {
		case m.state.Works():
			m.visits++
			visit = &Visit{Member: m}
			return true, nil
		case ctx.Err() != nil:
			return true, cutoff.By(ended, &driver.Error{Provider: f.config.Node.Provider, Op: "target", Kind: driver.ErrUnavailable, Err: fmt.Errorf("node %d is %v: %w", rank, m.state, context.Cause(ctx))})
		}
		return false, nil
	}, ctx, ended)
	return visit, err
}

// Leave ends the visit. Only the first call has an effect.
func (v *Visit) Leave() {
	f := v.Member.fleet
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	if v.left {
		return
	}
	v.left = true
	v.Member.visits--
	if v.Member.visits == 0 && !v.Member.hasTasks() {
		v.Member.idleSince = time.Now()
		loseBroken(v.Member)
		f.scaler.rescale()
	}
}
