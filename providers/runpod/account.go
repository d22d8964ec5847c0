package runpod

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// An account's spending is asked for again after spendingFor.
const spendingFor = time.Minute

// A spending is GraphQL's report of an account's money. A missing value is nil.
type spending struct {
	ClientBalance     *float64 // USD
	CurrentSpendPerHr *float64
	SpendLimit        *float64 // USD an hour
}

// knownSpending is the last report.
type knownSpending struct {
	mu      sync.Mutex
	report  spending
	err     error
	askedAt time.Time
}

// ask asks for a report, unless the last one is younger than age.
func (k *knownSpending) ask(ctx context.Context, c *client, age time.Duration) (spending, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.askedAt) >= age {
		k.report, k.err = c.spending(ctx)
		if k.askedAt = time.Now(); ctx.Err() != nil {
			k.askedAt = time.Time{} // the answer is about this caller alone
		}
	}
	return k.report, k.err
}

// Balance returns the account's credit. RunPod rents nothing without enough of it for an hour.
func (a *api) Balance(ctx context.Context, _ driver.Offer) (driver.Balance, error) {
	now, err := a.spending.ask(ctx, a.client, 0)
	if err != nil || now.ClientBalance == nil {
		return driver.Balance{}, err
	}
	return driver.Balance{Known: true, USD: *now.ClientBalance, LeastHours: 1}, nil
}

// Quota returns how many machines the account's spend limit leaves room for.
func (a *api) Quota(ctx context.Context, offer driver.Offer) (driver.Quota, error) {
	now, err := a.spending.ask(ctx, a.client, spendingFor)
	hour, known := offer.HourlyUSD.USD()
	if err != nil || !known || hour <= 0 || now.SpendLimit == nil || *now.SpendLimit <= 0 || now.CurrentSpendPerHr == nil {
		return driver.Quota{}, err
	}
	left := max(*now.SpendLimit-*now.CurrentSpendPerHr, 0)
	return driver.Quota{Known: true, Machines: int(min(left/hour, 1e6)), Reason: fmt.Sprintf(
		"the account's spend limit at RunPod is %v an hour, of which %v are used; a machine costs %v", driver.USD(*now.SpendLimit), driver.USD(*now.CurrentSpendPerHr), driver.USD(hour))}, nil
}
