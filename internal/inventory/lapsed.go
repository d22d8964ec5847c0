package inventory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// renewal is the time between two signs of life of a program in its pool's ledger, and at the provider.
func renewal(lease time.Duration) time.Duration { return min(lease/3, 5*time.Minute) }

// KeepLease records again and again, until ctx ends, that this program lives: in the ledger, and on the machines if the
// driver can. Other programs go by that once this one is dead: see [LapsesAt], and isDead.
func (inv *Inventory) KeepLease(ctx context.Context) {
	var marking sync.WaitGroup
	defer marking.Wait()
	if marker, ok := inv.account.Driver.(driver.LeaseMarker); ok {
		marking.Go(func() { markLease(ctx, inv, marker) })
	}
	for retry.Sleep(ctx, renewal(inv.info.Lease)) {
		inv.book.note(inv.book.ledger.Renew())
		noteBills(ctx, inv)
	}
}

// markLease records at the provider how long this program is known to live, until ctx ends.
func markLease(ctx context.Context, inv *Inventory, marker driver.LeaseMarker) {
	for {
		next := renewal(inv.info.Lease)
		ids := slices.Sorted(maps.Keys(inv.machines.known()))
		if len(ids) > 0 {
			if err := marker.MarkLease(ctx, inv.Info(), time.Now().Add(lapse(inv.info.Lease)), ids...); err != nil && ctx.Err() == nil {
				inv.report.Trouble("audit", err)
				next = min(next, 30*time.Second)
			}
		}
		if !retry.Sleep(ctx, next) {
			return
		}
	}
}

// LapsesAt returns when a dead program's pool may be ended, though Attach could take it up: once its lease is over, its TTL
// is, or at once if the program was ending the pool. holds is whether a task may hold the lease; then only the TTL counts,
// and without one ok is false.
func LapsesAt(snap *ledger.Snapshot, holds bool) (at time.Time, ok bool) {
	if snap.Closing {
		return snap.Last, true
	}
	at, ok = snap.Last.Add(snap.Lease+renewal(snap.Lease)), !holds
	if expires := snap.Expires; !expires.IsZero() && (holds || expires.Before(at)) {
		return expires, true
	}
	return at, ok
}

// OnlyLapsed makes Run leave the pools of dead programs alone until they have lapsed. holds tells, by the file of a pool's
// tasks, whether one may hold the lease.
func (r *Reaper) OnlyLapsed(holds func(tasks string) bool) { r.holds = holds }

// OnlyPool makes Run look at one pool alone, by its ledger.
func (r *Reaper) OnlyPool(id string) { r.only = id }

// due reports whether a dead program's pool is to be ended now.
func (r *Reaper) due(id string, snap *ledger.Snapshot) bool {
	if r.holds == nil {
		return true
	}
	at, ok := LapsesAt(snap, r.holds(r.dir.TasksPath(id)))
	return ok && !time.Now().Before(at)
}

// Unasked returns the numbers of the accounts that Run could not list.
func (r *Reaper) Unasked() []int { return r.unasked }
