package gputrain

import (
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
)

// A PoolRecord is what the ledger tells of a pool.
type PoolRecord struct {
	// ID and Name are the pool's. Attach takes either.
	ID, Name string
	// Provider is the provider's name, and Account Capabilities.Account.
	Provider, Account string
	// Owner is the program that has the pool, as PoolInfo.Owner tells it.
	Owner string
	State PoolState
	// Created is when the pool was opened, and Expires when it ends by its TTL.
	// Expires is zero where it has none.
	Created, Expires time.Time
	// Lease is how long its nodes go on without their program.
	Lease time.Duration
	// Nodes counts the machines that are not known to be gone, those included of
	// which it is not known whether they were ever made.
	Nodes int
	// CostUSD is what its machines have cost so far, as far as prices are known,
	// and Unknown how many of them have a price that is not known.
	CostUSD float64
	Unknown int
	// Results are the folders that the pool's results are in, as far as no folder was named
	// by WithResultsDir: below the state directory, and in the one for temporary files if a
	// version before this one has put them there. Close and Reap remove none of them.
	Results []string
	// Err is what is wrong with the ledger, or nil.
	Err error
}

// A PoolState says how a pool is that the ledger tells of.
type PoolState int

const (
	// PoolOpen is a pool whose program lives.
	PoolOpen PoolState = iota
	// PoolClosing is a pool that its program, which lives, is ending.
	PoolClosing
	// PoolAbandoned is a pool whose program is dead: Attach or Reap it.
	PoolAbandoned
	// PoolLeaking is one whose program is dead, or done, and had begun to end it:
	// Reap ends what is left.
	PoolLeaking
)

// String returns the state in lower case: "abandoned".
func (s PoolState) String() string {
	return nameOf(s, "open", "closing", "abandoned", "leaking")
}

// Pools returns what is known of pools that are not entirely gone, by the ledgers of
// this computer. It asks no provider. A ledger that cannot be read whole is
// among them, with its Err.
func Pools() ([]PoolRecord, error) { return StateDir("").Pools() }

// Pools is [Pools], by the ledgers of the folder.
func (d StateDir) Pools() ([]PoolRecord, error) {
	dir, err := d.open()
	if err != nil {
		return nil, err
	}
	ids, err := dir.Pools()
	if err != nil {
		return nil, ledgerError("list the ledgers", err)
	}
	results := d.results()
	var pools []PoolRecord
	for _, id := range ids {
		snap, err := dir.Read(id)
		if snap == nil {
			if !errors.Is(err, ledger.ErrUnknown) { // it was closed just now
				pools = append(pools, PoolRecord{ID: id, Results: results[id], Err: ledgerError("read the ledger", err)})
			}
			continue
		}
		r := recordOf(id, snap)
		r.Results = results[id]
		if err != nil {
			r.Err = ledgerError("read the ledger", err)
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
		r.Err = ledgerError("read the ledger", fmt.Errorf("%w: %w", ledger.ErrDamaged, errors.Join(snap.Damage...)))
	}
	p := &pool{provider: snap.Provider}
	for _, row := range snap.Rows {
		if row.Kind != "machine" {
			continue
		}
		if row.State != ledger.Gone {
			r.Nodes++
		}
		if row.ID == "" {
			continue // nothing is known to have been made
		}
		usd, known := p.machineOf(row).usd(now())
		r.CostUSD += usd
		if !known {
			r.Unknown++
		}
	}
	return r
}
