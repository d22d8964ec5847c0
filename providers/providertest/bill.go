package providertest

import (
	"context"
	"math"
	"time"

	"github.com/gputrain/gputrain/internal/inventory"
	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

func billChecks() []check {
	needs := []string{"Metered", "Stall", "States"}
	// No time ends within slack of a minute, which is a unit of several clouds.
	return []check{
		{"the bill of a plain life", needs, func(c *trial) { c.billed(driver.InstanceRunning, 80*time.Second, 47*time.Minute+25*time.Second) }},
		{"the bill of an early end", needs, func(c *trial) { c.billed(driver.InstanceRunning, 80*time.Second, 3*time.Minute+25*time.Second) }},
		{"the bill of a failed boot", needs, func(c *trial) { c.billed(driver.InstanceFailed, 260*time.Second, 0) }},
		{"the bill of what is ended while it boots", needs[:2], func(c *trial) {
			provider, meter := c.h.Metered()
			c.h.Provider = provider
			c.h.Stall()
			c.life(StateCase{Vendor: "still booting", Set: func(string) {}}, meter, 2*time.Hour+20*time.Second, 0)
		}},
	}
}

const (
	// The bill and the meter may differ by a cent, and by slack of the machine's price: a pool sees at its next look what has
	// happened at the cloud.
	cent, slack = 0.01, 3 * time.Second
	// lookEvery is how often a pool asks about machines that boot. While nothing changes the check asks less often.
	lookEvery, seldom = time.Second, time.Minute
)

// billed compares what a pool says that it costs with the meter of the cloud, for a machine that boots for a time, comes to a
// state, and is there for another: at each end of these, once it is gone, and an hour later. Each of the vendor's words for that
// state has a machine of its own.
func (c *trial) billed(comes driver.InstanceState, boots, lasts time.Duration) {
	provider, meter := c.h.Metered()
	c.h.Provider = provider
	c.h.Stall()
	tried := false
	for _, at := range c.h.States() {
		if at.Want != comes {
			continue
		}
		tried = true
		c.life(at, meter, boots, lasts)
	}
	if !tried {
		c.Fatalf("none of Harness.States is %v: say why not in Harness.Without[%q]", comes, c.check)
	}
}

// life is one life of a machine: see billed.
func (c *trial) life(at StateCase, meter func() float64, boots, lasts time.Duration) {
	before := meter()
	p := c.newPool()
	dir, err := ledger.OpenDir(c.TempDir())
	if err != nil {
		c.Fatal(err)
	}
	inv := inventory.New(inventory.Account{Provider: c.name, Driver: p.Driver, Caps: p.caps}, p.info, unheard{})
	spending := inventory.NewSpending(inv, inventory.Budget{})
	if err := inv.Begin(dir, []byte("key")); err != nil {
		c.Fatal(err)
	}
	defer func() { _ = inv.Close(true) }()
	if err := inv.Prepare(c.Context()); err != nil {
		c.Fatalf("Driver.Prepare: %v", err)
	}
	launched, err := inv.Launch(c.Context(), p.dearest(), func() {})
	if err != nil || len(launched.Machines) != 1 {
		c.Fatalf("Driver.Launch: %+v, %v", launched, err)
	}
	var in driver.Instance
	for _, in = range launched.Machines {
	}
	hourly, known := in.Offer.HourlyUSD.USD()
	if !known {
		c.Fatalf("the price of %q is not known", in.Offer.InstanceType)
	}
	compare := func(when string) {
		c.Helper()
		cost, charged := spending.Cost().USD, meter()-before
		if math.Abs(cost-charged) > cent+hourly*slack.Hours() {
			c.Errorf("%s, which came to be %q: the pool says that it costs $%.4f, and the cloud charges $%.4f, at $%.4f an hour; the rule is Offer.Billing and Offer.BillingUnit",
				when, at.Vendor, cost, charged, hourly)
		}
	}
	watch := func(d time.Duration) {
		begun, until := time.Now(), time.Now().Add(d)
		for time.Now().Before(until) {
			found, _ := p.Describe(c.Context(), in.ID)
			spending.Seen(found)
			pause := lookEvery
			if time.Since(begun) > 5*lookEvery {
				pause = seldom
			}
			time.Sleep(min(pause, time.Until(until)))
		}
	}
	if least := time.Duration(3 * cent / hourly * float64(time.Hour)); boots < least { // what is wrong must be more than a cent
		boots = least.Truncate(time.Minute) + 80*time.Second
	}
	watch(boots)
	compare("while it boots")
	at.Set(in.ID)
	watch(max(lasts, 2*lookEvery))
	if lasts > 0 {
		compare("while it is there")
	}
	if err := inv.End(context.WithoutCancel(c.Context()), time.Hour, func() {}); err != nil {
		c.Errorf("the end of a machine: %v", err)
	}
	compare("once it is gone")
	time.Sleep(time.Hour)
	compare("an hour after it is gone")
}

// dearest returns a launch of one machine of the dearest offer, with which an error of a minute is more than a cent.
func (p *pool) dearest() driver.Launch {
	p.Helper()
	req, most := p.request(), 0.0
	for o, err := range p.Offers(p.Context(), p.h.Spec.Query()) {
		if err != nil {
			p.Fatalf("Driver.Offers: %v", err)
		}
		if usd, known := o.HourlyUSD.USD(); known && usd > most && o.Rejected == "" && o.Spot == req.Offer.Spot {
			req.Offer, most = o, usd
		}
	}
	return req
}

// unheard is an inventory.Reporter.
type unheard struct{}

func (unheard) Billed()                   {}
func (unheard) Trouble(string, error)     {}
func (unheard) Settling(error, time.Time) {}
func (unheard) Lost(error)                {}
