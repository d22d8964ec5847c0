package inventory

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// sharedTimeout bounds the removal of what machines shared, once they are gone or given up.
const sharedTimeout = 2 * time.Minute

// End ends every machine, within a time, and removes what they shared, within another: a
// machine that is slow to go leaves nothing else behind. What machines share that are spared stays. gone is called once all machines are
// confirmed gone. If not everything goes, the error is or wraps a [*LeakError].
func (inv *Inventory) End(ctx context.Context, limit time.Duration, gone func()) error {
	machines, stop := context.WithTimeout(ctx, limit)
	defer stop()
	err := inv.terminate(machines)
	if errors.Is(err, driver.ErrFenced) {
		return err
	}
	if err == nil {
		gone()
	}
	if inv.lister.spared() {
		return err // they need what they share
	}
	return errors.Join(err, inv.release(ctx, sharedTimeout))
}

// terminate ends every machine and returns when the provider confirms that. It waits for what an unanswered launch may
// have made.
func (inv *Inventory) terminate(ctx context.Context) error {
	early := &earlyRelease{inv: inv}
	defer early.end()
	if names := inv.machines.intents(); len(names) > 0 {
		_, _ = inv.endings.end(ctx, inv.machines.known()) // those need not wait; they are looked after below
		if _, err := inv.launcher.settle(ctx, names, inv.lag.end(), nil); err != nil {
			inv.report.Settling(err, time.Time{})
		}
	}
	inv.lag.announce(inv.report)
	left := inv.machines.known()
	var last error
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		at := time.Now()
		listed, err := inv.lister.machines(ctx)
		last = err
		maps.Copy(left, listed)
		if err == nil && len(left) == 0 && !at.Before(inv.lag.end()) {
			break
		}
		if left, err = inv.endings.end(ctx, left); err != nil {
			last = err
		}
		if errors.Is(err, driver.ErrFenced) {
			return err
		}
		if err == nil && len(left) > 0 {
			early.begin(ctx)
		}
		// A list that was empty before does not show a machine that was reported gone and is not.
		if len(left) == 0 && last == nil {
			at = time.Now()
			if listed, err = inv.lister.machines(ctx); err == nil && len(listed) == 0 && !at.Before(inv.lag.end()) {
				break
			}
			maps.Copy(left, listed)
			last = err
		}
		if !retry.Sleep(ctx, inv.lag.pause(wait)) {
			return leak(left, errors.Join(ctx.Err(), last))
		}
	}
	if names := inv.machines.intents(); len(names) > 0 {
		return leak(intended(inv.account.Provider, names), errors.New("the provider has not reported whether they were ever made"))
	}
	return nil
}

// intended returns, as resources, machines of which only the names are known.
func intended(provider string, names []string) map[string]driver.Resource {
	left := map[string]driver.Resource{}
	for _, name := range names {
		left[name] = driver.Resource{Provider: provider, Kind: machineKind, Name: name}
	}
	return left
}
