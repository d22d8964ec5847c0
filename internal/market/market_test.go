package market_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestReject(t *testing.T) {
	adopts, resizes := driver.Capabilities{Adopts: true}, driver.Capabilities{DiskResizable: true}
	for name, tt := range map[string]struct {
		wants market.Wants
		offer func(*driver.Offer)
		why   string
	}{
		"nothing":      {market.Wants{}, nil, ""},
		"all is right": {market.Wants{Query: driver.Query{VCPUs: 2, MemoryGiB: 8, DiskGiB: 50, MaxHourlyUSD: 1, Regions: []string{"EU"}}, BudgetUSD: 1}, nil, ""},
		"vcpus":        {market.Wants{Query: driver.Query{VCPUs: 3}}, nil, "has 2 vCPUs; the spec asks for 3"},
		"memory":       {market.Wants{Query: driver.Query{MemoryGiB: 9.5}}, nil, "has 8.0 GiB of memory; the spec asks for 9.5"},
		"disk":         {market.Wants{Query: driver.Query{DiskGiB: 51}}, nil, "has 50.0 GiB of disk; the spec asks for 51"},
		"disk grows":   {market.Wants{Query: driver.Query{DiskGiB: 51}}, func(o *driver.Offer) { o.Capabilities = &resizes }, ""},
		"most vcpus":   {market.Wants{Query: driver.Query{MaxVCPUs: 1}}, nil, "has 2 vCPUs; the spec allows 1"},
		"most memory":  {market.Wants{Query: driver.Query{MaxMemoryGiB: 7.5}}, nil, "has 8.0 GiB of memory; the spec allows 7.5"},
		"most disk":    {market.Wants{Query: driver.Query{MaxDiskGiB: 49}}, nil, "has 50.0 GiB of disk; the spec allows 49"},
		"disk shrinks": {market.Wants{Query: driver.Query{MaxDiskGiB: 49}}, func(o *driver.Offer) { o.Capabilities = &resizes }, ""},
		"at the most":  {market.Wants{Query: driver.Query{MaxVCPUs: 2, MaxMemoryGiB: 8, MaxDiskGiB: 50, MinHourlyUSD: 1}}, nil, ""},
		"most unknown": {market.Wants{Query: driver.Query{MaxVCPUs: 1}}, func(o *driver.Offer) { o.VCPUs = 0 }, ""},
		"type":         {market.Wants{Query: driver.Query{InstanceTypes: []string{"a100.1", "a100.2"}}}, func(o *driver.Offer) { o.InstanceType = "a100.10" }, "is of instance type a100.10; the spec allows a100.1, a100.2"},
		"type in caps": {market.Wants{Query: driver.Query{InstanceTypes: []string{"t4.1", "a100.2"}}}, func(o *driver.Offer) { o.InstanceType = "A100.2" }, ""},
		"no type":      {market.Wants{Query: driver.Query{InstanceTypes: []string{"a100.1"}}}, func(o *driver.Offer) { o.InstanceType = "" }, "is of instance type unknown; the spec allows a100.1"},
		"cheap":        {market.Wants{Query: driver.Query{MinHourlyUSD: 1.5}}, nil, "costs $1.00 an hour; MinHourlyUSD is $1.50"},
		"cheap, or not known": {
			market.Wants{Query: driver.Query{MinHourlyUSD: 1}}, func(o *driver.Offer) { o.HourlyUSD = driver.Price{} },
			"its price is not known, and the spec has a MinHourlyUSD (AllowUnknownPrice takes it all the same)",
		},
		"unknown":   {market.Wants{Query: driver.Query{VCPUs: 3, Arch: "arm64"}}, func(o *driver.Offer) { o.VCPUs = 0 }, ""},
		"region":    {market.Wants{Query: driver.Query{Regions: []string{"north", "us-east-1"}}}, func(o *driver.Offer) { o.Region = "us-east-10" }, "is in us-east-10; the spec allows north, us-east-1"},
		"no region": {market.Wants{Query: driver.Query{Regions: []string{"north"}}}, func(o *driver.Offer) { o.Region = "" }, "is in no region that is known; the spec allows north"},
		"arch":      {market.Wants{Query: driver.Query{Arch: "arm64"}}, func(o *driver.Offer) { o.Arch = "amd64" }, "is amd64; the spec asks for arm64"},
		"price":     {market.Wants{Query: driver.Query{MaxHourlyUSD: 0.5}}, nil, "costs $1.00 an hour; MaxHourlyUSD is $0.50"},
		"no price": {
			market.Wants{Query: driver.Query{MaxHourlyUSD: 1}}, func(o *driver.Offer) { o.HourlyUSD = driver.Price{} },
			"its price is not known, and the spec has a MaxHourlyUSD (AllowUnknownPrice takes it all the same)",
		},
		"no price for a budget": {
			market.Wants{BudgetUSD: 1}, func(o *driver.Offer) { o.HourlyUSD = driver.Price{} },
			"its price is not known, and the spec has a BudgetUSD (AllowUnknownPrice takes it all the same)",
		},
		"no price is allowed": {market.Wants{Query: driver.Query{MaxHourlyUSD: 1, AllowUnknownPrice: true}}, func(o *driver.Offer) { o.HourlyUSD = driver.Price{} }, ""},
		"spot":                {market.Wants{}, func(o *driver.Offer) { o.Spot = true }, "is spot; the spec asks for on demand"},
		"on demand":           {market.Wants{Query: driver.Query{Allocation: driver.Spot}}, nil, "is on demand; the spec asks for spot"},
		"mounts":              {market.Wants{Query: driver.Query{Mounts: []driver.Mount{{Source: "/a", Target: "/b"}}}}, nil, "this provider has no mounts"},
		"host key":            {market.Wants{RequireKnownHostKey: true}, nil, market.UnknownHostKey},
		"known host key": {
			market.Wants{RequireKnownHostKey: true}, func(o *driver.Offer) { o.Capabilities = &driver.Capabilities{HostKeys: driver.HostKeyInjected} }, "",
		},
		"no accelerator": {market.Wants{Query: driver.Query{Accelerator: accelerators.T4()}}, nil, "has no accelerator; the spec asks for T4"},
		"accelerator": {
			market.Wants{Query: driver.Query{Accelerator: accelerators.T4()}}, func(o *driver.Offer) { o.Accelerator = accelerators.H100() },
			"has accelerator H100; the spec asks for T4",
		},
		"more devices": {
			market.Wants{Query: driver.Query{Accelerator: accelerators.H100()}}, func(o *driver.Offer) { o.Accelerator = accelerators.H100(accelerators.Count(8)) },
			"has accelerator H100:8; the spec asks for H100",
		},
		"more devices will do": {
			market.Wants{Query: driver.Query{Accelerator: accelerators.H100(accelerators.AtLeast(2))}}, func(o *driver.Offer) { o.Accelerator = accelerators.H100(accelerators.Count(8)) }, "",
		},
		"any device": {
			market.Wants{Query: driver.Query{Accelerator: accelerators.Any(accelerators.Memory(48))}}, func(o *driver.Offer) { o.Accelerator = accelerators.H100() }, "",
		},
		"too small a device": {
			market.Wants{Query: driver.Query{Accelerator: accelerators.Any(accelerators.Memory(48))}}, func(o *driver.Offer) { o.Accelerator = accelerators.T4() },
			"has accelerator T4; the spec asks for any-48GB",
		},
		"adopted":     {market.Wants{Query: driver.Query{Accelerator: accelerators.T4()}}, func(o *driver.Offer) { o.Capabilities = &adopts }, ""},
		"all reasons": {market.Wants{Query: driver.Query{VCPUs: 3, Allocation: driver.Spot}}, nil, "has 2 vCPUs; the spec asks for 3; and is on demand; the spec asks for spot"},
	} {
		t.Run(name, func(t *testing.T) {
			o := at("eu-1", 1)
			if tt.offer != nil {
				tt.offer(&o)
			}
			m := opened(&shop{offers: []driver.Offer{o}}, tt.wants)
			plan, err := m.Plan(t.Context())
			if err != nil || len(plan) != 1 || plan[0].Rejected != tt.why {
				t.Errorf("%+v, %v; want rejected since it %s", plan, err, tt.why)
			}
			found, err := m.Candidates(t.Context())
			if err != nil || (len(found.Offers) == 1) != (tt.why == "") || (found.None == nil) != (tt.why == "") {
				t.Errorf("%+v, %v", found, err)
			}
			if tt.why != "" && (!errors.Is(found.None, driver.ErrNoOffers) || !strings.Contains(found.None.Error(), tt.why)) {
				t.Errorf("%v", found.None)
			}
		})
	}
}

