package gputrain

import (
	"errors"
	"fmt"
	"time"
)

// affordable reports whether so many more nodes of an offer fit into the budget,
// at least for one unit of billing and the time to collect.
func (p *pool) affordable(o Offer, nodes int) error {
	limit := p.spec.BudgetUSD
	if _, known := o.HourlyUSD.USD(); limit == 0 || !known {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	least := startUSD(o, nodes)
	if spent := p.costLocked(now().Add(CollectTime)); spent+least > limit {
		return &Error{Provider: p.provider, Op: "budget", Kind: ErrBudget,
			Err: fmt.Errorf("%d nodes of %s in %s cost $%.2f at least, $%.2f are spent, and BudgetUSD is $%.2f", nodes, o.InstanceType, o.Region, least, spent, limit)}
	}
	return nil
}

// affordableAll reports whether the budget can pay for the start of so many nodes: of
// the first offers that have room for them.
func (p *pool) affordableAll(offers []Offer, nodes int) error {
	if p.spec.BudgetUSD == 0 {
		return nil
	}
	var usd float64
	for _, o := range offers {
		n := nodes
		if o.Available > 0 && !p.capsOf(o).Adopts {
			n = min(n, o.Available)
		}
		usd += startUSD(o, n)
		if nodes -= n; nodes == 0 {
			break
		}
	}
	if usd <= p.spec.BudgetUSD {
		return nil
	}
	return &Error{Provider: p.provider, Op: "budget", Kind: ErrBudget, Err: fmt.Errorf("the start of the pool costs $%.2f at least, and BudgetUSD is $%.2f", usd, p.spec.BudgetUSD)}
}

// startUSD is the least that nodes of an offer cost: one unit of billing, and the time
// to collect and to end.
func startUSD(o Offer, nodes int) float64 {
	m := machine{inst: Instance{Offer: o}}
	usd, _ := m.usd(m.from.Add(CollectTime))
	return usd * float64(nodes)
}

// buy launches as many of the nodes as the budget can pay for, and returns those that
// it has not launched.
func (p *pool) buy(o Offer, nodes []*poolNode) (left []*poolNode, err error) {
	if p.spec.BudgetUSD > 0 {
		select {
		case p.paying <- struct{}{}:
			defer func() { <-p.paying }()
		case <-p.ctx.Done():
			return nodes, p.interrupted(p.ctx.Err())
		}
	}
	n := len(nodes)
	var tooDear error
	for ; n > 0; n-- {
		why := p.affordable(o, n)
		if why == nil {
			break
		}
		tooDear = why
	}
	if n == 0 {
		return nodes, tooDear
	}
	left, err = p.launch(o, nodes[:n:n])
	return append(left, nodes[n:]...), errors.Join(err, tooDear)
}

// endTime is how long before a budget is spent the pool's end begins.
const endTime = 30 * time.Second

// budget ends the pool's tasks when what is left of the budget is what the
// nodes cost in CollectTime, and the pool just before it is spent.
func (p *pool) budget() {
	if !p.untilSpent(CollectTime) {
		return
	}
	err := &Error{Provider: p.provider, Op: "budget", Kind: ErrBudget,
		Err: fmt.Errorf("$%.2f of $%.2f are spent, and the rest is for collecting: the pool ends within %v", p.costUSD(), p.spec.BudgetUSD, CollectTime)}
	p.events.emit(Event{Kind: EventPool, State: "spent", Err: err})
	p.endWork(err)
	if p.untilSpent(endTime) {
		p.finish(&Error{Provider: p.provider, Op: "pool", Kind: ErrBudget, Err: fmt.Errorf("BudgetUSD was $%.2f", p.spec.BudgetUSD)})
	}
}

// untilSpent waits until the budget will be spent within ahead, and reports
// whether the pool has lived to see it.
func (p *pool) untilSpent(ahead time.Duration) bool {
	for {
		left := p.lasts() - ahead
		if left <= 0 {
			return true
		}
		// Nodes come and go: it looks again.
		if !sleep(p.ctx, min(left, 10*time.Second)) {
			return false
		}
	}
}

// lasts is how long the budget lasts with the machines that there are now, as far as
// a day ahead.
func (p *pool) lasts() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := now()
	enough := func(d time.Duration) bool { return p.costLocked(at.Add(d)) <= p.spec.BudgetUSD }
	low, high := time.Duration(0), 24*time.Hour
	if enough(high) {
		return high
	}
	for high-low > time.Millisecond {
		if d := low + (high-low)/2; enough(d) {
			low = d
		} else {
			high = d
		}
	}
	return low
}
