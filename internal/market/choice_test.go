package market_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

// A picky driver answers each query with the offers of its accelerator's name, or with an error.
type picky struct {
	shop
	byName map[string][]driver.Offer
	errs   map[string]error
	asked  []string
}

func (p *picky) Offers(_ context.Context, q driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		p.asked = append(p.asked, q.Accelerator.Name)
		for _, o := range p.byName[q.Accelerator.Name] {
			if !yield(o, nil) {
				return
			}
		}
		if err := p.errs[q.Accelerator.Name]; err != nil {
			yield(driver.Offer{}, err)
		}
	}
}

func with(a accelerators.Accelerator, o driver.Offer) driver.Offer {
	o.Accelerator = a
	return o
}

func places(plan []market.Candidate) string {
	var all []string
	for _, c := range plan {
		all = append(all, c.Offer.Region)
	}
	return strings.Join(all, " ")
}

// Each of the wanted accelerators is asked for, and an offer that answers several queries is listed once. What the
// driver refuses to search for is a source that is left out.
func TestAnyOf(t *testing.T) {
	h100, a100 := with(accelerators.H100(), at("h100", 3)), with(accelerators.A100(), at("a100", 1))
	rejected := a100
	rejected.Rejected = "is too slow for an H100"
	p := &picky{
		byName: map[string][]driver.Offer{"H100": {h100, rejected}, "A100": {a100}},
		errs:   map[string]error{"TPUv5e": &driver.Error{Provider: "acme", Op: "offers", Kind: driver.ErrNoOffers, Err: errors.New("it has no TPUs")}},
	}
	wants := market.Wants{AnyOf: []accelerators.Accelerator{accelerators.H100(), accelerators.A100(), accelerators.TPUv5e()}}
	m := market.New("acme", p, wants)
	plan, err := m.Plan(t.Context())
	if err != nil || places(plan) != "a100 h100 " || plan[0].Rejected+plan[1].Rejected != "" || !strings.Contains(plan[2].Rejected, "it has no TPUs") {
		t.Errorf("%+v, %v", plan, err)
	}
	if got := strings.Join(p.asked, " "); got != "H100 A100 TPUv5e" {
		t.Errorf("asked for %s", got)
	}
	for _, o := range []driver.Offer{h100, a100} {
		if q := wants.QueryOf(o); q.Accelerator.Name != o.Accelerator.Name {
			t.Errorf("the query of %v is for %v", o.Accelerator, q.Accelerator)
		}
	}
	p.errs["A100"] = &driver.Error{Provider: "acme", Op: "offers", Kind: driver.ErrAuth}
	if _, err := m.Plan(t.Context()); !errors.Is(err, driver.ErrAuth) {
		t.Errorf("with a wrong key: %v", err)
	}
}

// Offers are compared by the price of the work. The speed of the name that says the most counts, for each device.
func TestSpeed(t *testing.T) {
	s := &shop{offers: []driver.Offer{
		with(accelerators.A100(accelerators.Memory(40)), at("a100-40", 1)), with(accelerators.A100(accelerators.Memory(80)), at("a100-80", 1.2)),
		with(accelerators.H100(accelerators.Count(8)), at("h100x8", 16)), with(accelerators.T4(), at("t4", 0.1)),
	}}
	m := opened(s, market.Wants{Speed: map[string]float64{"A100": 1, "A100-80GB": 1.5, "H100": 4}})
	plan, err := m.Plan(t.Context())
	if err != nil || places(plan) != "h100x8 a100-80 a100-40 t4" {
		t.Errorf("%s, %v", places(plan), err)
	}
	for i, want := range []string{"$0.50", "$0.80", "$1.00", "unknown"} {
		if plan[i].WorkUSD.String() != want {
			t.Errorf("%s costs %v for a unit of work, want %s", plan[i].Offer.Region, plan[i].WorkUSD, want)
		}
	}
}

