package guardian

import (
	"context"
	"errors"
	"time"

	"github.com/gputrain/gputrain/internal/inventory"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/retry"
)

const (
	// A guardian looks at the ledger every look, since its pool may be gone, or taken up.
	look = 10 * time.Second
	// A pool that cannot be ended is tried again after firstRetry, then after pauses that double up to lastRetry.
	firstRetry, lastRetry = 5 * time.Second, 30 * time.Minute
)

// Leave ends what a pool runs on an adopted host.
type Leave func(context.Context, inventory.Host) error

// run returns when the pool is gone, or another program has it.
func (w *watch) run(ctx context.Context) {
	again := firstRetry
	for {
		pause, over := w.round(ctx)
		switch {
		case over:
			return
		case pause == 0: // it could not be ended
			pause, again = again, min(2*again, lastRetry)
		}
		if !retry.Sleep(ctx, pause) {
			return
		}
	}
}

// round looks once. It returns for how long there is nothing to do, or 0 if the pool could not be ended.
func (w *watch) round(ctx context.Context) (pause time.Duration, over bool) {
	snap, err := w.dir.Read(w.pool)
	switch {
	case errors.Is(err, ledger.ErrUnknown), errors.Is(err, ledger.ErrNewer):
		return 0, true
	case err != nil:
		return look, false
	case snap.InUse: // by another program, or the system has not freed the lock yet
		return time.Second, snap.Generation > w.generation
	}
	at, ok := inventory.LapsesAt(snap, w.held(snap.Generation))
	if !ok {
		return look, false
	}
	if left := time.Until(at); left > 0 {
		return min(left, look), false
	}
	w.end(ctx)
	_, err = w.dir.Read(w.pool)
	return 0, errors.Is(err, ledger.ErrUnknown)
}

// held reports whether a task may hold the pool's lease. Its program is dead, so that the answer does not change.
func (w *watch) held(generation int) bool {
	held, known := w.holds[generation]
	if !known {
		held = journal.HoldsLease(w.dir.TasksPath(w.pool))
		w.holds = map[int]bool{generation: held}
	}
	return held
}

// end ends the pool, as far as its providers can be asked.
func (w *watch) end(ctx context.Context) {
	var accounts []inventory.Account
	for _, p := range w.providers {
		a, err := inventory.OpenAccount(ctx, p)
		if err != nil {
			continue // the pool's ledger stays, for the next try
		}
		defer a.Driver.Close()
		accounts = append(accounts, a)
	}
	r := inventory.NewReaper(w.dir, accounts, w.leave)
	r.OnlyLapsed(journal.HoldsLease)
	r.OnlyPool(w.pool)
	_, _ = r.Run(ctx) // what is left is in the ledger
}
