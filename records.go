package gputrain

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/supervisor"
)

// record begins the pool's ledger, before anything is made.
func (p *pool) record() error {
	dir, err := p.opts.stateDir.open()
	if err != nil {
		return err
	}
	var keys []string
	if g, ok := p.driver.(*groupDriver); ok {
		keys = g.keys()
	}
	p.ledger, err = dir.Create(ledger.Header{
		Schema: ledger.Schema, Pool: p.id, Name: p.opts.name, Provider: p.provider, Account: p.caps.Account, Owner: p.info.Owner,
		Created: now(), Expires: p.info.Expires, Lease: p.spec.lease(), AuthorizedKey: p.keys.public,
		Members: keys,
	}, p.keys.private, ledger.Row{Name: sharedRow, Kind: sharedRow})
	if err != nil {
		return ledgerError("begin the ledger; nothing was made", err)
	}
	p.journal = beginJournal(p.ledger.TasksPath(), keptSpec{p.spec, p.results.path}, p.journalFailed)
	return nil
}

// journalFailed tells that tasks are not kept any more.
func (p *pool) journalFailed(err error) {
	p.events.emit(Event{Kind: EventPool, State: "journal", Err: ledgerError("keep tasks for Attach", err)})
}

// intend puts down which machines a launch is to make. Without that there is no
// launch.
func (p *pool) intend(o Offer, req LaunchRequest) error {
	var rows []ledger.Row
	for _, n := range req.Nodes {
		row := p.rowOf(Instance{Name: n.Name, Rank: n.Rank, Offer: o})
		row.Token = req.Token
		rows = append(rows, row)
	}
	if err := p.ledger.Intend(rows...); err != nil {
		p.lostLedger(err)
		return ledgerError("note a launch; nothing was launched", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range req.Nodes {
		p.inFlight[n.Name] = now()
	}
	return nil
}

// rowOf is what the ledger keeps of a machine.
func (p *pool) rowOf(inst Instance) ledger.Row {
	row := ledger.Row{
		Name: inst.Name, Kind: "machine", Rank: inst.Rank, ID: inst.ID, Region: inst.Offer.Region, InstanceType: inst.Offer.InstanceType,
		Spot: inst.Offer.Spot, BillingUnit: inst.Offer.BillingUnit, HostKeys: inst.SSH.HostKeys, Member: p.memberOf(inst.Offer).key,
	}
	if usd, known := inst.Offer.HourlyUSD.USD(); known {
		row.HourlyUSD = &usd
	}
	return row
}

// machineOf is what a row tells of a machine.
func (p *pool) machineOf(row ledger.Row) *machine {
	inst := Instance{ID: row.ID, Name: row.Name, Rank: row.Rank, Offer: Offer{
		Provider: p.providerOf(row.Member), member: p.indexOf(row.Member), Region: row.Region, InstanceType: row.InstanceType, Spot: row.Spot, BillingUnit: row.BillingUnit,
	}}
	if row.HourlyUSD != nil {
		inst.Offer.HourlyUSD = USD(*row.HourlyUSD)
	}
	return &machine{inst: inst, from: cmp.Or(row.Created, row.Intended), to: row.Gone, leased: row.Root != ""}
}

// adopt puts down what a launch returned, also where it failed.
func (p *pool) adopt(got []Instance) {
	if len(got) == 0 {
		return
	}
	var rows []ledger.Row
	p.mu.Lock()
	for _, inst := range got {
		if p.machines[inst.ID] == nil {
			m := &machine{inst: inst, from: now()}
			if asked, ok := p.inFlight[inst.Name]; ok {
				m.from = asked // it may have been there since
			}
			p.machines[inst.ID] = m
			p.bought = append(p.bought, m)
			rows = append(rows, p.rowOf(inst))
		}
		delete(p.inFlight, inst.Name)
	}
	p.mu.Unlock()
	p.noted(p.ledger.Created(rows...)) // should that fail, its intent is there, by which it is found
	p.events.emit(Event{Kind: EventCost, CostUSD: p.costUSD()})
}

// neverMade puts down that machines, which a launch was to make, do not exist.
func (p *pool) neverMade(names []string) error {
	if len(names) == 0 {
		return nil
	}
	p.mu.Lock()
	for _, name := range names {
		delete(p.inFlight, name)
	}
	p.mu.Unlock()
	p.noted(p.ledger.Gone("never made", names...))
	return nil
}

// openIntents returns the names of machines of which it is not known whether they
// were made.
func (p *pool) openIntents() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.inFlight))
}

