package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/owner"
	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"golang.org/x/sync/errgroup"
)

const (
	// At most reapAtOnce pools are ended at the same time, each within reapTimeout.
	reapAtOnce, reapTimeout = 8, 5 * time.Minute
	// Two computers' clocks may be clockSkew apart.
	clockSkew = 5 * time.Minute
)

// A Host is an adopted machine on which a dead program has had a node of a pool.
type Host struct {
	Account    Account
	Pool       string
	Generation int // of the program that ends the pool
	Lease      time.Duration
	Key        driver.Secret // the pool's private one
	Recalled
}

// A Reaper ends the resources of pools whose programs are dead.
type Reaper struct {
	dir      *ledger.Dir
	accounts []Account
	leave    func(context.Context, Host) error
	holds    func(tasks string) bool // nil unless only lapsed pools are ended
	only     string                  // the ID of the only pool to look at, or ""
	unasked  []int
	work     errgroup.Group

	mu    sync.Mutex
	ended []driver.Resource // guarded by mu, as are errs
	errs  []error
}

// NewReaper returns a Reaper that goes by the ledgers of a folder and by what accounts list.
// leave ends what a pool runs on an adopted host.
func NewReaper(dir *ledger.Dir, accounts []Account, leave func(context.Context, Host) error) *Reaper {
	r := &Reaper{dir: dir, accounts: accounts, leave: leave}
	r.work.SetLimit(reapAtOnce)
	return r
}

// Run ends the pools of dead programs, and returns what it has ended. Errors name what could
// not be ended, in a [*LeakError].
func (r *Reaper) Run(ctx context.Context) ([]driver.Resource, error) {
	known := r.byLedger(ctx)
	if r.only == "" {
		r.byProvider(ctx, known)
	}
	_ = r.work.Wait() // the errors are the reaper's
	slices.SortFunc(r.ended, func(a, b driver.Resource) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), strings.Compare(a.Kind, b.Kind), strings.Compare(a.ID, b.ID))
	})
	return r.ended, errors.Join(r.errs...)
}

// told is the Reporter of a pool that a Reaper ends: strangers are the reaper's errors.
type told struct {
	quiet
	r    *Reaper
	pool string
}

func (t told) Trouble(about string, err error) {
	if about == "stranger" {
		t.r.failed(fmt.Errorf("pool %s: %w", t.pool, err))
	}
}

func (r *Reaper) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// byLedger ends the pools that have a ledger here, and returns the ids of all such pools, also
// of those that live.
func (r *Reaper) byLedger(ctx context.Context) map[string]bool {
	known := map[string]bool{}
	ids, err := r.dir.Pools()
	if err != nil {
		r.failed(LedgerError("list the ledgers", err))
	}
	for _, id := range ids {
		known[id] = true
		if r.only != "" && r.only != id {
			continue
		}
		snap, err := r.dir.Read(id)
		switch {
		case err != nil:
			r.failed(LedgerError("read the ledger of "+id, err))
			continue
		case snap.InUse && (!snap.Closing || r.holds != nil) || !snap.InUse && !r.due(id, snap):
			continue
		}
		a, ok := r.accountOf(snap)
		if !ok {
			continue // it is not a pool of the given providers
		}
		r.work.Go(func() error {
			if !snap.InUse || r.await(ctx, id, snap) {
				r.take(ctx, a, id)
			}
			return nil
		})
	}
	return known
}

// await waits for a program that is ending the pool, as its guardian does, or another Reap. It reports whether something is left,
// for a Reap to end. Reap fails if that program takes too long: what it has not ended yet is billed.
func (r *Reaper) await(ctx context.Context, id string, snap *ledger.Snapshot) (left bool) {
	for end := time.Now().Add(reapTimeout); retry.Sleep(ctx, time.Second); {
		now, err := r.dir.Read(id)
		switch {
		case errors.Is(err, ledger.ErrUnknown):
			return false
		case err == nil && !now.InUse:
			return true
		case time.Now().After(end):
			r.failed(&driver.Error{Provider: snap.Provider, Op: "reap", Kind: driver.ErrInUse,
				Err: fmt.Errorf("pool %s is being ended by another program, %s, and was not gone after %v", id, snap.Holder, reapTimeout), Hint: "Reap again"})
			return false
		}
	}
	r.failed(&driver.Error{Provider: snap.Provider, Op: "reap", Kind: driver.ErrInUse,
		Err: fmt.Errorf("pool %s is being ended by another program, %s: %w while this one waited for it", id, snap.Holder, context.Cause(ctx)), Hint: "Reap again"})
	return false
}

