package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/sim"
)

func offered(region string, usd float64, spot bool, gpu accelerators.Accelerator) gputrain.Offer {
	o := at(region, usd)
	o.Spot, o.Accelerator = spot, gpu
	return o
}

// A plan is in the order in which Open rents, the rejected last and with their reasons.
func TestPlan(t *testing.T) {
	a100 := accelerators.A100(accelerators.Count(4))
	offers := []gputrain.Offer{
		offered("dear", 4, false, a100), offered("cheap", 2, false, a100), offered("spot", 3, true, a100),
		offered("small", 1, false, accelerators.T4()), offered("too dear", 9, false, a100),
	}
	spec := gputrain.Spec{Accelerator: a100, MaxHourlyUSD: 8}
	for allocation, want := range map[gputrain.Allocation]string{
		gputrain.OnDemand: "cheap dear | small spot too dear", gputrain.Spot: "spot | cheap dear small too dear",
		gputrain.SpotIfAvailable: "spot cheap dear | small too dear", gputrain.CheapestAllocation: "cheap spot dear | small too dear",
	} {
		inCloud(t, sim.Options{Offers: offers}, func(t *testing.T, c *simCloud) {
			spec.Allocation = allocation
			plan, err := gputrain.Plan(t.Context(), sim.Config{Cloud: c.Cloud}, spec)
			if err != nil {
				t.Fatal(err)
			}
			var good, bad []string
			for _, p := range plan {
				if p.Rejected == "" {
					good = append(good, p.Offer.Region)
				} else {
					bad = append(bad, p.Offer.Region)
				}
				if p.Offer.Region == "too dear" && !strings.Contains(p.Rejected, "MaxHourlyUSD") {
					t.Errorf("too dear is rejected since it %s", p.Rejected)
				}
			}
			slices.Sort(bad)
			if got := strings.Join(good, " ") + " | " + strings.Join(bad, " "); got != want {
				t.Errorf("%v: %s; want %s", allocation, got, want)
			}
			for o, err := range gputrain.Offers(t.Context(), sim.Config{Cloud: c.Cloud}, spec) {
				if err != nil || !slices.Contains(good, o.Region) {
					t.Errorf("%v: offers have %s, %v", allocation, o.Region, err)
				}
			}
			if p := c.pool(t, spec); p.Nodes()[0].Region != good[0] {
				t.Errorf("%v: it rents in %s", allocation, p.Nodes()[0].Region)
			}
		})
	}
}

// A region allows its zones, and no region whose name only begins as its does.
func TestRegions(t *testing.T) {
	regions := []string{"us-central1-a", "US-Central1", "us-central10", "eu-west4-b", ""}
	var offers []gputrain.Offer
	for _, r := range regions {
		offers = append(offers, at(r, 1))
	}
	inCloud(t, sim.Options{Offers: offers}, func(t *testing.T, c *simCloud) {
		for want, spec := range map[string]gputrain.Spec{
			"[us-central1-a US-Central1]": {Regions: []string{"us-central1"}}, "[us-central1-a eu-west4-b]": {Regions: []string{"us-central1-a", "eu-west4"}},
			fmt.Sprint(regions): {},
		} {
			var got []string
			for o, err := range gputrain.Offers(t.Context(), sim.Config{Cloud: c.Cloud}, spec) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, o.Region)
			}
			if fmt.Sprint(got) != want {
				t.Errorf("%v allows %v; want %v", spec.Regions, got, want)
			}
		}
	})
}

// An asker counts what is asked of a driver.
type asker struct {
	sim.Config
	pages, closed *int
	failAt        int
}

type askerDriver struct {
	gputrain.Driver
	asker
}

func (a asker) Open(ctx context.Context) (gputrain.Driver, error) {
	d, err := a.Config.Open(ctx)
	return askerDriver{d, a}, err
}

var errPage = errors.New("the page is torn")

func (d askerDriver) Offers(context.Context, gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		for *d.pages = 1; *d.pages <= 10; *d.pages++ {
			if *d.pages == d.failAt {
				yield(gputrain.Offer{}, errPage)
				return
			}
			if !yield(at("here", 1), nil) {
				return
			}
		}
	}
}

func (d askerDriver) Close() error {
	*d.closed++
	return d.Driver.Close()
}