// If both are wanted, a spot machine that costs more than the same machine on demand is never rented.
func TestDearSpot(t *testing.T) {
	demand, spot := at("here", 1), at("here", 1.1)
	spot.Spot = true
	elsewhere := at("there", 2)
	elsewhere.Spot = true
	for allocation, want := range map[driver.Allocation]string{
		driver.SpotIfAvailable: "costs $1.10 an hour as spot, and $1.00 on demand", driver.CheapestAllocation: "", driver.Spot: "",
	} {
		plan, err := opened(&shop{offers: []driver.Offer{spot, elsewhere, demand}}, market.Wants{Query: driver.Query{Allocation: allocation}}).Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range plan {
			if c.Offer.Region == "here" && c.Offer.Spot && c.Rejected != want {
				t.Errorf("%v: rejected since it %s, want %q", allocation, c.Rejected, want)
			}
			if c.Offer.Region == "there" && c.Rejected != "" {
				t.Errorf("%v: %s", allocation, c.Rejected)
			}
		}
	}
}

func TestRejectedByTheDriver(t *testing.T) {
	o := at("here", 1)
	o.Rejected = "is sold out"
	m := opened(&shop{offers: []driver.Offer{o}}, market.Wants{})
	plan, err := m.Plan(t.Context())
	if err != nil || len(plan) != 1 || plan[0].Rejected != "is sold out" {
		t.Errorf("%+v, %v", plan, err)
	}
	if found, err := m.Candidates(t.Context()); err != nil || found.Offers != nil || !errors.Is(found.None, driver.ErrNoOffers) {
		t.Errorf("%+v, %v", found, err)
	}
}

// A bank is a shop that tells the money and the quota of its account.
type bank struct {
	shop
	money driver.Balance
	quota driver.Quota
	err   error
	asked int // how often for the money
}

func (b *bank) Balance(context.Context, driver.Offer) (driver.Balance, error) {
	b.asked++
	return b.money, b.err
}

func (b *bank) Quota(context.Context, driver.Offer) (driver.Quota, error) { return b.quota, b.err }

// An account without money or quota rents nothing. An account that does not answer may have both.
func TestAccount(t *testing.T) {
	known := driver.Balance{Known: true, USD: 5}
	adopted := driver.Capabilities{Adopts: true}
	for name, tt := range map[string]struct {
		bank bank
		kind error // nil: there are offers
		says string
	}{
		"nothing is told":    {bank{}, nil, ""},
		"enough":             {bank{money: known, quota: driver.Quota{Known: true, Machines: 2}}, nil, ""},
		"no money":           {bank{money: driver.Balance{Known: true}}, driver.ErrBalance, "the account has $0.00, and a launch needs more than $0.00; an hour of 2 of these machines costs $2.00"},
		"too little":         {bank{money: driver.Balance{Known: true, USD: 5, LeastUSD: 10}}, driver.ErrBalance, "the account has $5.00, and a launch needs $10.00"},
		"not for an hour":    {bank{money: driver.Balance{Known: true, USD: 0.9, LeastHours: 1}}, driver.ErrBalance, "the account has $0.90, and a launch needs $1.00"},
		"for half an hour":   {bank{money: driver.Balance{Known: true, USD: 0.9, LeastHours: 0.5}}, nil, ""},
		"no quota":           {bank{money: known, quota: driver.Quota{Known: true, Reason: "8 of 8 vCPUs are used"}}, driver.ErrQuota, "the account may have 0 more, and the spec asks for 2: 8 of 8 vCPUs are used"},
		"it may not ask":     {bank{err: &driver.Error{Kind: driver.ErrAuth}, money: driver.Balance{Known: true}, quota: driver.Quota{Known: true}}, nil, ""},
		"it rents nothing":   {bank{shop: shop{caps: adopted}, money: driver.Balance{Known: true}, quota: driver.Quota{Known: true}}, nil, ""},
		"it costs no longer": {bank{shop: shop{caps: driver.Capabilities{Free: true}}, money: driver.Balance{Known: true}}, nil, ""},
	} {
		b := tt.bank
		b.offers = []driver.Offer{at("here", 1)}
		m := market.New("acme", &b, market.Wants{Query: driver.Query{Nodes: 2}})
		found, err := m.Candidates(t.Context())
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.kind == nil && found.None != nil:
			t.Errorf("%s: %v", name, found.None)
		case tt.kind != nil && (!errors.Is(found.None, tt.kind) || !strings.Contains(found.None.Error(), tt.says)):
			t.Errorf("%s: %v; want %s", name, found.None, tt.says)
		}
		if plan, _ := m.Plan(t.Context()); len(plan) != 1 || !strings.Contains(plan[0].Rejected, tt.says) {
			t.Errorf("%s: the plan is %+v", name, plan)
		}
	}
}