// A region includes its zones, but not regions whose names merely begin with its name. A country includes its regions.
func TestRegions(t *testing.T) {
	all := []driver.Offer{at("us-central1-a", 1), at("US-Central1", 1), at("us-central10", 1), at("eu-west4-b", 1), at("us-east-1a", 1), at("Oregon, US", 1), at("", 1)}
	all[0].Country, all[5].Country = "US", "US"
	for name, tt := range map[string]struct {
		query driver.Query
		want  []string
	}{
		"a region":               {driver.Query{Regions: []string{"us-central1"}}, []string{"us-central1-a", "US-Central1"}},
		"a zone and a region":    {driver.Query{Regions: []string{"us-central1-a", "eu-west4"}}, []string{"us-central1-a", "eu-west4-b"}},
		"a zone that is letter":  {driver.Query{Regions: []string{"us-east-1"}}, []string{"us-east-1a"}},
		"a country as a region":  {driver.Query{Regions: []string{"us"}}, []string{"us-central1-a", "us-central10", "US-Central1", "us-east-1a", "Oregon, US"}},
		"a country":              {driver.Query{Countries: []string{"us"}}, []string{"us-central1-a", "Oregon, US"}},
		"a country and a region": {driver.Query{Countries: []string{"US"}, Regions: []string{"us-central1"}}, []string{"us-central1-a"}},
		"anywhere":               {driver.Query{}, regions(all)},
	} {
		found, err := opened(&shop{offers: all}, market.Wants{Query: tt.query}).Candidates(t.Context())
		got := regions(found.Offers)
		slices.Sort(got)
		slices.Sort(tt.want)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tt.want)
		}
	}
}

