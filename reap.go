package gputrain

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/guardian"
	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/internal/inventory"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/internal/ssh"
)

// Reap ends everything that belongs to pools whose programs are dead, at the given providers, and
// returns what it has ended. It uses the ledgers of this computer and the providers' own lists, so
// that it also finds what was made from another computer. It never touches the pool of a program
// that is alive: for a pool of this computer it checks the pool's lock and the program's process;
// for a pool of another computer it must be certain that the lease or TTL has run out, and
// otherwise leaves the pool alone. There each machine is judged by its own tags alone, and what a
// pool's machines share stays as long as one of them does. A tag is no proof: whoever can use the
// account can write it. A machine of which the ledger does not know that the pool has made it is the
// pool's only if its name, its program and its age agree with the tag. Others are left alone, and an
// error names each, with what does not agree. Results that the pool's program has put on disk stay there:
// Pools names the folders, before Reap has removed the ledger. Errors name what could not be ended,
// in a [*LeakError]. Reap waits for a program that is ending the pool, as its guardian does, for five minutes at most: an
// [ErrInUse] names one that takes longer. If ctx ends Reap returns at once: what is left by then is for another Reap.
func Reap(ctx context.Context, providers ...Provider) ([]Resource, error) {
	return StateDir("").Reap(ctx, providers...)
}

// Reap is [Reap] with the ledgers of this folder.
func (d StateDir) Reap(ctx context.Context, providers ...Provider) ([]Resource, error) {
	if err := invalid.NoContext("reap", ctx); err != nil {
		return nil, err
	}
	dir, err := d.open()
	if err != nil {
		return nil, err
	}
	return reap(ctx, dir, "", providers)
}

// ReapPool is Reap for one pool, by the ID of its ledger in this folder: it touches nothing else. The error is [ErrNotFound]
// if there is no such ledger, [ErrInUse] if the pool's program is alive, and [ErrInvalid] if none of the providers is the
// pool's.
func (d StateDir) ReapPool(ctx context.Context, pool string, providers ...Provider) ([]Resource, error) {
	if err := invalid.NoContext("reap", ctx); err != nil {
		return nil, err
	}
	dir, err := d.open()
	if err != nil {
		return nil, err
	}
	snap, err := dir.Read(pool)
	switch {
	case errors.Is(err, ledger.ErrUnknown):
		return nil, &Error{Op: "reap", Err: fmt.Errorf("%w: %q", errNoLedger, pool)}
	case err != nil:
		return nil, inventory.LedgerError("reap", err)
	case snap.InUse && !snap.Closing:
		return nil, &Error{Provider: snap.Provider, Op: "reap", Kind: ErrInUse, Err: fmt.Errorf("%s: %s", pool, snap.Holder), Hint: "Attach with WithTakeover takes it from that program"}
	}
	ended, err := reap(ctx, dir, pool, providers)
	if _, unknown := dir.Read(pool); err == nil && unknown == nil {
		return ended, &Error{Op: "reap", Kind: ErrInvalid, Err: fmt.Errorf("%s is a pool of %s, in an account that is none of the given ones", pool, snap.Provider)}
	}
	return ended, err
}

// reap ends what dead programs have left, of one pool if only is its ID.
func reap(ctx context.Context, dir *ledger.Dir, only string, providers []Provider) ([]Resource, error) {
	if len(providers) == 0 {
		return nil, &Error{Op: "reap", Kind: ErrInvalid, Err: errors.New("no provider is given: whose machines are to be looked for?")}
	}
	all, errs := flatten("reap", providers)
	var accounts []inventory.Account
	for _, provider := range all {
		a, err := inventory.OpenAccount(ctx, provider)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer a.Driver.Close()
		accounts = append(accounts, a)
	}
	reaper := inventory.NewReaper(dir, accounts, leaveHost)
	reaper.OnlyPool(only)
	ended, err := reaper.Run(ctx)
	return ended, errors.Join(append(errs, err)...)
}

// Guard ends what has lapsed, in rounds, until ctx ends or the loop is left: it is the Reap of a
// machine that is always on. Each round yields what it has ended, and what went wrong, which ends no
// loop; the first round comes at once, and the next one when the time is over:
//
//	for ended, err := range gputrain.Guard(ctx, 10*time.Minute, lambda.Config{}) { ... }
//
// Unlike [Reap], Guard leaves a dead program's pool to Attach until its lease or TTL is over, by the
// ledgers of this computer. If one of its tasks may hold the lease ([Task].HoldsLease), only the TTL
// counts. Pools of other computers it ends as Reap does. It touches no pool of a living program.
//
// A provider that cannot be asked does not keep the others waiting. It is asked again after a
// minute, then after pauses that double, up to an hour.
func Guard(ctx context.Context, every time.Duration, providers ...Provider) iter.Seq2[[]Resource, error] {
	return StateDir("").Guard(ctx, every, providers...)
}

