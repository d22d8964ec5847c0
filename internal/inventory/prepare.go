package inventory

import (
	"context"
	"time"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/retry"
)

// Prepare makes what the machines share. The ledger has a row for it.
func (inv *Inventory) Prepare(ctx context.Context) error {
	return retry.Call(ctx, func() error {
		err := inv.account.Driver.Prepare(ctx, inv.Info())
		inv.called(err)
		if err != nil {
			return err
		}
		inv.prepared = time.Now()
		if !inv.lag.end().After(time.Now().Add(inv.account.Caps.ListLag)) { // no call before this one is unanswered
			inv.book.note(inv.book.ledger.Created(sharedRow))
		}
		return nil
	})
}

// PrepareAgain makes what the machines share if the pool has had no machine for a lease: a
// Reaper on another computer may have taken it for what a dead program had left.
func (inv *Inventory) PrepareAgain(ctx context.Context) error {
	select {
	case inv.preparing <- struct{}{}:
		defer func() { <-inv.preparing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if time.Since(inv.prepared) < inv.info.Lease || len(inv.machines.known()) > 0 {
		return nil
	}
	if err := inv.book.must("note what nodes are to share; nothing was made", inv.book.ledger.Intend(sharedRow)); err != nil {
		return err
	}
	if err := inv.Prepare(ctx); err != nil {
		return &market.PrepareError{Err: err}
	}
	return nil
}

// called records how a call that makes things was answered.
func (inv *Inventory) called(err error) {
	inv.lag.called(err)
	inv.AuditSoon()
}