// The driver's error is passed on.
func TestErrorOfTheDriver(t *testing.T) {
	s := &shop{offers: []driver.Offer{at("a", 1), at("b", 2)}, err: errors.New("the page is torn")}
	m := opened(s, market.Wants{})
	if plan, err := m.Plan(t.Context()); plan != nil || err != s.err {
		t.Errorf("a plan of %v, %v", plan, err)
	}
	if found, err := m.Candidates(t.Context()); found.Offers != nil || err != s.err {
		t.Errorf("candidates %v, %v", found, err)
	}
}

func TestRank(t *testing.T) {
	spot := at("spot", 3)
	spot.Spot = true
	unknown := at("unknown", 0)
	unknown.HourlyUSD = driver.Price{}
	tier := at("tier", 0.5)
	tier.Tier = 1
	offers := []driver.Offer{tier, unknown, at("dear", 4), spot, at("same", 2), at("cheap", 2)}
	for allocation, want := range map[driver.Allocation]string{
		driver.OnDemand: "same cheap dear unknown tier", driver.Spot: "spot",
		driver.SpotIfAvailable: "same cheap spot dear unknown tier", driver.CheapestAllocation: "same cheap spot dear unknown tier",
	} {
		m := opened(&shop{offers: offers}, market.Wants{Query: driver.Query{Allocation: allocation}})
		found, err := m.Candidates(t.Context())
		if got := strings.Join(regions(found.Offers), " "); got != want || err != nil {
			t.Errorf("%v: %s, %v; want %s", allocation, got, err, want)
		}
		plan, err := m.Plan(t.Context())
		for i, region := range regions(found.Offers) {
			if plan[i].Offer.Region != region || plan[i].Rejected != "" || err != nil {
				t.Errorf("%v: the plan has %+v at %d, %v", allocation, plan[i], i, err)
			}
		}
	}
}

// Traffic counts in the order: a cheap machine with expensive traffic comes second.
func TestRankCountsTraffic(t *testing.T) {
	dearTraffic, unknown := at("dear traffic", 1), at("unknown", 0)
	dearTraffic.IngressUSD, dearTraffic.EgressUSD = 0.01, 0.09
	unknown.HourlyUSD, unknown.IngressUSD = driver.Price{}, 0.001
	offers := []driver.Offer{dearTraffic, unknown, at("none", 2)}
	for want, q := range map[string]driver.Query{
		"dear traffic, none, unknown":  {IngressGiB: 10, EgressGiB: 9},
		"none, dear traffic, unknown":  {EgressGiB: 12},
		"none, dear traffic, unknown ": {IngressGiB: 101, MaxHourlyUSD: 2, AllowUnknownPrice: true}, // the limit does not count traffic
	} {
		found, err := opened(&shop{offers: offers}, market.Wants{Query: q}).Candidates(t.Context())
		if got := strings.Join(regions(found.Offers), ", "); got != strings.TrimSpace(want) || err != nil {
			t.Errorf("with %g in and %g out: %q, %v", q.IngressGiB, q.EgressGiB, got, err)
		}
	}
}

