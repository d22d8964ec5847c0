package inventory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Reporter is notified of an inventory's events. No lock is held when it is called.
type Reporter interface {
	// Billed reports that what the pool costs, or costs at most, has changed: a machine has begun or ceased to be billed,
	// its price is another one, it has its lease, or a task has begun or ceased to hold one.
	Billed()
	// Trouble reports a failure that no caller waits for: "ledger" if a note could not be written, "audit" if an audit
	// or a mark of the lease failed, "image" if machines start from the usual image since the baked one is gone, "stranger" if a
	// machine has the pool's tag and is not the pool's: it is left alone.
	Trouble(about string, err error)
	// Settling reports that the inventory waits to see what a call without a clean answer has made, or if why is nil
	// until lists are complete, and until when at the latest. Zero means that there is no such time.
	Settling(why error, until time.Time)
	// Lost reports that another program has the pool.
	Lost(err error)
}

// quiet is a Reporter that ignores everything.
type quiet struct{}

func (quiet) Billed()                   {}
func (quiet) Trouble(string, error)     {}
func (quiet) Settling(error, time.Time) {}
func (quiet) Lost(error)                {}

// An Inventory holds all resources that were made for one pool. Its methods can be called
// at the same time, but for those that begin or close its ledger.
type Inventory struct {
	account  Account
	info     driver.PoolInfo
	report   Reporter
	book     book
	machines machines
	shared   shared
	lag      listLag
	lister   lister
	launcher launcher
	endings  endings

	auditing  chan struct{} // has room for one: signals that an audit is due soon
	preparing chan struct{} // has room for one: held by the call that prepares
	prepared  time.Time     // when what machines share was last made; guarded by preparing
	discards  sync.WaitGroup
}

// New returns the inventory of a pool for which nothing was made yet.
func New(account Account, info driver.PoolInfo, report Reporter) *Inventory {
	inv := &Inventory{
		account: account, info: info, report: report, book: book{report: report}, machines: newMachines(), lag: listLag{caps: account.Caps},
		auditing: make(chan struct{}, 1), preparing: make(chan struct{}, 1),
	}
	inv.shared = shared{account: account, pool: info.ID, book: &inv.book}
	inv.lister = lister{driver: account.Driver, pool: info.ID, made: &inv.machines, book: &inv.book, report: report}
	inv.launcher = launcher{driver: account.Driver, machines: &inv.machines, lister: &inv.lister, book: &inv.book, report: report}
	inv.endings = endings{driver: account.Driver, machines: &inv.machines, book: &inv.book, report: report}
	return inv
}

// Begin begins the pool's ledger, before anything is made. The private key is kept beside it.
func (inv *Inventory) Begin(dir *ledger.Dir, privateKey []byte) error {
	l, err := dir.Create(ledger.Header{
		Schema: ledger.Schema, Pool: inv.info.ID, Name: inv.info.Name, Provider: inv.account.Provider, Account: inv.account.Caps.Account, Owner: inv.info.Owner,
		Created: time.Now(), Expires: inv.info.Expires, Lease: inv.info.Lease, AuthorizedKey: inv.info.AuthorizedKey,
		Members: slices.Sorted(maps.Keys(inv.account.Caps.Accounts)),
	}, privateKey, sharedRow)
	if err != nil {
		return LedgerError("begin the ledger; nothing was made", err)
	}
	inv.book.ledger = l
	return nil
}

// Resume takes a ledger that an earlier program has begun.
func (inv *Inventory) Resume(l *ledger.Ledger) { inv.book.ledger = l }

// Begun reports whether there is a ledger: else nothing was ever made.
func (inv *Inventory) Begun() bool { return inv.book.ledger != nil }

// TasksPath returns the name of the file beside the ledger for what is kept of the pool's tasks.
func (inv *Inventory) TasksPath() string { return inv.book.ledger.TasksPath() }

// KeyPath returns the name of the file with the private key of an inventory's pool, or "" if there is no ledger yet.
func KeyPath(inv *Inventory) string {
	if inv.book.ledger == nil {
		return ""
	}
	return inv.book.ledger.KeyPath()
}

// Fenced returns why this program must touch nothing of the pool any more, or nil.
func (inv *Inventory) Fenced() error { return inv.book.fenced() }

// Close releases the ledger, which is removed if everything is gone.
func (inv *Inventory) Close(allGone bool) error {
	if !allGone {
		noteBills(context.Background(), inv)
	}
	return inv.book.close(allGone)
}

// Closing records that the pool is being ended.
func (inv *Inventory) Closing() { inv.book.note(inv.book.ledger.Closing()) }

// Wait returns when no Discard waits for a machine's end any more. All contexts given to Discard have ended.
func (inv *Inventory) Wait() { inv.discards.Wait() }

// Name returns a name for a machine of a rank that no machine of the pool has had.
func (inv *Inventory) Name(rank int) string { return inv.machines.name(inv.info.ID, rank) }

// Offers returns the offers of the machines of an inventory's pool that are not at their end.
func Offers(inv *Inventory) []driver.Offer { return inv.machines.offers() }

// Info returns the pool's information for drivers.
func (inv *Inventory) Info() driver.PoolInfo {
	info := inv.info.WithRecord(inv.shared.record)
	info.Made = inv.shared.made()
	return info
}

// Leased records that a machine ends itself once its lease has run out, and how it is found again: by the node's folder
// there, and by the keys of its host, if the instance has none.
func (inv *Inventory) Leased(inst driver.Instance, root string, hostKeys []string) {
	row := rowOf(inst)
	row.Root = root
	if row.HostKeys == nil {
		row.HostKeys = hostKeys
	}
	inv.machines.update(inst.ID, func(m *machine) { m.leased = true })
	inv.book.note(inv.book.ledger.Leased(row))
	inv.report.Billed()
}

// lapse returns how long after a program's last sign of life a machine has ended itself, and its provider has noticed:
// its watcher looks ten times in a lease, or more often.
func lapse(lease time.Duration) time.Duration { return lease + lease/10 + time.Minute }