// A quota that is too small for a pool limits the purchase, and is the reason if the pool needs more.
func TestSmallQuota(t *testing.T) {
	b := &bank{shop: shop{offers: []driver.Offer{at("here", 1)}}, quota: driver.Quota{Known: true, Machines: 1, Reason: "1 of 2 machines is used"}}
	m := market.New("acme", b, market.Wants{Query: driver.Query{Nodes: 2}})
	found, err := m.Candidates(t.Context())
	if err != nil || len(found.Offers) != 1 || found.Offers[0].Available != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	if err := m.HasRoom(found.Offers, 1); err != nil {
		t.Error(err)
	}
	if err := m.HasRoom(found.Offers, 2); !errors.Is(err, driver.ErrQuota) || !strings.Contains(err.Error(), "1 of 2 machines is used") {
		t.Errorf("%v", err)
	}
}

// The money is asked for once a minute.
func TestMoneyIsAskedForSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{shop: shop{offers: []driver.Offer{at("a", 1), at("b", 1)}}, money: driver.Balance{Known: true, USD: 1}}
		m := market.New("acme", b, market.Wants{})
		for range 3 {
			m.Candidates(t.Context())
		}
		time.Sleep(time.Minute)
		m.Candidates(t.Context())
		if b.asked != 2 {
			t.Errorf("asked %d times", b.asked)
		}
	})
}

// Members of a group have their own money: one without is left out.
func TestAccountsOfAGroup(t *testing.T) {
	poor := &bank{shop: shop{offers: []driver.Offer{at("poor", 1)}}, money: driver.Balance{Known: true}}
	rich := &bank{shop: shop{offers: []driver.Offer{at("rich", 2)}}, money: driver.Balance{Known: true, USD: 9}, quota: driver.Quota{Known: true, Machines: 3}}
	tellsNothing := &shop{offers: []driver.Offer{at("silent", 3)}}
	poor.caps.Account, rich.caps.Account = "poor", "rich"
	g := market.NewGroup("cheapest", []string{"acme", "acme", "other"}, []driver.Driver{poor, rich, tellsNothing})
	plan, err := market.New("cheapest", g, market.Wants{}).Plan(t.Context())
	if err != nil || places(plan) != "rich silent poor" || !strings.Contains(plan[2].Rejected, "the account has $0.00") {
		t.Errorf("%+v, %v", plan, err)
	}
}

// A scripted shop has machines that can end themselves.
type scripted struct{ shop }

func (s *scripted) Scripts(driver.Instance) driver.Scripts {
	return driver.Scripts{SelfDestruct: "halt"}
}