// The nearest rejection comes first: the right accelerator at too high a price precedes cheap
// others. An error and a plan give all reasons.
func TestTheNearestRejectionsComeFirst(t *testing.T) {
	h100 := accelerators.H100(accelerators.Count(8))
	with := func(region string, usd float64, spot bool, gpu accelerators.Accelerator) driver.Offer {
		o := at(region, usd)
		o.Spot, o.Accelerator = spot, gpu
		return o
	}
	var offers []driver.Offer
	for i := range 20 { // the cloud lists these first
		offers = append(offers, with(fmt.Sprintf("cpu-%d", i), 0.1, false, accelerators.Accelerator{}))
	}
	offers = append(offers,
		with("other", 1, false, accelerators.T4()), with("few", 12, false, accelerators.H100(accelerators.Count(4))),
		with("far-dear", 30, false, h100), with("dear", 40, false, h100), with("dear-spot", 35, true, h100))
	m := opened(&shop{offers: offers}, market.Wants{Query: driver.Query{Accelerator: h100, MaxHourlyUSD: 20, Regions: []string{"dear", "few", "cpu", "other"}}})
	plan, err := m.Plan(t.Context())
	if err != nil || len(plan) != len(offers) {
		t.Fatalf("%d of %d offers, %v", len(plan), len(offers), err)
	}
	var got []string
	for _, c := range plan[:6] {
		got = append(got, c.Offer.Region)
	}
	if want := "dear far-dear dear-spot few other cpu-0"; strings.Join(got, " ") != want {
		t.Errorf("%s; want %s", strings.Join(got, " "), want)
	}
	if want := "is in far-dear; the spec allows dear, few, cpu, other; and costs $30.00 an hour; MaxHourlyUSD is $20.00"; plan[1].Rejected != want {
		t.Errorf("%s; want %s", plan[1].Rejected, want)
	}
	found, err := m.Candidates(t.Context())
	if err != nil || !errors.Is(found.None, driver.ErrNoOffers) {
		t.Fatalf("%v, %v", found.None, err)
	}
	text, last := found.None.Error(), 0
	for _, s := range []string{"small in dear: costs $40.00 an hour; MaxHourlyUSD is $20.00", "small in far-dear", "small in dear-spot", "small in few", "small in other", "and 20 more"} {
		at := strings.Index(text, s)
		if at < last {
			t.Errorf("%q is not where it belongs in %s", s, text)
		}
		last = at
	}
}

// A rejection has words, whatever a driver's are.
func TestRejectionsHaveWords(t *testing.T) {
	for why, want := range map[string]string{"": "", " \t": "it is refused without a reason", "it is closed": "it is closed"} {
		o := at("here", 1)
		o.Rejected = why
		plan, err := opened(&shop{offers: []driver.Offer{o}}, market.Wants{}).Plan(t.Context())
		if err != nil || len(plan) != 1 || plan[0].Rejected != want {
			t.Errorf("%q: %+v, %v", why, plan, err)
		}
	}
}

