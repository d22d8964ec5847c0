package gputrain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/inventory"
	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/ssh"
)

// Reap ends everything that belongs to pools whose programs are dead, at the given providers, and
// returns what it has ended. It uses the ledgers of this computer and the providers' own lists, so
// that it also finds what was made from another computer. It never touches the pool of a program
// that is alive: for a pool of this computer it checks the pool's lock and the program's process;
// for a pool of another computer it must be certain that the lease or TTL has run out, and
// otherwise leaves the pool alone. Results that the pool's program has put on disk stay there:
// Pools names the folders, before Reap has removed the ledger. Errors name what could not be ended,
// in a [*LeakError].
func Reap(ctx context.Context, providers ...Provider) ([]Resource, error) {
	return StateDir("").Reap(ctx, providers...)
}

// Reap is [Reap] with the ledgers of this folder.
func (d StateDir) Reap(ctx context.Context, providers ...Provider) ([]Resource, error) {
	if len(providers) == 0 {
		return nil, &Error{Op: "reap", Kind: ErrInvalid, Err: errors.New("no provider is given: whose machines are to be looked for?")}
	}
	dir, err := d.open()
	if err != nil {
		return nil, err
	}
	all, errs := flatten(providers)
	var accounts []inventory.Account
	for _, provider := range all {
		driver, err := provider.Open(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer driver.Close()
		accounts = append(accounts, inventory.Account{Provider: provider.Name(), Driver: driver, Caps: driver.Capabilities()})
	}
	ended, err := inventory.NewReaper(dir, accounts, leaveHost).Run(ctx)
	return ended, errors.Join(append(errs, err)...)
}

// flatten returns the providers. A provider that is made of others is replaced by its members.
func flatten(providers []Provider) (all []Provider, errs []error) {
	for _, provider := range providers {
		if provider == nil {
			errs = append(errs, &Error{Op: "reap", Kind: ErrInvalid, Err: errors.New("a provider is nil")})
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
