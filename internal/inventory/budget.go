package inventory

import (
	"context"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// The pool's end begins endTime before the budget is spent.
const endTime = 30 * time.Second

// affordable reports why so many more nodes of an offer do not fit into the budget, at least
// for one unit of billing and the time to collect.
func (s *Spending) affordable(o driver.Offer, nodes int) error {
	limit := s.budget.USD
	if _, known := o.HourlyUSD.USD(); limit == 0 || !known {
		return nil
	}
	least := s.startUSD(o, nodes)
	if spent := s.usd(time.Now().Add(s.budget.Collect)); spent+least > limit {
		return s.refused("budget", fmt.Errorf("%d nodes of %s in %s cost %v at least, %v are spent, and BudgetUSD is %v", nodes, o.InstanceType, o.Region, driver.USD(least), driver.USD(spent), driver.USD(limit)))
	}
	return nil
}

// Affordable reports why the budget cannot pay for the start of so many nodes: of the first
// offers that have room for them.
func (s *Spending) Affordable(offers []driver.Offer, nodes int) error {
	if s.budget.USD == 0 {
		return nil
	}
	var usd float64
	for _, o := range offers {
		n := nodes
		if o.Available > 0 && !s.account.Caps.Of(o).Adopts {
			n = min(n, o.Available)
		}
		usd += s.startUSD(o, n)
		if nodes -= n; nodes == 0 {
			break
		}
	}
	if usd <= s.budget.USD {
		return nil
	}
	return s.refused("budget", fmt.Errorf("the start of the pool costs %v at least, and BudgetUSD is %v", driver.USD(usd), driver.USD(s.budget.USD)))
}

func (s *Spending) refused(op string, err error) error {
	return &driver.Error{Provider: s.account.Provider, Op: op, Kind: driver.ErrBudget, Err: err}
}

// startUSD is the least that nodes of an offer cost: one unit of billing, and the time to
// collect and to end.
func (s *Spending) startUSD(o driver.Offer, nodes int) float64 {
	at := time.Now()
	m := machine{inst: driver.Instance{Offer: o}, launched: at, began: at}
	usd, _ := m.usd(m.launched.Add(s.budget.Collect))
	return usd * float64(nodes)
}

// Reserve returns how many of so many nodes of an offer the budget can pay for, and, if that is
// not all, the reason. With a budget one launch runs at a time, as each must see what the
// others cost: done ends the caller's turn, and may be called whatever n is.
func (s *Spending) Reserve(ctx context.Context, o driver.Offer, nodes int) (n int, done func(), err error) {
	done = func() {}
	if s.budget.USD > 0 {
		select {
		case s.paying <- struct{}{}:
			done = func() { <-s.paying }
		case <-ctx.Done():
			return 0, done, context.Cause(ctx)
		}
	}
	for n = nodes; n > 0; n-- {
		why := s.affordable(o, n)
		if why == nil {
			break
		}
		err = why
	}
	return n, done, err
}

// Watch calls collect when what is left of the budget is what the machines cost in the time to
// collect, and end just before the budget is spent, each with the reason. It returns after
// that, or when ctx ends.
func (s *Spending) Watch(ctx context.Context, collect, end func(error)) {
	if !s.untilSpent(ctx, s.budget.Collect) {
		return
	}
	collect(s.refused("budget", fmt.Errorf("%v of %v are spent, and the rest is for collecting: the pool ends within %v", driver.USD(s.USD()), driver.USD(s.budget.USD), s.budget.Collect)))
	if s.untilSpent(ctx, endTime) {
		end(s.refused("pool", fmt.Errorf("BudgetUSD was %v", driver.USD(s.budget.USD))))
	}
}

// untilSpent waits until the budget will be spent within ahead. It reports whether that is so,
// rather than that ctx has ended.
func (s *Spending) untilSpent(ctx context.Context, ahead time.Duration) bool {
	for {
		left := s.lasts() - ahead
		if left <= 0 {
			return true
		}
		// Nodes come and go: it looks again.
		if !retry.Sleep(ctx, min(left, 10*time.Second)) {
			return false
		}
	}
}

// lasts is how long the budget lasts with the machines that there are now, as far as
// a day ahead.
func (s *Spending) lasts() time.Duration {
	at := time.Now()
	enough := func(d time.Duration) bool { return s.usd(at.Add(d)) <= s.budget.USD }
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
