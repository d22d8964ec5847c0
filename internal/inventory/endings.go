package inventory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// endings end the machines of a pool.
type endings struct {
	driver   driver.Driver
	machines *machines
	book     *book
	report   Reporter
}

// end asks for the end of machines, and returns those that are not confirmed gone. A program
// that was asleep while another one took the pool may not have noticed: it ends nothing.
func (e *endings) end(ctx context.Context, left map[string]driver.Resource) (map[string]driver.Resource, error) {
	if len(left) == 0 {
		return left, nil
	}
	if err := e.book.fenced(); errors.Is(err, driver.ErrFenced) {
		e.report.Lost(err)
		return left, err
	}
	ids := slices.Sorted(maps.Keys(left))
	e.book.note(e.book.ledger.Ending(e.machines.names(ids, nil)...))
	if err := e.driver.Terminate(ctx, ids...); err != nil {
		// Some may be gone in spite of the error.
		left, _ = e.unconfirmed(ctx, left)
		return left, err
	}
	for _, id := range ids {
		e.machines.update(id, func(m *machine) {
			if m.accepted.IsZero() {
				m.accepted = time.Now()
			}
		})
	}
	return e.unconfirmed(ctx, left)
}

// unconfirmed returns those machines that are not confirmed gone.
func (e *endings) unconfirmed(ctx context.Context, left map[string]driver.Resource) (map[string]driver.Resource, error) {
	found, err := e.driver.Describe(ctx, slices.Sorted(maps.Keys(left))...) // a group may know of some and not of all
	gone, cheaper := e.machines.observe(found, left)
	if cheaper {
		e.report.Billed()
	}
	e.gone(gone)
	return left, err
}

// gone notes which machines are confirmed gone.
func (e *endings) gone(ids []string) {
	if len(ids) == 0 {
		return
	}
	e.book.note(e.book.ledger.Billed(e.machines.bills(ids...)...))
	e.book.note(e.book.ledger.Gone("", e.machines.names(ids, func(m *machine) {
		if m.gone.IsZero() {
			m.gone = time.Now()
		}
	})...))
	e.report.Billed()
}
