package providertest

import (
	"math"

	"github.com/gputrain/gputrain/providers/driver"
)

func accountChecks() []check {
	return []check{
		{"the account's money is known", []string{"Funds"}, accountFunds},
		{"the account's quota is known", []string{"Allow"}, accountQuota},
		{"a launch without money says so", []string{"Funds", "Account"}, launchUnpaid},
	}
}

func accountFunds(c *trial) {
	d := c.open()
	asks, ok := d.(driver.Balancer)
	if !ok {
		c.Fatalf("%T is no driver.Balancer, and the harness can set the account's money", d)
	}
	o := c.offers(d, c.h.Spec.Query())[0]
	for _, usd := range []float64{12.5, 0} {
		c.h.Funds(usd)
		b, err := asks.Balance(c.Context(), o)
		if err != nil || !b.Known || math.Abs(b.USD-usd) > 0.01 {
			c.Errorf("Balance returns %+v, %v, and the account has $%v", b, err, usd)
		}
	}
}

// The driver may keep its answer about quotas for a minute, so each number is asked by a driver of its own.
func accountQuota(c *trial) {
	for _, n := range []int{2, 0} {
		d := c.open()
		asks, ok := d.(driver.Quoter)
		if !ok {
			c.Fatalf("%T is no driver.Quoter, and the harness can set the account's quota", d)
		}
		o := c.offers(d, c.h.Spec.Query())[0]
		c.h.Allow(n)
		q, err := asks.Quota(c.Context(), o)
		if err != nil || !q.Known || q.Machines != n || q.Reason == "" {
			c.Errorf("Quota returns %+v, %v, and the account may have %d more", q, err, n)
		}
	}
}

func launchUnpaid(c *trial) {
	p := c.prepared()
	req := p.request()
	c.h.Funds(0)
	got, err := p.Launch(c.Context(), req)
	c.failure("Driver.Launch without money", err, driver.ErrBalance)
	p.holds("the account has no money", ids(got)...)
	if len(got) > 0 {
		c.Errorf("Driver.Launch returned %q although the account has no money", ids(got))
	}
}
