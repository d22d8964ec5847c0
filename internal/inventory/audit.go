package inventory

import (
	"context"
	"maps"
	"slices"
	"time"
)

const (
	// After a launch the provider is asked within auditAfter what it holds, and without one every auditEvery.
	auditAfter, auditEvery = 30 * time.Second, 10 * time.Minute
)

// Audit compares, until ctx ends, what the provider holds for the pool with what the pool wants, and ends the rest: a
// second machine of one name, a machine that appeared after its launch was given up, one that was reported gone and is
// not.
func (inv *Inventory) Audit(ctx context.Context) {
	if inv.account.Caps.Adopts {
		return
	}
	timer := time.NewTimer(auditEvery)
	defer timer.Stop()
	soon := func() time.Duration { return max(auditAfter, time.Until(inv.lag.end())) }
	due := time.Now().Add(auditEvery)
	wait := func(d time.Duration) {
		due = time.Now().Add(d)
		timer.Reset(d)
	}
	again := false // another reason came up meanwhile
	for {
		select {
		case <-ctx.Done():
			return
		case <-inv.auditing:
			if again = time.Until(due) <= soon(); !again {
				wait(soon())
			}
		case <-timer.C:
			err := inv.endSurplus(ctx)
			if err != nil && ctx.Err() == nil {
				inv.report.Trouble("audit", err)
			}
			if err != nil || again {
				wait(soon())
			} else {
				wait(auditEvery)
			}
			again = false
		}
	}
}

// AuditSoon makes an audit due soon.
func (inv *Inventory) AuditSoon() {
	select {
	case inv.auditing <- struct{}{}:
	default:
	}
}

// endSurplus ends the machines that no node has.
func (inv *Inventory) endSurplus(ctx context.Context) error {
	listed, err := inv.lister.machines(ctx)
	if err != nil {
		return err
	}
	surplus := inv.machines.surplus(listed)
	if len(surplus) == 0 {
		return nil
	}
	asked := slices.Collect(maps.Keys(surplus))
	left, err := inv.endings.end(ctx, surplus)
	inv.machines.endStrays(asked, left)
	if err == nil && len(left) > 0 {
		err = leak(left, nil)
	}
	return err
}