// accountOf returns the account of a pool. For a group's pool it is a group of the given members, if any of them may
// hold something.
func (r *Reaper) accountOf(snap *ledger.Snapshot) (Account, bool) {
	if len(snap.Members) == 0 {
		i := slices.IndexFunc(r.accounts, func(a Account) bool { return a.Provider == snap.Provider && a.Caps.Account == snap.Account })
		if i < 0 {
			return Account{}, false
		}
		return r.accounts[i], true
	}
	var providers []string
	var drivers []driver.Driver
	for _, a := range r.accounts {
		if slices.Contains(snap.Members, market.AccountKey(a.Provider, a.Caps.Account)) {
			providers, drivers = append(providers, a.Provider), append(drivers, a.Driver)
		}
	}
	if drivers == nil {
		return Account{}, false
	}
	d := market.NewGroup(snap.Provider, providers, drivers)
	caps := d.Capabilities()
	var holders, given []string // accounts that may hold something, and those of them that are given
	for _, row := range snap.Rows {
		if row.Member == "" || row.State == ledger.Gone {
			continue
		}
		holders = append(holders, row.Member)
		if caps.Accounts[row.Member] != nil {
			given = append(given, row.Member)
		}
	}
	if holders != nil && given == nil {
		return Account{}, false
	}
	d.Begin(given...)
	return Account{Provider: snap.Provider, Driver: d, Caps: caps}, true
}

// divide returns the rows of a group's pool that belong to the members given to Reap, and what the others may hold.
func (a Account) divide(rows []ledger.Row) (given []ledger.Row, left map[string]driver.Resource) {
	if len(a.Caps.Accounts) == 0 {
		return rows, nil
	}
	left = map[string]driver.Resource{}
	for _, row := range rows {
		switch {
		case row.Member == "" || a.Caps.Accounts[row.Member] != nil:
			given = append(given, row)
		case row.State != ledger.Gone && row.Kind != market.SharedKind:
			left[row.Name] = driver.Resource{Provider: row.Member, Kind: row.Kind, ID: row.ID, Name: row.Name, Region: row.Region}
		case row.State != ledger.Gone:
			left[row.Name] = driver.Resource{Provider: row.Member, Kind: "whatever nodes shared"}
		}
	}
	return given, left
}

// take takes a dead program's pool over, and ends it.
func (r *Reaper) take(ctx context.Context, a Account, id string) {
	l, snap, err := r.dir.Take(id, owner.Self().String(), ledger.TakeOptions{Damaged: true})
	switch {
	case errors.Is(err, ledger.ErrInUse), errors.Is(err, ledger.ErrUnknown):
		return // another Reap, or an Attach, was first
	case err != nil:
		r.failed(LedgerError("take over "+id, err))
		return
	}
	inv := New(a, driver.PoolInfo{ID: id, Name: snap.Name, Owner: snap.Holder, Lease: snap.Lease, Expires: snap.Expires}, told{r: r, pool: id})
	inv.Resume(l)
	inv.Closing() // Attach must not take it up half ended
	rows, left := a.divide(snap.Rows)
	for _, row := range rows {
		inv.recall(row)
	}
	err = r.leaveHosts(ctx, inv, rows)
	if len(left) > 0 {
		err = errors.Join(err, leak(left, errors.New("these providers were not given to Reap")))
	}
	if err != nil {
		r.failed(fmt.Errorf("pool %s: %w", id, err))
	}
	err = errors.Join(err, r.end(ctx, inv))
	if closed := inv.Close(err == nil); closed != nil {
		r.failed(closed)
	}
}

// leaveHosts ends what a pool runs on adopted machines, as its Close would have. What has ended itself by its lease is
// gone already.
func (r *Reaper) leaveHosts(ctx context.Context, inv *Inventory, rows []ledger.Row) error {
	host := Host{Account: inv.account, Pool: inv.info.ID, Generation: inv.book.ledger.Generation(), Lease: inv.info.Lease}
	var guests []Guest
	for _, row := range rows {
		if row.Kind != machineKind || row.ID == "" || row.State == ledger.Gone || row.Root == "" {
			continue
		}
		h := host
		h.Recalled = Recalled{Instance: inv.machines.instance(row.ID), Name: row.Name, Root: row.Root, HostKeys: row.HostKeys}
		if !inv.account.Caps.Of(h.Instance.Offer).Adopts {
			continue
		}
		key, err := inv.book.ledger.Key()
		if err != nil {
			return LedgerError("reap", fmt.Errorf("the pool's key: %w", err))
		}
		h.Key = driver.Secret(key)
		guests = append(guests, Guest{Provider: inv.account.providerOf(row.Member), ID: row.ID, Name: row.Name, Leave: func(ctx context.Context) error { return r.leave(ctx, h) }})
	}
	return Leave(ctx, guests, inv.info.Lease)
}

