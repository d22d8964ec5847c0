package market

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// A balance is asked for again after balanceFor.
	balanceFor = time.Minute
	// Quotas are asked for the best quotaOffers offers only: others are seldom tried, and an API may
	// take a call for each.
	quotaOffers = 20
)

// A balance is the last answer about an account's money.
type balance struct {
	driver.Balance
	err     error
	askedAt time.Time
}

// limit rejects offers of accounts without money or quota, and lowers Available of those with little quota. It reports
// whether it has rejected any. The best offers come first. An account that does not answer limits nothing: a launch
// shows what it lacks.
func (m *Market) limit(ctx context.Context, all []weighedOffer) (rejected bool) {
	asked := 0
	for i := range all {
		w := &all[i]
		caps := m.caps.Of(w.offer)
		if w.why.reasons != nil || caps.Free || caps.Adopts {
			continue
		}
		if why := m.balanceShort(ctx, w.offer); why != "" {
			w.why.reasons, w.why.kind, rejected = []string{why}, driver.ErrBalance, true
			continue
		}
		if asked == quotaOffers {
			continue
		}
		asked++
		why := m.quotaShort(ctx, &w.offer)
		if why != "" {
			w.why.reasons, w.why.kind, rejected = []string{why}, driver.ErrQuota, true
		}
	}
	return rejected
}

// balance returns the money of the account of an offer, as it was at most balanceFor ago.
func (m *Market) balance(ctx context.Context, o driver.Offer) (balance, bool) {
	asks, ok := m.driver.(driver.Balancer)
	if !ok {
		return balance{}, false
	}
	m.mu.Lock()
	b, known := m.balances[o.Account]
	m.mu.Unlock()
	if !known || time.Since(b.askedAt) >= balanceFor {
		b = balance{askedAt: time.Now()}
		b.Balance, b.err = asks.Balance(ctx, o)
		m.mu.Lock()
		if m.balances == nil {
			m.balances = map[string]balance{}
		}
		m.balances[o.Account] = b
		m.mu.Unlock()
	}
	return b, b.err == nil && b.Known
}

// balanceShort returns why the account of an offer cannot pay for a machine, or "".
func (m *Market) balanceShort(ctx context.Context, o driver.Offer) string {
	b, known := m.balance(ctx, o)
	perHour, _ := o.HourlyUSD.USD()
	least := max(b.LeastUSD, b.LeastHours*perHour)
	if !known || b.USD > 0 && b.USD >= least {
		return ""
	}
	needs := "more than $0.00"
	if least > 0 {
		needs = driver.USD(least).String()
	}
	hour := ""
	if usd, known := m.wants.hourly(o).USD(); known {
		nodes := max(m.wants.Nodes, 1)
		hour = fmt.Sprintf("; an hour of %d of these machines costs %v", nodes, driver.USD(usd*float64(nodes)))
	}
	return fmt.Sprintf("the account has %v, and a launch needs %s%s", driver.USD(b.USD), needs, hour)
}

// quotaShort returns why the account may have no machine of an offer, or "". It lowers Available to what the account may have.
func (m *Market) quotaShort(ctx context.Context, o *driver.Offer) string {
	asks, ok := m.driver.(driver.Quoter)
	if !ok {
		return ""
	}
	key := offerKeyOf(*o)
	q, err := asks.Quota(ctx, *o)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.quotas, key)
	switch {
	case err != nil || !q.Known:
		return ""
	case q.Machines <= 0:
		return fmt.Sprintf("the account may have 0 more, and the spec asks for %d: %s", max(m.wants.Nodes, 1), q.Reason)
	case q.Machines < cmp.Or(o.Available, max(m.wants.Nodes, 1)):
		o.Available = q.Machines
		if m.quotas == nil {
			m.quotas = map[offerKey]string{}
		}
		m.quotas[key] = q.Reason
	}
	return ""
}

// quotasOf returns the reason of the first of these offers whose room a quota limits, or "".
func (m *Market) quotasOf(offers []driver.Offer) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range offers {
		if why := m.quotas[offerKeyOf(o)]; why != "" {
			return why
		}
	}
	return ""
}

// hintOf returns what a user can do about a kind of error.
func hintOf(kind error) string {
	switch kind {
	case driver.ErrBalance:
		return "add money to the account, or use another one"
	case driver.ErrQuota:
		return "ask the provider for a higher quota, end other machines of the account, or ask for fewer nodes"
	}
	return ""
}