func TestWarnings(t *testing.T) {
	const noTags = "it gets none of Spec.Tags: the provider has no tags for them; without them the bill does not tell whose it is"
	secure := driver.Capabilities{HostKeys: driver.HostKeyInjected, PrivateNetwork: true, Ports: driver.PortsOfPool}
	with := func(change func(*driver.Capabilities)) driver.Capabilities {
		c := secure
		change(&c)
		return c
	}
	for name, tt := range map[string]struct {
		caps  driver.Capabilities
		wants market.Wants
		offer func(*driver.Offer)
		want  []string
	}{
		"none":              {secure, market.Wants{Query: driver.Query{Nodes: 2}}, nil, nil},
		"first contact":     {with(func(c *driver.Capabilities) { c.HostKeys = driver.HostKeyFirstContact }), market.Wants{}, nil, []string{"its host key is trusted at the first contact"}},
		"no network":        {with(func(c *driver.Capabilities) { c.PrivateNetwork = false }), market.Wants{Query: driver.Query{Nodes: 2}}, nil, []string{"its nodes have no private network: Train refuses a gang that would meet at public addresses, unless AllowPublicNetwork is set"}},
		"no firewall":       {with(func(c *driver.Capabilities) { c.Ports = driver.PortsUnknown }), market.Wants{Query: driver.Query{Nodes: 2}}, nil, []string{"no firewall is known that keeps strangers from a gang's ports, which ask for no password"}},
		"neighbours":        {with(func(c *driver.Capabilities) { c.Ports = driver.PortsOfNetwork }), market.Wants{Query: driver.Query{Nodes: 2}}, nil, []string{"what shares a network with its nodes reaches a gang's ports, which ask for no password"}},
		"one has no gang":   {with(func(c *driver.Capabilities) { c.Ports = driver.PortsUnknown }), market.Wants{Query: driver.Query{Nodes: 1}}, nil, nil},
		"one needs none":    {with(func(c *driver.Capabilities) { c.PrivateNetwork = false }), market.Wants{Query: driver.Query{Nodes: 1}}, nil, nil},
		"no price":          {secure, market.Wants{}, func(o *driver.Offer) { o.HourlyUSD = driver.Price{} }, []string{"its price is unknown"}},
		"no notice":         {secure, market.Wants{}, func(o *driver.Offer) { o.Spot = true }, []string{"it can be taken back without notice"}},
		"a notice":          {with(func(c *driver.Capabilities) { c.PreemptionNotice = time.Minute }), market.Wants{}, func(o *driver.Offer) { o.Spot = true }, nil},
		"slow":              {with(func(c *driver.Capabilities) { c.ProvisionTimeout = 20 * time.Minute }), market.Wants{}, nil, []string{"it may take up to 20m0s to boot"}},
		"the driver's":      {secure, market.Wants{}, func(o *driver.Offer) { o.Warnings = []string{"the contract ends at noon"} }, []string{"the contract ends at noon"}},
		"no tags":           {secure, market.Wants{Tags: true}, nil, []string{noTags}},
		"no tags at hosts":  {with(func(c *driver.Capabilities) { c.Adopts = true }), market.Wants{Tags: true}, nil, []string{noTags}},
		"tags":              {with(func(c *driver.Capabilities) { c.UserTags = true }), market.Wants{Tags: true}, nil, nil},
		"a pool's own tags": {with(func(c *driver.Capabilities) { c.Tags = true }), market.Wants{Tags: true}, nil, []string{noTags}},
		"nothing is rented": {with(func(c *driver.Capabilities) { c.Adopts = true }), market.Wants{}, func(o *driver.Offer) { o.HourlyUSD = driver.Price{} }, nil},
	} {
		o := at("here", 1)
		if tt.offer != nil {
			tt.offer(&o)
		}
		plan, err := market.New("acme", &scripted{shop{caps: tt.caps, offers: []driver.Offer{o}}}, tt.wants).Plan(t.Context())
		if err != nil || len(plan) != 1 || fmt.Sprint(plan[0].Warnings) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %+v, %v; want %q", name, plan, err, tt.want)
		}
	}
	plan, err := opened(&shop{caps: secure, offers: []driver.Offer{at("here", 1)}}, market.Wants{}).Plan(t.Context())
	if err != nil || !strings.Contains(fmt.Sprint(plan[0].Warnings), "cannot end itself") {
		t.Errorf("without a script: %+v, %v", plan, err)
	}
	poor := &bank{shop: shop{caps: with(func(c *driver.Capabilities) { c.Free = false }), offers: []driver.Offer{at("here", 1)}}, money: driver.Balance{Known: true, USD: 5}}
	plan, err = market.New("acme", poor, market.Wants{BudgetUSD: 20}).Plan(t.Context())
	if err != nil || !strings.Contains(fmt.Sprint(plan[0].Warnings), "the account has $5.00, and BudgetUSD is $20.00") {
		t.Errorf("with little money: %+v, %v", plan, err)
	}
}