func TestNoOffers(t *testing.T) {
	out := &driver.PartialError{Sources: []driver.SourceError{{Provider: "b", Err: &driver.Error{Kind: driver.ErrAuth, Err: errors.New("no key")}}}}
	later := &driver.PartialError{Sources: append(slices.Clone(out.Sources), driver.SourceError{Provider: "c", Err: &driver.Error{Kind: driver.ErrUnavailable, Err: errors.New("503")}})}
	member := at("eu", 9)
	member.Provider, member.Account = "b", "b.123456"
	for name, tt := range map[string]struct {
		shop *shop
		kind error
		text string
	}{
		"nothing":           {&shop{}, driver.ErrNoOffers, "acme: no offers: the provider offers nothing now"},
		"some cannot":       {&shop{err: out}, driver.ErrNoOffers, "acme: no offers: the provider offers nothing now; not authorized: no key"},
		"some may later":    {&shop{err: later}, driver.ErrUnavailable, "the provider offers nothing now; "},
		"another's account": {&shop{offers: []driver.Offer{member}}, driver.ErrNoOffers, ": b small in eu: costs $9.00"},
	} {
		found, err := opened(tt.shop, market.Wants{Query: driver.Query{MaxHourlyUSD: 1}}).Candidates(t.Context())
		if err != nil || !errors.Is(found.None, tt.kind) || !strings.Contains(found.None.Error(), tt.text) {
			t.Errorf("%s: %v, %v; want %s", name, found.None, err, tt.text)
		}
		if tt.kind == driver.ErrUnavailable && errors.Is(found.None, driver.ErrNoOffers) {
			t.Errorf("%s: %v", name, found.None)
		}
		if some, ok := tt.shop.err.(*driver.PartialError); ok && len(found.Out) != len(some.Sources) {
			t.Errorf("%s: left out %v", name, found.Out)
		}
	}
	plan, err := opened(&shop{offers: []driver.Offer{at("eu", 9)}, err: out}, market.Wants{Query: driver.Query{MaxHourlyUSD: 1}}).Plan(t.Context())
	if err != nil || len(plan) != 2 || plan[1].Offer.Provider != "b" || !strings.HasPrefix(plan[1].Rejected, "could not be asked: ") {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
}

// A placer has its offers only for queries that allow their places, as clouds do.
type placer struct {
	shop
	broken bool // it answers no query that allows all places
}

func (p *placer) Offers(ctx context.Context, q driver.Query) iter.Seq2[driver.Offer, error] {
	if p.broken && len(q.Regions)+len(q.Countries) == 0 {
		return (&shop{err: errors.New("503")}).Offers(ctx, q)
	}
	inside := shop{offers: slices.DeleteFunc(slices.Clone(p.offers), func(o driver.Offer) bool { return !q.Allows(o.Region, o.Country) })}
	return inside.Offers(ctx, q)
}

// A provider that has offers, but none where the spec allows them, says where they are.
func TestNoOffersInThePlace(t *testing.T) {
	there := at("us-east", 1)
	there.Country = "US"
	unknown := at("", 1)
	for name, tt := range map[string]struct {
		shop   placer
		query  driver.Query
		text   string
		places int // in the plan
	}{
		"a region":             {placer{shop: shop{offers: []driver.Offer{there}}}, driver.Query{Regions: []string{"eu"}}, "no offers: small in us-east: is in us-east; the spec allows eu", 1},
		"a country":            {placer{shop: shop{offers: []driver.Offer{there}}}, driver.Query{Countries: []string{"DE", "FR"}}, "is in US; the spec allows the countries DE, FR", 1},
		"both":                 {placer{shop: shop{offers: []driver.Offer{there}}}, driver.Query{Regions: []string{"us-east"}, Countries: []string{"DE"}}, "the spec allows the countries DE", 1},
		"a country as region":  {placer{shop: shop{offers: []driver.Offer{there}}}, driver.Query{Regions: []string{"DE"}}, "is in us-east; the spec allows DE", 1},
		"an unknown place":     {placer{shop: shop{offers: []driver.Offer{unknown}}}, driver.Query{Countries: []string{"DE"}}, "is in no country that is known; the spec allows the countries DE", 1},
		"nothing anywhere":     {placer{}, driver.Query{Regions: []string{"eu"}, Countries: []string{"DE"}}, "no offers: the provider offers nothing now in eu, DE", 0},
		"elsewhere no answer":  {placer{broken: true}, driver.Query{Regions: []string{"eu"}}, "no offers: the provider offers nothing now in eu", 0},
		"no place is asked of": {placer{}, driver.Query{}, "no offers: the provider offers nothing now", 0},
	} {
		m := market.New("acme", &tt.shop, market.Wants{Query: tt.query})
		found, err := m.Candidates(t.Context())
		if err != nil || len(found.Offers) != 0 || !errors.Is(found.None, driver.ErrNoOffers) || !strings.HasSuffix(found.None.Error(), tt.text) {
			t.Errorf("%s: %+v, %v; want %s", name, found, err, tt.text)
		}
		plan, err := m.Plan(t.Context())
		if err != nil || len(plan) != tt.places || slices.ContainsFunc(plan, func(c market.Candidate) bool { return c.Rejected == "" }) {
			t.Errorf("%s: the plan is %+v, %v; want %d rejected offers", name, plan, err, tt.places)
		}
	}
}

// An offer whose machine failed comes last for ten minutes. If it would be the same machine each
// time, it is left out.
func TestAvoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := opened(&shop{offers: []driver.Offer{at("a", 1), at("b", 2), at("c", 3)}}, market.Wants{})
		want := func(regs ...string) {
			t.Helper()
			found, err := m.Candidates(t.Context())
			if got := regions(found.Offers); !slices.Equal(got, regs) || err != nil {
				t.Errorf("%v, %v; want %v", got, err, regs)
			}
		}
		m.Avoid(at("a", 1), nil)
		want("b", "c", "a")
		time.Sleep(5 * time.Minute)
		m.Avoid(at("b", 9), nil) // at any price
		want("c", "a", "b")
		time.Sleep(5 * time.Minute)
		want("a", "c", "b")
		time.Sleep(5 * time.Minute)
		want("a", "b", "c")
		refused := errors.New("its login is refused")
		m.Avoid(at("a", 1), refused)
		want("b", "c")
		m.Avoid(at("b", 1), refused)
		m.Avoid(at("c", 1), refused)
		want()
		found, _ := m.Candidates(t.Context())
		if !errors.Is(found.None, driver.ErrNoOffers) || !strings.Contains(found.None.Error(), "small in a: its login is refused; small in b: its login is refused") {
			t.Errorf("%v", found.None)
		}
		time.Sleep(10 * time.Minute)
		want("a", "b", "c")
	})
}

