package gputrain

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/internal/inventory"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/providers/driver"
)

// A LeakError names the resources that the provider has not confirmed to be gone. They may still
// cost money: end them by hand. It has the fields Resources (what is left, as far as it is known)
// and Err (why).
type LeakError = inventory.LeakError

// A reporter turns the changes of a pool's nodes and of its inventory into events.
type reporter struct{ p *pool }

func (r reporter) Changed(c fleet.Change) {
	r.p.access.Changed()
	ev := Event{Kind: EventNode, Node: c.Member.Rank(), At: nodeOf(c.Member).public(), State: c.State.String(), Err: c.Err, HostKey: c.HostKey, HostKeySource: c.HostKeySource}
	if lease := r.p.spec.lease(); c.State == fleet.Ready && lease > 0 {
		ev.Until = time.Now().Add(lease)
	}
	r.p.events.emit(ev)
}

// Launching is for a fleet that tries one offer after another.
func (r reporter) Launching(err error) {
	r.p.events.emit(Event{Kind: EventWait, State: "launching", Node: -1, Err: err})
}

func (r reporter) Preemption(rank int, what string, elapsed time.Duration, err error) {
	ev := Event{Kind: EventPreemption, Node: rank, State: what, Elapsed: elapsed}
	if err != nil {
		ev.Err = r.p.withoutSecrets(err)
	}
	r.p.events.emit(ev)
	if what == "notice" || what == "spared" {
		r.p.lives.Go(func() { r.announce(rank, what == "spared", elapsed) })
	}
}

// announce tells the tasks of a node. The pool's lock may be held when it is started.
func (r reporter) announce(rank int, spared bool, left time.Duration) {
	r.p.mu.Lock()
	members := slices.Clone(r.p.fleet.Members())
	r.p.mu.Unlock()
	for _, m := range members {
		if m.Rank() == rank {
			nodeOf(m).announce(spared, left)
		}
	}
}

func (r reporter) Billed() {
	if !r.p.events.seen() {
		return
	}
	c := r.p.cost()
	c.Nodes = nil // there may be many, and many events
	r.p.events.emit(Event{Kind: EventCost, Cost: &c})
}

func (r reporter) Offered(o driver.Offer, state string, err error) {
	ev := Event{Kind: EventOffer, State: state, Offer: &o}
	if err != nil {
		ev.Err = r.p.withoutSecrets(err)
	}
	r.p.events.emit(ev)
}

func (r reporter) Trouble(about string, err error) {
	r.p.events.emit(Event{Kind: EventTrouble, State: about, Err: err})
}

func (r reporter) Waiting(why error, since, until time.Time) {
	r.p.events.emit(Event{Kind: EventWait, State: "capacity", Node: -1, Err: why, Elapsed: time.Since(since), Until: until})
}

func (r reporter) Pending(m *fleet.Member, reason string) {
	ev := nodeOf(m).event(EventWait, "machine")
	ev.Err = errors.New(reason)
	r.p.events.emit(ev)
}

func (r reporter) Settling(why error, until time.Time) {
	r.p.events.emit(Event{Kind: EventWait, State: "settling", Node: -1, Err: why, Until: until})
}

func (r reporter) Lost(err error) { r.p.finish(err) }

// record begins the pool's ledger, before anything is made for the pool, unless the pool's context has ended: then it may
// be closed at the same time.
func (p *pool) record() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if why := context.Cause(p.ctx); why != nil {
		return p.interrupted(why)
	}
	dir, err := p.opts.stateDir.open()
	if err != nil {
		return err
	}
	if err := p.inventory.Begin(dir, p.keys.Private); err != nil {
		return err
	}
	p.journal = recorder{journal.Create(p.inventory.TasksPath(), formOf(p.spec), p.results.Path(), p.journalFailed)}
	return nil
}

// journalFailed reports that tasks are no longer recorded.
func (p *pool) journalFailed(err error) {
	reporter{p}.Trouble("journal", inventory.LedgerError("keep tasks for Attach", err))
}

// budget ends the pool's tasks, and later the pool, when its budget is spent.
func (p *pool) budget() {
	p.spending.Watch(p.ctx, func(spent error) {
		p.events.emit(Event{Kind: EventPool, State: "spent", Err: spent})
		p.endWork(spent)
	}, p.finish)
}

// A Cost is what a pool costs, as far as prices are known, by the billing units
// of its provider. It is an estimate: the provider's bill decides.
type Cost struct {
	// USD is what the pool has cost so far: each begun unit of billing counts.
	USD float64
	// HourlyUSD is what its machines cost per hour now.
	HourlyUSD float64
	// Unknown counts the machines, also of nodes that are gone, whose price is not
	// known. They are in none of the sums.
	Unknown int
	// AtMostUSD is what the pool costs at most if this program dies now: until the
	// nodes' leases, or the pool's TTL, have run out. It is 0 if Bounded is false.
	AtMostUSD float64
	// OverspendUSD is how much of that is more than Spec.BudgetUSD: only this program
	// watches the budget. It is 0 if there is none.
	OverspendUSD float64
	// Parts divides USD by name. "machine" includes the disk and the address, unless the provider
	// has a price for each: then these are "disk" and "address". "traffic" was counted on the nodes.
	// "shared" is for volumes and the like that all machines use.
	Parts map[string]float64
	// Bounded is false if nothing but a guardian (see [WithoutGuardian]), [Guard] or [Reap] would
	// end a machine, all of which can fail with this computer or another: it cannot end itself, or is still on its way up and has no lease yet, or runs a task that
	// holds its lease in a pool without TTL. It is false too if a price is not known, or if
	// something beside machines is billed, since that does not end itself.
	Bounded bool
	// Nodes are the machines that are there or were, in the order in which they were
	// launched.
	Nodes []NodeCost
}

// A NodeCost is what one machine of a pool has cost.
type NodeCost struct {
	// Rank is the rank that the machine was launched for.
	Rank int
	// ID and Name are as in [Node].
	ID, Name string
	// HourlyUSD is the price that is charged.
	HourlyUSD Price
	// USD is what the machine has cost so far. It is 0 if the price is not known.
	USD float64
	// From is when the machine was launched, and To when it was confirmed gone. To is zero before
	// that, also if billing has ended: a machine counts until its provider accepts its termination,
	// and longer while the provider reports that it runs.
	From, To time.Time
}

// cost returns what the pool costs now.
func (p *pool) cost() Cost {
	now := p.spending.Cost()
	c := Cost{
		USD: now.USD, HourlyUSD: now.HourlyUSD, Unknown: now.Unknown,
		AtMostUSD: now.AtMostUSD, OverspendUSD: now.OverspendUSD, Bounded: now.Bounded, Parts: now.Parts,
	}
	for _, m := range now.Machines {
		c.Nodes = append(c.Nodes, NodeCost(m))
	}
	return c
}
