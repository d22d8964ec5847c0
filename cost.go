package gputrain

import (
	"math"
	"time"
)

// A machine is one that the pool has launched, as it is billed.
type machine struct {
	inst     Instance  //secretvet:ignore no message formats a machine
	from, to time.Time // to is zero until it is confirmed gone
	accepted time.Time // when the provider accepted its end, or said last after that that it runs
	unbilled time.Time // since when it is billed no more, as far as the provider says: see told
	unwanted bool      // its node is over
	awaited  bool      // its end is waited for: see awaitEnd
	leased   bool      // it ends itself where it hears no more
}

// resource returns the machine as what may be left.
func (m *machine) resource() Resource {
	return Resource{
		Provider: m.inst.Offer.Provider, Kind: "machine", ID: m.inst.ID, Name: m.inst.Name,
		Region: m.inst.Offer.Region, HourlyUSD: m.inst.Offer.HourlyUSD, Created: m.from,
	}
}

// usd returns what the machine costs where it ends at a time: each begun unit of
// billing counts whole. It is false where the price is not known.
func (m *machine) usd(end time.Time) (float64, bool) {
	perHour, known := m.inst.Offer.HourlyUSD.USD()
	if over := m.over(); !over.IsZero() {
		end = over
	}
	d := max(end.Sub(m.from), 0)
	if unit := m.inst.Offer.BillingUnit; unit > 0 {
		d = time.Duration(math.Ceil(float64(d)/float64(unit))) * unit
		if d == 0 {
			d = unit
		}
	}
	return perHour * d.Hours(), known
}

// over is when the machine ceased to be billed: when its end was accepted, or at the latest
// when it was gone. It is zero while the machine is billed.
func (m *machine) over() time.Time {
	if m.unbilled.IsZero() {
		return m.to
	}
	return m.unbilled
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
	// nodes' leases, or the pool's TTL, have run out. It is 0 where Bounded is false.
	AtMostUSD float64
	// OverspendUSD is how much of that is more than Spec.BudgetUSD: nobody else
	// watches the budget. It is 0 where there is none.
	OverspendUSD float64
	// Bounded is false where nothing but [Reap] would end a machine: it cannot end
	// itself, or is still on its way up and has no lease yet, or runs a task that
	// holds its lease in a pool without TTL. It is false too where a price is not known.
	Bounded bool
	// Nodes are the machines that are there or were, in the order in which they were
	// launched.
	Nodes []NodeCost
}

// A NodeCost is what one machine of a pool has cost.
type NodeCost struct {
	// Rank is the one that it was launched for.
	Rank int
	// ID and Name are as in [Node].
	ID, Name string
	// HourlyUSD is the price that is charged.
	HourlyUSD Price
	// USD is what it has cost so far. It is 0 where the price is not known.
	USD float64
	// From and To are when it was launched and when it was confirmed gone. To is
	// zero while it is there, also if it is billed no more: a machine counts until its
	// provider accepts its end, and beyond that while the provider says that it runs.
	From, To time.Time
}

// lapse is how long after this program's last word a node has ended itself, and
// its provider has noticed: its watcher looks ten times in a lease, or more often.
func (p *pool) lapse() time.Duration { return p.spec.lease() + p.spec.lease()/10 + time.Minute }

func (p *pool) cost() Cost {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := now()
	free := func(m *member) bool { return m.caps.Free || m.caps.Adopts }
	ends := func(m *member) bool {
		_, ok := m.driver.(SelfDestructor)
		return ok && (p.holding == 0 || !p.info.Expires.IsZero()) || free(m)
	}
	c := Cost{Bounded: len(p.members) > 1 || ends(p.members[0])}
	latest := at.Add(p.lapse())
	if expires := p.info.Expires; !expires.IsZero() {
		expires = expires.Add(p.lapse() - p.spec.lease()) // each node counts for itself, as coarsely
		if expires.Before(latest) || p.holding > 0 {
			latest = expires
		}
	}
	for _, m := range p.bought {
		usd, known := m.usd(at)
		c.Nodes = append(c.Nodes, NodeCost{Rank: m.inst.Rank, ID: m.inst.ID, Name: m.inst.Name, HourlyUSD: m.inst.Offer.HourlyUSD, USD: usd, From: m.from, To: m.to})
		if !known {
			c.Unknown++
			continue
		}
		c.USD += usd
		if m.over().IsZero() {
			perHour, _ := m.inst.Offer.HourlyUSD.USD()
			c.HourlyUSD += perHour
			of := p.memberOf(m.inst.Offer)
			c.Bounded = c.Bounded && ends(of) && (m.leased || free(of))
		}
		most, _ := m.usd(latest)
		c.AtMostUSD += most
	}
	c.Bounded = c.Bounded && c.Unknown == 0
	if !c.Bounded {
		c.AtMostUSD = 0
	}
	if budget := p.spec.BudgetUSD; budget > 0 {
		c.OverspendUSD = max(c.AtMostUSD-budget, 0)
	}
	return c
}

func (p *pool) costUSD() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.costLocked(now())
}

// costLocked is what the pool costs where it ends at a time.
func (p *pool) costLocked(end time.Time) float64 {
	var sum float64
	for _, m := range p.bought {
		if usd, known := m.usd(end); known {
			sum += usd
		}
	}
	return sum
}

// charge adds an attempt to what its unit has cost: its part of the node's price,
// by the slots that the node has.
func (u *unit) charge(r *Result, n *poolNode) {
	if n != nil {
		perHour, known := r.Node.HourlyUSD.USD()
		u.usd += perHour * r.Elapsed.Hours() / float64(len(n.slots))
		u.unpriced = u.unpriced || !known
	}
	r.CostUSD = USD(u.usd)
	if u.unpriced {
		r.CostUSD = Price{}
	}
}

// hold counts the tasks that run and keep their node from ending itself.
func (p *pool) hold(more int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding += more
}
