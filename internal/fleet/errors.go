package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gputrain/gputrain/internal/joined"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/providers/driver"
)

// NoNodes returns why there is no node: the errors of the members, if there are any. The lock is held.
func (f *Fleet) NoNodes() error {
	var errs []error
	for _, m := range f.roster.members {
		if m.err != nil {
			errs = append(errs, m.err)
		}
	}
	if errs == nil && f.roster.lastErr != nil {
		errs = []error{f.roster.lastErr}
	}
	if err := joined.Once(errs); err != nil {
		return err
	}
	if f.closing {
		return f.ClosedError()
	}
	e := &driver.Error{Provider: f.config.Node.Provider, Op: "pool", Kind: driver.ErrNoCapacity, Err: errors.New("no node is left")}
	switch {
	case len(f.roster.members) == 0 && f.config.Elastic:
		e.Kind, e.Err = driver.ErrUnavailable, errors.New("it has no node now; a task gets it one")
	case f.roster.count(func(m *Member) bool { return m.state == Lost }) > 0:
		e.Kind = driver.ErrNodeLost
	}
	return e
}

// ClosedError is the error of what comes after the end of the pool.
func (f *Fleet) ClosedError() error {
	cause := context.Cause(f.config.Context)
	if how, ok := errors.AsType[*driver.Error](cause); ok && how.Kind == driver.ErrClosed {
		return cause // it has the reason
	}
	e := &driver.Error{Provider: f.config.Node.Provider, Op: "pool", Kind: driver.ErrClosed}
	if cause != nil && !errors.Is(cause, driver.ErrClosed) {
		e.Err = cause
	}
	return e
}

// A taskFleet is the fleet as its scheduler sees it.
type taskFleet struct{ fleet *Fleet }

func (t taskFleet) Most() int      { return t.fleet.scaler.most }
func (t taskFleet) Grows() bool    { return t.fleet.scaler.grows() }
func (t taskFleet) NoNodes() error { return t.fleet.NoNodes() }
func (t taskFleet) Units() int     { return t.fleet.config.Units.Most }
func (t taskFleet) Rescale()       { t.fleet.scaler.rescale() }

// Impossible is the error of a target that no node can ever have.
func (t taskFleet) Impossible(o scheduler.Obstacle) error {
	e := &driver.Error{Provider: t.fleet.config.Node.Provider, Op: "target", Kind: driver.ErrInvalid}
	switch {
	case o.Units > 0:
		e.Op = "accelerators"
		e.Err = fmt.Errorf("a task asks for %d of its own, and %v has %d at most", o.Units, o.Target, o.Most)
		e.Hint = "ask for fewer with Task.Accelerators, or for more per node with Spec.Accelerator"
	case o.Ranks > 0:
		e.Err = fmt.Errorf("there is no %v: the pool has ranks 0 to %d", o.Target, o.Ranks-1)
	case o.Over != nil:
		e.Kind = nil // that of a node that never became ready is in its own error
		var over []error
		for _, slots := range o.Over {
			if Of(slots).state == Lost {
				e.Kind = driver.ErrNodeLost
			}
			over = append(over, slots.Host().End())
		}
		e.Err = fmt.Errorf("no node with %v is left: %w", o.Target, joined.Once(over))
	default:
		e.Err, e.Hint = fmt.Errorf("no node has %v", o.Target), "in this pool "+strings.Join(o.Have, "; ")
	}
	return e
}

// Participants returns the members that take part in a broadcast now, in the order of their
// ranks. The lock is held.
func (f *Fleet) Participants(t scheduler.Target) (members []*Member) {
	for _, slots := range f.Tasks.Allowed(t, false) {
		if m := Of(slots); m.state.Works() && m.stays() {
			members = append(members, m)
		}
	}
	return members
}

// NoneReady returns why no member that a target allows takes part in a broadcast of a task that wants so many units. The
// lock is held.
func (f *Fleet) NoneReady(t scheduler.Target, units int) error {
	if f.closing {
		return f.ClosedError()
	}
	if err := f.Tasks.Impossible(t, units); err != nil {
		return err
	}
	var coming []string
	for _, slots := range f.Tasks.Allowed(t, true) {
		if m := Of(slots); !m.state.Over() {
			coming = append(coming, m.Node.Name()+" is "+m.state.String())
		}
	}
	if coming == nil {
		return f.NoNodes()
	}
	return &driver.Error{Provider: f.config.Node.Provider, Op: "target", Kind: driver.ErrUnavailable,
		Err:  fmt.Errorf("no node is ready of those with %v: %s", t, strings.Join(coming, "; ")),
		Hint: "Run and Gather wait for one; Compute.Nodes says when it is ready"}
}
