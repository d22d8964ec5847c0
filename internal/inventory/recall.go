package inventory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Recalled machine is one that an earlier program had a node on.
type Recalled struct {
	Instance driver.Instance
	Name     string   // of the machine
	Root     string   // the node's folder there; empty if it never had one
	HostKeys []string // of its SSH server, as the earlier program has met them
}

// Recall loads the records of earlier programs, and finds out what has become of the machines that a launch was about
// to make. It returns one machine for each rank that has one, in the order of ranks. An audit ends all others.
func (inv *Inventory) Recall(ctx context.Context) ([]Recalled, error) {
	byRank := map[int]Recalled{}
	for _, row := range inv.book.ledger.Snapshot().Rows {
		inv.recall(row)
		if row.Kind != machineKind || row.ID == "" || row.State != ledger.Created && row.State != ledger.Leased {
			continue
		}
		if older, twice := byRank[row.Rank]; twice {
			inv.machines.unwant(older.Instance.ID)
		}
		byRank[row.Rank] = Recalled{Instance: inv.machines.instance(row.ID), Name: row.Name, Root: row.Root, HostKeys: row.HostKeys}
	}
	if names := inv.machines.intents(); len(names) > 0 {
		if err := inv.learnAccounts(ctx); err != nil {
			return nil, err
		}
		found, err := inv.launcher.settle(ctx, names, time.Now().Add(inv.account.Caps.ListLag), nil)
		if err != nil {
			return nil, err
		}
		for _, inst := range found {
			if _, taken := byRank[inst.Rank]; taken {
				inv.machines.unwant(inst.ID)
				continue
			}
			byRank[inst.Rank] = Recalled{Instance: inv.machines.instance(inst.ID), Name: inst.Name, HostKeys: inst.SSH.HostKeys}
		}
	}
	var all []Recalled
	for _, rank := range slices.Sorted(maps.Keys(byRank)) {
		all = append(all, byRank[rank])
	}
	return all, nil
}

// learnAccounts lets a driver of several accounts learn which of them may hold something of the pool, by its records.
// No other account is asked then.
func (inv *Inventory) learnAccounts(ctx context.Context) error {
	r, ok := inv.account.Driver.(driver.Resumer)
	if !ok || len(inv.account.Caps.Accounts) == 0 {
		return nil
	}
	return retry.Call(ctx, func() error { return r.Resume(ctx, inv.Info()) })
}

// recall loads a row of an earlier program.
func (inv *Inventory) recall(row ledger.Row) {
	if inv.lag.recall(row) {
		inv.AuditSoon()
	}
	inv.shared.recall(row)
	inv.machines.recall(inv.account, row)
}