// byProvider ends the pools that only a provider knows.
func (r *Reaper) byProvider(ctx context.Context, known map[string]bool) {
	for i, a := range r.accounts {
		listed, err := a.Driver.List(ctx, "")
		if err != nil {
			r.failed(err)
			r.unasked = append(r.unasked, i)
			continue
		}
		pools := map[string][]driver.Resource{}
		for _, res := range listed {
			if res.Pool != "" && !known[res.Pool] {
				pools[res.Pool] = append(pools[res.Pool], res)
			}
		}
		for id, held := range pools {
			r.judge(ctx, a, id, held)
		}
	}
}

// judge ends, of a pool that only its provider knows, the machines whose own tags show that they are over. What they share is
// ended after them, unless others are spared, and without machines if its own tags show that it is over.
func (r *Reaper) judge(ctx context.Context, a Account, id string, held []driver.Resource) {
	marker, marks := a.Driver.(driver.LeaseMarker)
	now, c := time.Now(), claimOf(id, nil, nil)
	machines, ends := map[verdict]int{}, map[verdict]int{}
	first := held[0]
	for _, res := range held {
		v := verdictOn(res, marks, now)
		if res.Kind != machineKind {
			ends[v]++
			continue
		}
		if why := c.objection(res, now); why != "" {
			r.failed(strange(res, id, why))
			continue
		}
		if v == endless {
			r.failed(bound(ctx, marker, res, now))
		}
		machines[v]++
		first = res
	}
	spared := len(machines) > 1 || len(machines) == 1 && machines[over] == 0
	if machines[over] == 0 && (spared || ends[over] == 0 || ends[lives] > 0) {
		return
	}
	r.work.Go(func() error {
		inv := New(a, driver.PoolInfo{ID: id, Owner: first.Owner, Lease: first.Lease, Expires: first.Expires}, quiet{})
		inv.lister.judge = func(res driver.Resource) verdict { return verdictOn(res, marks, time.Now()) }
		_ = r.end(ctx, inv) // the error is the reaper's
		return nil
	})
}

// bound replaces a lease that no program notes by one that its program would note now, if it lives: it will note another. marker is
// nil if the driver cannot.
func bound(ctx context.Context, marker driver.LeaseMarker, res driver.Resource, now time.Time) error {
	e := &driver.Error{Provider: res.Provider, Op: "reap", Err: fmt.Errorf("machine %s of pool %s notes a lease until %s, longer than any that gputrain notes",
		printable.Text(res.ID), res.Pool, res.LeaseUntil.UTC().Format(time.RFC3339)), Hint: "it may cost money: if it is not in use, end it by hand"}
	if marker == nil {
		return e
	}
	until := now.Add(max(lapse(leaseOf(res)), time.Hour)).Truncate(time.Second)
	if err := marker.MarkLease(ctx, driver.PoolInfo{ID: res.Pool, Owner: res.Owner, Lease: res.Lease, Expires: res.Expires}, until, res.ID); err != nil {
		e.Err = errors.Join(e.Err, err)
		return e
	}
	e.Hint = "it ends at " + until.UTC().Format(time.RFC3339) + " now, unless the pool's program lives: Reap again after that"
	return e
}

// end ends what is left of a pool, and records what that was.
func (r *Reaper) end(ctx context.Context, inv *Inventory) error {
	inv.lister.seen = map[string]driver.Resource{}
	look(ctx, inv)
	err := inv.End(ctx, reapTimeout, func() {})
	if err != nil {
		r.failed(fmt.Errorf("pool %s: %w", inv.info.ID, err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	spared := inv.lister.spared()
	for _, res := range inv.lister.seen {
		if spared && res.Kind != machineKind {
			continue
		}
		if err == nil || !mayLeave(err, res.ID) {
			r.ended = append(r.ended, res)
		}
	}
	return err
}

// look finds out, for what Run returns, which machines of the ledger there are before
// they are ended: lists may lack them.
func look(ctx context.Context, inv *Inventory) {
	known := inv.machines.known()
	if len(known) == 0 {
		return
	}
	found, err := inv.account.Driver.Describe(ctx, slices.Sorted(maps.Keys(known))...)
	if err != nil {
		return // they are ended in any case
	}
	for _, inst := range found {
		if r, ok := known[inst.ID]; ok && inst.State != driver.InstanceTerminated && inst.State != driver.InstanceUnknown {
			r.Pool, r.Owner, r.State = inv.info.ID, inv.info.Owner, inst.State
			inv.lister.seen[inst.ID] = r
		}
	}
}
