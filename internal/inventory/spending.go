package inventory

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A Budget bounds what a pool may cost.
type Budget struct {
	// USD is the bound. Zero means that there is none.
	USD float64
	// The pool's tasks end when the rest of the budget lasts for Collect, so that results can
	// be collected.
	Collect time.Duration
}

// Spending adds up the costs of an inventory, and keeps its budget.
type Spending struct {
	account  Account
	lease    time.Duration
	expires  time.Time // zero if the pool has no TTL
	machines *machines
	shared   *shared
	noted    func() // has the ledger note what has changed
	budget   Budget
	paying   chan struct{} // has room for one: with a budget, one launch at a time, since each must see what the others cost
	report   Reporter
	mu       sync.Mutex
	holding  int // tasks that run and hold their node's lease; guarded by mu
}

// NewSpending returns the spending of an inventory.
func NewSpending(inv *Inventory, budget Budget) *Spending {
	return &Spending{
		account: inv.account, lease: inv.info.Lease, expires: inv.info.Expires, machines: &inv.machines, shared: &inv.shared, report: inv.report,
		noted: func() { noteBills(context.Background(), inv) }, budget: budget, paying: make(chan struct{}, 1),
	}
}

// A Cost is the cost of a pool. Its fields are those of gputrain.Cost, which documents them.
type Cost struct {
	USD, HourlyUSD float64
	Unknown        int
	AtMostUSD      float64
	OverspendUSD   float64
	Bounded        bool
	Parts          map[string]float64
	Machines       []MachineCost
}

// A MachineCost is the cost of one machine. Its fields are those of gputrain.NodeCost, which
// documents them.
type MachineCost struct {
	Rank      int
	ID, Name  string
	HourlyUSD driver.Price
	USD       float64
	From, To  time.Time
}

// Cost returns what the pool costs now.
func (s *Spending) Cost() Cost {
	at := time.Now()
	c := Cost{Bounded: true, Parts: map[string]float64{}}
	held := s.isHeld()
	latest := at.Add(lapse(s.lease))
	if expires := s.expires; !expires.IsZero() {
		expires = expires.Add(lapse(s.lease) - s.lease) // each node has its own interval
		if expires.Before(latest) || held {
			latest = expires
		}
	}
	s.machines.each(func(m *machine) {
		usd, known := m.usd(at)
		c.Machines = append(c.Machines, MachineCost{Rank: m.inst.Rank, ID: m.inst.ID, Name: m.inst.Name, HourlyUSD: m.inst.Offer.HourlyUSD, USD: usd, From: m.launched, To: m.gone})
		if !known {
			c.Unknown++
			return
		}
		c.USD += usd
		m.addParts(at, c.Parts)
		if m.over().IsZero() {
			perHour, _ := m.inst.Offer.HourlyUSD.USD()
			c.HourlyUSD += perHour
			caps := s.account.Caps.Of(m.inst.Offer)
			ends := m.leased && s.account.selfDestructs(m.inst) && (!held || !s.expires.IsZero())
			c.Bounded = c.Bounded && (ends || caps.Free || caps.Adopts)
		}
		most, _ := m.usd(latest)
		c.AtMostUSD += most
	})
	shared, sharedHourly := s.shared.cost(at)
	if shared > 0 {
		c.USD += shared
		c.HourlyUSD += sharedHourly
		c.Parts[sharedPart] = shared
	}
	c.Bounded = c.Bounded && c.Unknown == 0 && sharedHourly == 0 // nothing of that ends itself
	if !c.Bounded {
		c.AtMostUSD = 0
	}
	if s.budget.USD > 0 {
		c.OverspendUSD = max(c.AtMostUSD-s.budget.USD, 0)
	}
	return c
}

// Unbounded returns why machines may cost money without an end if no program has the pool any more, or nil. If it is
// guarded, a guardian ends machines that cannot end themselves.
func (s *Spending) Unbounded(guarded bool) (why []string) {
	held := s.isHeld() && s.expires.IsZero()
	ending := false
	s.machines.each(func(m *machine) {
		caps := s.account.Caps.Of(m.inst.Offer)
		if !m.over().IsZero() {
			return
		}
		ending = ending || caps.EndsWithProgram
		if caps.Free || caps.Adopts {
			return
		}
		name := cmp.Or(m.inst.ID, m.inst.Name)
		if _, known := m.inst.Offer.HourlyUSD.USD(); !known {
			why = append(why, "the price of "+name+" is not known")
		}
		switch {
		case held:
			why = append(why, "on "+name+" a task may hold the lease, and the pool has no TTL")
		case guarded:
		case !s.account.selfDestructs(m.inst):
			why = append(why, name+" cannot end itself, and there is no guardian")
		case !m.leased:
			why = append(why, name+" is on its way up, and has no lease yet")
		}
	})
	if _, hourly := s.shared.cost(time.Now()); hourly > 0 && !guarded {
		why = append(why, "what the machines share is billed, and does not end itself")
	}
	if ending {
		why = append(why, "its machines end with this program")
	}
	return why
}

// USD returns what the pool has cost so far, as far as prices are known.
func (s *Spending) USD() float64 { return s.usd(time.Now()) }

// usd returns what the pool costs, as far as prices are known, if it ends at a time.
func (s *Spending) usd(end time.Time) float64 {
	shared, _ := s.shared.cost(end)
	return s.machines.usd(end) + shared
}

// Hold adds to the number of tasks that run and keep their node from ending itself.
func (s *Spending) Hold(more int) {
	s.mu.Lock()
	before := s.holding > 0
	s.holding += more
	after := s.holding > 0
	s.mu.Unlock()
	if before != after {
		s.report.Billed()
	}
}

func (s *Spending) isHeld() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holding > 0
}