// Guard is [Guard] with the ledgers of this folder.
func (d StateDir) Guard(ctx context.Context, every time.Duration, providers ...Provider) iter.Seq2[[]Resource, error] {
	return func(yield func([]Resource, error) bool) {
		var f invalid.Faults
		if every <= 0 {
			f.Add("every is %v; a round takes time", every)
		}
		if len(providers) == 0 {
			f.Add("no provider is given: whose machines are to be looked for?")
		}
		all, errs := flatten("guard", providers)
		if err := errors.Join(append(errs, invalid.NoContext("guard", ctx), f.Err("guard"))...); err != nil {
			yield(nil, err)
			return
		}
		accounts := make([]guarded, len(all))
		for i, provider := range all {
			accounts[i].Provider = provider
		}
		for {
			ended, err := d.guard(ctx, accounts)
			if ctx.Err() != nil && ended == nil || !yield(ended, err) {
				return
			}
			next := time.Now().Add(every)
			for i := range accounts {
				if again := accounts[i].again; again.After(time.Now()) && again.Before(next) {
					next = again
				}
			}
			if !retry.Sleep(ctx, time.Until(next)) {
				return
			}
		}
	}
}

// A guarded account is one that Guard looks after.
type guarded struct {
	Provider
	failed time.Duration // the pause after its last failure; zero if it has not failed
	again  time.Time     // when it is asked again
}

// note records whether the account could be asked.
func (g *guarded) note(asked bool) {
	if asked {
		g.failed, g.again = 0, time.Time{}
		return
	}
	g.failed = min(max(2*g.failed, time.Minute), time.Hour)
	g.again = time.Now().Add(g.failed)
}

// guard is one round, with the accounts whose turn it is.
func (d StateDir) guard(ctx context.Context, accounts []guarded) ([]Resource, error) {
	dir, err := d.open()
	if err != nil {
		return nil, err
	}
	var errs []error
	var asked []*guarded
	var opened []inventory.Account
	for i := range accounts {
		g := &accounts[i]
		if g.again.After(time.Now()) {
			continue
		}
		a, err := inventory.OpenAccount(ctx, g.Provider)
		if err != nil {
			g.note(false)
			errs = append(errs, err)
			continue
		}
		defer a.Driver.Close()
		asked, opened = append(asked, g), append(opened, a)
	}
	reaper := inventory.NewReaper(dir, opened, leaveHost)
	reaper.OnlyLapsed(journal.HoldsLease)
	ended, err := reaper.Run(ctx)
	for i, g := range asked {
		g.note(!slices.Contains(reaper.Unasked(), i))
	}
	return ended, errors.Join(append(errs, err)...)
}

// guard starts the pool's guardian, if its machines cannot end themselves and it is not declined. It reports that it did, or
// why it did not. The error is for what the program's author can do something about: there is none about a Config that no other
// process can have.
func (p *pool) guard(provider Provider) error {
	if p.opts.noGuardian || p.account.EndsItself() {
		return nil
	}
	failed := &Error{Provider: p.account.Provider, Op: "start a guardian", Hint: hintGuardian}
	var refused error
	if !initCalled.Load() {
		failed.Kind, failed.Hint = ErrNoInit, hintInit+", and the guardian; or "+hintGuardian
		refused = failed
	} else if failed.Err, refused = p.startGuardian(provider); failed.Err == nil {
		p.events.emit(Event{Kind: EventTrouble, State: "guardian"})
		return nil
	}
	p.events.emit(Event{Kind: EventTrouble, State: "guardian", Err: failed})
	if refused != nil {
		return failed
	}
	return nil
}

const hintGuardian = "decline it with WithoutGuardian: then, if this program dies, only Reap or Guard ends the machines, which bill until that"

// startGuardian returns why no guardian, or none for some members, was started, and what of that is the failure of the start.
func (p *pool) startGuardian(provider Provider) (err, start error) {
	all, errs := flatten("start a guardian", []Provider{provider})
	job := guardian.Job{Pool: p.id, Generation: p.generation}
	for _, member := range all {
		c, err := guardian.Encode(member)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", member.Name(), err))
			continue
		}
		job.Providers = append(job.Providers, c)
	}
	path, err := p.opts.stateDir.path()
	if err == nil && job.Providers != nil {
		job.StateDir = path
		p.guardian, err = guardian.Start(job)
	}
	return errors.Join(append(errs, err)...), err
}

// flatten returns the providers. A provider that is made of others is replaced by its members.
func flatten(op string, providers []Provider) (all []Provider, errs []error) {
	for _, provider := range providers {
		if provider == nil {
			errs = append(errs, &Error{Op: op, Kind: ErrInvalid, Err: errors.New("a provider is nil")})
			continue
		}
		members, err := market.Flatten(provider)
		if err != nil {
			errs = append(errs, err)
		}
		all = append(all, members...)
	}
	return all, errs
}