// Offers asks for no more than is taken, and says where the provider fails.
func TestOffersAreLazy(t *testing.T) {
	inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
		a := asker{sim.Config{Cloud: c.Cloud}, new(int), new(int), 0}
		for range gputrain.Offers(t.Context(), a, gputrain.Spec{}) {
			break
		}
		if *a.pages != 1 || *a.closed != 1 {
			t.Errorf("%d pages, closed %d times", *a.pages, *a.closed)
		}
		a.failAt = 3
		n, last := 0, error(nil)
		for _, err := range gputrain.Offers(t.Context(), a, gputrain.Spec{}) {
			n, last = n+1, err
		}
		if n != 3 || !errors.Is(last, errPage) {
			t.Errorf("%d offers, then %v", n, last)
		}
		if plan, err := gputrain.Plan(t.Context(), a, gputrain.Spec{}); !errors.Is(err, errPage) || plan != nil {
			t.Errorf("a plan of %v, %v", plan, err)
		}
	})
	for _, err := range gputrain.Offers(t.Context(), nil, gputrain.Spec{}) {
		if !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("of no provider: %v", err)
		}
	}
	if _, err := gputrain.Plan(t.Context(), sim.Config{}, gputrain.Spec{Nodes: -1}); !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("of a bad spec: %v", err)
	}
}

// What a node moves has its price: a cheap machine with dear traffic comes second.
func TestPlanCountsTraffic(t *testing.T) {
	dearTraffic, unknown := at("dear traffic", 1), at("unknown", 0)
	dearTraffic.IngressUSD, dearTraffic.EgressUSD = 0.01, 0.09
	unknown.HourlyUSD, unknown.IngressUSD = gputrain.Price{}, 0.001
	inCloud(t, sim.Options{Offers: []gputrain.Offer{dearTraffic, unknown, at("none", 2)}}, func(t *testing.T, c *simCloud) {
		for want, spec := range map[string]gputrain.Spec{
			"dear traffic, none, unknown":  {IngressGiB: 10, EgressGiB: 9},
			"none, dear traffic, unknown":  {EgressGiB: 12},
			"none, dear traffic, unknown ": {IngressGiB: 101, MaxHourlyUSD: 2, AllowUnknownPrice: true}, // of which the limit knows nothing
		} {
			plan, err := gputrain.Plan(t.Context(), sim.Config{Cloud: c.Cloud}, spec)
			var got []string
			for _, p := range plan {
				got = append(got, p.Offer.Region)
				if p.Rejected != "" {
					t.Errorf("%s %s", p.Offer.Region, p.Rejected)
				}
			}
			if strings.Join(got, ", ") != strings.TrimSpace(want) || err != nil {
				t.Errorf("with %g in and %g out: %q, %v", spec.IngressGiB, spec.EgressGiB, got, err)
			}
		}
	})
}

// What is rejected comes the nearest first: the right accelerator that is too dear before
// others that are cheap. An error and a plan say all that is against an offer.
func TestTheNearestRejectionsComeFirst(t *testing.T) {
	h100 := accelerators.H100(accelerators.Count(8))
	var offers []gputrain.Offer
	for i := range 20 { // what a cloud lists first
		offers = append(offers, offered(fmt.Sprintf("cpu-%d", i), 0.1, false, accelerators.Accelerator{}))
	}
	offers = append(offers,
		offered("other", 1, false, accelerators.T4()), offered("few", 12, false, accelerators.H100(accelerators.Count(4))),
		offered("far-dear", 30, false, h100), offered("dear", 40, false, h100), offered("dear-spot", 35, true, h100))
	spec := gputrain.Spec{Accelerator: h100, MaxHourlyUSD: 20, Regions: []string{"dear", "few", "cpu", "other"}}
	inCloud(t, sim.Options{Offers: offers}, func(t *testing.T, c *simCloud) {
		plan, err := gputrain.Plan(t.Context(), sim.Config{Cloud: c.Cloud}, spec)
		if err != nil || len(plan) != len(offers) {
			t.Fatalf("%d of %d offers, %v", len(plan), len(offers), err)
		}
		var got []string
		for _, p := range plan[:6] {
			got = append(got, p.Offer.Region)
		}
		if want := "dear far-dear dear-spot few other cpu-0"; strings.Join(got, " ") != want {
			t.Errorf("%s; want %s", strings.Join(got, " "), want)
		}
		if want := "is in far-dear; the spec allows dear, few, cpu, other; and costs $30.00 an hour; MaxHourlyUSD is $20.00"; plan[1].Rejected != want {
			t.Errorf("%s; want %s", plan[1].Rejected, want)
		}
		_, err = c.open(t, spec)
		if !errors.Is(err, gputrain.ErrNoOffers) {
			t.Fatalf("%v", err)
		}
		text := err.Error()
		last := 0
		for _, s := range []string{"small in dear: costs $40.00 an hour; MaxHourlyUSD is $20.00", "small in far-dear", "small in dear-spot", "small in few", "small in other", "and 20 more"} {
			at := strings.Index(text, s)
			if at < last {
				t.Errorf("%q is not where it belongs in %s", s, text)
			}
			last = at
		}
	})
}
