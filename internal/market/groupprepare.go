package market

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// Prepare makes nothing yet: a member is prepared by its first launch, so that nothing is made at the others, and a
// member that cannot be prepared does not affect them. After Prepare each member is prepared again at its next launch.
func (g *Group) Prepare(_ context.Context, pool driver.PoolInfo) error {
	if err := g.resumeMade(pool); err != nil {
		return err
	}
	g.touch()
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.prepared)
	return nil
}

// prepare makes what the machines of a member share, if that was not done within the pool's
// lease: after that time a reaper on another computer may have removed it. The account is
// recorded before. The error is a [*PrepareError], or that of [driver.PoolInfo.Record].
func (g *Group) prepare(ctx context.Context, m *member, pool driver.PoolInfo) error {
	select {
	case m.preparing <- struct{}{}:
		defer func() { <-m.preparing }()
	case <-ctx.Done():
		return &PrepareError{ctx.Err()}
	}
	if g.isPrepared(m, pool.Lease) {
		return nil
	}
	g.touch(m.key)
	row := driver.Resource{Provider: m.provider, Account: m.key, Kind: SharedKind, Name: m.key, HourlyUSD: driver.USD(0)}
	if err := pool.Record(row); err != nil {
		return err
	}
	if err := m.driver.Prepare(ctx, m.info(pool)); err != nil {
		m.unanswered = m.unanswered || !retry.IsAnswered(err)
		return &PrepareError{err}
	}
	if row.ID = m.key; !m.unanswered { // else an earlier call may still make something
		if err := pool.Record(row); err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.prepared == nil {
		g.prepared = map[*member]time.Time{}
	}
	g.prepared[m] = time.Now()
	return nil
}

func (g *Group) isPrepared(m *member, lease time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.prepared[m]
	return ok && (lease == 0 || time.Since(at) < lease)
}

// A PrepareError means that what the machines of an account share could not be made: none of the
// account's offers can be had. If Launch returns it, no machine was launched.
type PrepareError struct{ Err error }

func (e *PrepareError) Error() string { return e.Err.Error() }

func (e *PrepareError) Unwrap() error { return e.Err }

// resumeMade resumes the members that have something of the pool by its record.
func (g *Group) resumeMade(pool driver.PoolInfo) error {
	for _, r := range pool.Made {
		if r.Account == "" {
			continue
		}
		if g.caps.Accounts[r.Account] == nil {
			return g.strange(pool.ID, r.Account)
		}
		g.touch(r.Account)
	}
	return nil
}

func (g *Group) strange(pool, account string) error {
	why := []error{fmt.Errorf("pool %s has something at %s, which is none of %s", pool, account, strings.Join(slices.Sorted(maps.Keys(g.caps.Accounts)), ", "))}
	for _, out := range g.out {
		why = append(why, out.Err)
	}
	return &driver.Error{Provider: g.name, Op: "attach", Kind: driver.ErrInvalid, Err: errors.Join(why...), Hint: "configure the provider as it was"}
}

// Resume resumes the members that have dealt with a pool, all of which must exist.
func (g *Group) Resume(ctx context.Context, pool driver.PoolInfo, ids ...string) error {
	if err := g.resumeMade(pool); err != nil {
		return err
	}
	g.touch()
	owners, err := g.owners("attach", ids)
	if err != nil {
		return err
	}
	for _, m := range owners {
		g.touch(m.key)
	}
	return each(owners, func(_ int, m *member) error {
		if r, ok := m.driver.(driver.Resumer); ok {
			return r.Resume(ctx, m.info(pool), m.ownIDs(ids)...)
		}
		return nil
	})
}