// leaveHost ends what a dead program's pool runs on an adopted host, if its lease has not ended
// that already.
func leaveHost(ctx context.Context, h inventory.Host) error {
	signer, err := ssh.ParseKey([]byte(h.Key))
	if err != nil {
		return inventory.LedgerError("reap", fmt.Errorf("the pool's key: %w", err))
	}
	settings := &node.Settings{
		Pool: h.Pool, Generation: h.Generation, Provider: h.Account.Provider, Driver: h.Account.Driver, Capabilities: h.Account.Caps,
		Login: ssh.KeyPair{Signer: signer}, Lease: h.Lease, Secrets: &output.Redactor{},
	}
	n := node.New(ctx, settings, nil)
	n.Resume(node.Earlier{Name: h.Name, Folder: h.Root, HostKeys: h.HostKeys, Instance: h.Instance})
	return n.CleanEarlier(ctx)
}

// A PoolRecord describes a pool by its ledger.
type PoolRecord struct {
	// ID and Name are the pool's. Attach takes either.
	ID, Name string
	// Provider is the provider's name, and Account its driver's Capabilities.Account.
	Provider, Account string
	// Owner is the program that has the pool, as PoolInfo.Owner names it.
	Owner string
	State PoolState
	// Created is when the pool was opened, and Expires when it ends by its TTL.
	// Expires is zero if it has none.
	Created, Expires time.Time
	// Lease is how long the pool's nodes go on without their program.
	Lease time.Duration
	// Nodes counts the machines that are not known to be gone, including those that may never have
	// been made.
	Nodes int
	// CostUSD is what the pool's machines have cost so far, as far as prices are known, and Unknown
	// how many of them have a price that is not known.
	CostUSD float64
	Unknown int
	// Results are the folders with the pool's results, unless WithResultsDir named one: below the
	// state directory, and in the folder for temporary files if an earlier version of gputrain has
	// put them there. Close and Reap remove none of them.
	Results []string
	// Err is what is wrong with the ledger, or nil.
	Err error
}

// A PoolState is the state of a pool by its ledger.
type PoolState int

const (
	// PoolOpen is a pool whose program is alive.
	PoolOpen PoolState = iota
	// PoolClosing is a pool whose program is alive and is closing the pool.
	PoolClosing
	// PoolAbandoned is a pool whose program is dead: Attach or Reap it.
	PoolAbandoned
	// PoolLeaking is a pool whose program had begun to end it, and is dead or done: Reap ends what
	// is left.
	PoolLeaking
)

// String returns the state in lower case: "abandoned".
func (s PoolState) String() string {
	return nameOf(s, "open", "closing", "abandoned", "leaking")
}

// Pools returns the pools that are not entirely gone, by the ledgers of this computer. It asks no
// provider. A pool whose ledger cannot be read whole is among them, with its Err.
func Pools() ([]PoolRecord, error) { return StateDir("").Pools() }

// Pools is [Pools] with the ledgers of this folder.
func (d StateDir) Pools() ([]PoolRecord, error) {
	dir, err := d.open()
	if err != nil {
		return nil, err
	}
	ids, err := dir.Pools()
	if err != nil {
		return nil, inventory.LedgerError("list the ledgers", err)
	}
	state, _ := d.path()
	results := output.FindDirs(state)
	var pools []PoolRecord
	for _, id := range ids {
		snap, err := dir.Read(id)
		if snap == nil {
			if !errors.Is(err, ledger.ErrUnknown) { // it was closed just now
				pools = append(pools, PoolRecord{ID: id, Results: results[id], Err: inventory.LedgerError("read the ledger", err)})
			}
			continue
		}
		r := recordOf(id, snap)
		r.Results = results[id]
		if err != nil {
			r.Err = inventory.LedgerError("read the ledger", err)
		}
		pools = append(pools, r)
	}
	return pools, nil
}

func recordOf(id string, snap *ledger.Snapshot) PoolRecord {
	r := PoolRecord{
		ID: id, Name: snap.Name, Provider: snap.Provider, Account: snap.Account, Owner: snap.Holder,
		Created: snap.Created, Expires: snap.Expires, Lease: snap.Lease,
	}
	switch {
	case snap.InUse && snap.Closing:
		r.State = PoolClosing
	case snap.InUse:
		r.State = PoolOpen
	case snap.Closing:
		r.State = PoolLeaking
	default:
		r.State = PoolAbandoned
	}
	if len(snap.Damage) > 0 {
		r.Err = inventory.LedgerError("read the ledger", fmt.Errorf("%w: %w", ledger.ErrDamaged, errors.Join(snap.Damage...)))
	}
	sum := inventory.Summarize(snap)
	r.Nodes, r.CostUSD, r.Unknown = sum.Machines, sum.CostUSD, sum.Unknown
	return r
}