func (p *pool) intended(names []string) map[string]Resource {
	left := map[string]Resource{}
	for _, name := range names {
		left[name] = Resource{Provider: p.provider, Kind: "machine", Name: name}
	}
	return left
}

// gone puts down which machines are confirmed gone.
func (p *pool) gone(ids []string) {
	if len(ids) == 0 {
		return
	}
	p.noted(p.ledger.Gone("", p.namesOf(ids, func(m *machine) {
		if m.to.IsZero() {
			m.to = now()
		}
	})...))
	p.events.emit(Event{Kind: EventCost, CostUSD: p.costUSD()})
}

// noteEnding puts down which machines are asked to end.
func (p *pool) noteEnding(ids []string) { p.noted(p.ledger.Ending(p.namesOf(ids, nil)...)) }

// namesOf returns the names of those of the machines that the pool knows.
func (p *pool) namesOf(ids []string, each func(*machine)) (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if m := p.machines[id]; m != nil && m.inst.Name != "" {
			names = append(names, m.inst.Name)
			if each != nil {
				each(m)
			}
		}
	}
	return names
}

func (p *pool) noteClosing() { p.noted(p.ledger.Closing()) }

// noteLeased puts down that a node has its lease, and how it is found again.
func (n *poolNode) noteLeased(facts supervisor.Facts) {
	row := n.p.rowOf(n.inst)
	row.Root = facts.Root
	if key := n.server.pin.Key(); key != nil && row.HostKeys == nil {
		row.HostKeys = []string{authorizedForm(key)}
	}
	n.p.mu.Lock()
	if m := n.p.machines[n.inst.ID]; m != nil {
		m.leased = true
	}
	n.p.mu.Unlock()
	n.p.noted(n.p.ledger.Leased(row))
}

// noted looks at what has become of a note in the ledger that nothing waits for.
// What it was about exists, or is gone, all the same.
func (p *pool) noted(err error) {
	if err == nil {
		return
	}
	p.lostLedger(err)
	p.events.emit(Event{Kind: EventPool, State: "ledger", Err: ledgerError("note what was done", err)})
}

// lostLedger ends the pool where another program has it.
func (p *pool) lostLedger(err error) {
	if errors.Is(err, ledger.ErrFenced) {
		p.finish(ledgerError("pool", err))
	}
}

// fenced is why this program must touch nothing of the pool any more, or nil.
func (p *pool) fenced() error {
	if p.ledger == nil {
		return nil
	}
	if err := p.ledger.Fenced(); err != nil {
		return ledgerError("pool", err)
	}
	return nil
}

// closeLedger lets go of the ledger: it is removed where everything is gone.
func (p *pool) closeLedger(allGone bool) error {
	if p.ledger == nil {
		return nil
	}
	if err := p.ledger.Close(allGone); err != nil {
		return ledgerError("close the ledger", err)
	}
	return nil
}

// markLease notes at a provider how long this program is known to live.
func (p *pool) markLease(m *member, marker LeaseMarker) {
	for {
		next := min(p.spec.lease()/3, 5*time.Minute)
		ids := m.ownIDs(slices.Sorted(maps.Keys(p.known())))
		if len(ids) > 0 {
			if err := marker.MarkLease(p.ctx, m.info(p.infoNow()), now().Add(p.lapse()), ids...); err != nil && p.ctx.Err() == nil {
				p.events.emit(Event{Kind: EventPool, State: "audit", Err: err})
				next = min(next, 30*time.Second)
			}
		}
		if !sleep(p.ctx, next) {
			return
		}
	}
}