// An offer of a queue in which a machine has waited for as long as it may stands for all offers of that queue, and for no other's.
func TestAvoidQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shop{caps: driver.Capabilities{Queues: true}, offers: []driver.Offer{at("gpu", 1), at("gpu-long", 2), at("cloud", 3)}}
		s.offers[2].Provider = "other"
		m := opened(s, market.Wants{})
		want := func(regs ...string) {
			t.Helper()
			found, err := m.Candidates(t.Context())
			if got := regions(found.Offers); !slices.Equal(got, regs) || err != nil {
				t.Errorf("%v, %v; want %v", got, err, regs)
			}
		}
		m.Avoid(at("gpu", 1), nil) // a node of it failed
		want("gpu-long", "cloud", "gpu")
		m.Avoid(at("gpu", 1), errors.New("it has waited in the queue"))
		want("cloud")
		time.Sleep(10 * time.Minute)
		want("gpu", "gpu-long", "cloud")
	})
}

func TestHasRoom(t *testing.T) {
	some := func(n int) driver.Offer { o := at("a", 1); o.Available = n; return o }
	m := opened(&shop{}, market.Wants{})
	for _, tt := range []struct {
		offers []driver.Offer
		nodes  int
		ok     bool
	}{
		{nil, 0, true}, {nil, 1, false}, {[]driver.Offer{some(2), some(1)}, 3, true}, {[]driver.Offer{some(2), some(1)}, 4, false}, {[]driver.Offer{some(1), some(0)}, 9, true},
	} {
		if err := m.HasRoom(tt.offers, tt.nodes); (err == nil) != tt.ok || err != nil && !errors.Is(err, driver.ErrNoCapacity) {
			t.Errorf("%d offers for %d nodes: %v", len(tt.offers), tt.nodes, err)
		}
	}
	if err := opened(&shop{caps: driver.Capabilities{Adopts: true}}, market.Wants{}).HasRoom(nil, 1); !strings.Contains(err.Error(), "0 machines are there to adopt, and the spec asks for 1; name more") {
		t.Errorf("%v", err)
	}
}

func TestOverpriced(t *testing.T) {
	m := opened(&shop{}, market.Wants{Query: driver.Query{MaxHourlyUSD: 2}})
	if err := m.Overpriced(at("a", 2)); err != nil {
		t.Error(err)
	}
	err := m.Overpriced(at("a", 3))
	if want := "acme: launch: no offers: it was ended at once: small in a, as launched, costs $3.00 an hour; MaxHourlyUSD is $2.00"; !errors.Is(err, market.ErrOverpriced) || !errors.Is(err, driver.ErrNoOffers) || !strings.HasSuffix(err.Error(), want[len("acme: launch: no offers"):]) {
		t.Errorf("%v; want %s", err, want)
	}
}
