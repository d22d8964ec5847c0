package gputrain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/ledger"
)

// prepareAll makes what the machines share, of a pool of one provider. Of a group it is
// made where something is rented: see prepareFor.
func (p *pool) prepareAll() error {
	if g, ok := p.driver.(*groupDriver); ok {
		g.begin()
		p.noted(p.ledger.Created(ledger.Row{Name: sharedRow, Kind: sharedRow})) // which stands for nothing
		return nil
	}
	if err := p.prepare(p.members[0]); err != nil {
		return err
	}
	p.prepared[p.members[0]] = now()
	return nil
}

// prepareFor makes what a member's machines share, before one is launched: of a group's
// member before the first. Of a pool that has had no machine for long it makes it again:
// a reaper on another computer may have taken that for what a dead program had left.
func (p *pool) prepareFor(m *member) error {
	select {
	case p.preparing <- struct{}{}:
		defer func() { <-p.preparing }()
	case <-p.ctx.Done():
		return p.interrupted(p.ctx.Err())
	}
	at, made := p.prepared[m]
	lately := now().Sub(at) < p.spec.lease() || p.hasMachines()
	if lately && (made || m.index == 0) {
		return nil
	}
	row := ledger.Row{Name: m.sharedRow(), Kind: sharedRow, Member: m.key}
	if err := p.ledger.Intend(row); err != nil {
		p.lostLedger(err)
		return ledgerError("note what nodes are to share; nothing was made", err)
	}
	if err := p.prepare(m); err != nil {
		return &prepareError{err}
	}
	p.prepared[m] = now()
	return nil
}

// hasMachines reports whether a machine of the pool is there, as far as is known.
func (p *pool) hasMachines() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.machines {
		if m.to.IsZero() {
			return true
		}
	}
	return false
}

// A prepareError is that what a member's machines share could not be made: none of its
// offers can be had.
type prepareError struct{ error }

func (e *prepareError) Unwrap() error { return e.error }

func (p *pool) prepare(m *member) error {
	return patiently(p.ctx, func() error {
		var err error
		if g, ok := p.driver.(*groupDriver); ok {
			err = g.prepare(p.ctx, m, p.infoNow())
		} else {
			err = p.driver.Prepare(p.ctx, p.infoNow())
		}
		p.made(err)
		if err == nil && !p.wholeFrom().After(now().Add(p.caps.ListLag)) { // no call before this one is still on its way
			p.noted(p.ledger.Created(ledger.Row{Name: m.sharedRow(), Kind: sharedRow}))
		}
		return err
	})
}

// keys are those of the members, once each.
func (g *groupDriver) keys() []string {
	var keys []string
	for _, m := range accounts(g.members) {
		keys = append(keys, m.key)
	}
	slices.Sort(keys)
	return keys
}

// owed returns the keys of the members that may hold something of a pool.
func owed(rows []ledger.Row) []string {
	var keys []string
	for _, row := range rows {
		if row.Member != "" && row.State != ledger.Gone {
			keys = append(keys, row.Member)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// takeMembers has a group go on with the members that have to do with a pool, all of
// which must be there.
func takeMembers(d Driver, snap *ledger.Snapshot) error {
	g, ok := d.(*groupDriver)
	if !ok {
		return nil
	}
	have, want := g.keys(), owed(snap.Rows)
	missing := slices.DeleteFunc(slices.Clone(want), func(key string) bool { return slices.Contains(have, key) })
	if len(missing) > 0 {
		return &Error{
			Provider: g.name, Op: "attach", Kind: ErrInvalid, Err: errors.Join(append([]error{fmt.Errorf(
				"pool %s has something at %s, and that is none of %s", snap.Pool, strings.Join(missing, " and "), strings.Join(have, ", "))}, g.out.Unwrap()...)...),
			Hint: "configure the provider as it was",
		}
	}
	g.begin()
	for _, key := range want {
		g.touch(key)
	}
	return nil
}
