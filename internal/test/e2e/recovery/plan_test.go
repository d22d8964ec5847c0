package recovery

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
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

func offered(region string, usd float64, spot bool, gpu accelerators.Accelerator) gputrain.Offer {
	o := e2etest.OfferAt(region, usd)
	o.Spot, o.Accelerator = spot, gpu
	return o
}

// A plan has the order in which Open rents, then the rejected offers with their reasons.
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
		e2etest.InCloud(t, sim.Options{Offers: offers}, func(t *testing.T, c *e2etest.SimCloud) {
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
			if p := c.Pool(t, spec); p.Nodes()[0].Region != good[0] {
				t.Errorf("%v: it rents in %s", allocation, p.Nodes()[0].Region)
			}
		})
	}
}

// Plan counts the traffic that the spec announces: a cheap machine with expensive traffic comes second.
func TestPlanCountsTraffic(t *testing.T) {
	dearTraffic, unknown := e2etest.OfferAt("dear traffic", 1), e2etest.OfferAt("unknown", 0)
	dearTraffic.IngressUSD, dearTraffic.EgressUSD = 0.01, 0.09
	unknown.HourlyUSD, unknown.IngressUSD = gputrain.Price{}, 0.001
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{dearTraffic, unknown, e2etest.OfferAt("none", 2)}}, func(t *testing.T, c *e2etest.SimCloud) {
		for want, spec := range map[string]gputrain.Spec{
			"dear traffic, none, unknown":  {IngressGiB: 10, EgressGiB: 9},
			"none, dear traffic, unknown":  {EgressGiB: 12},
			"none, dear traffic, unknown ": {IngressGiB: 101, MaxHourlyUSD: 2, AllowUnknownPrice: true}, // the limit does not count traffic
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

// Offers yields only offers in the regions that the spec allows. A region allows its zones too.
func TestOffersOfRegions(t *testing.T) {
	regions := []string{"us-central1-a", "US-Central1", "us-central10", "eu-west4-b", ""}
	var offers []gputrain.Offer
	for _, r := range regions {
		offers = append(offers, e2etest.OfferAt(r, 1))
	}
	e2etest.InCloud(t, sim.Options{Offers: offers}, func(t *testing.T, c *e2etest.SimCloud) {
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

// An asker counts the pages of offers that are read from a driver, and its closes.
type asker struct {
	sim.Config
	pages, closed *int
	failAt        int
}

type askerDriver struct {
	driver.Driver
	asker
}

func (a asker) Open(ctx context.Context) (driver.Driver, error) {
	d, err := a.Config.Open(ctx)
	return askerDriver{d, a}, err
}

var errPage = errors.New("the page is torn")

func (d askerDriver) Offers(context.Context, driver.Query) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		for *d.pages = 1; *d.pages <= 10; *d.pages++ {
			if *d.pages == d.failAt {
				yield(gputrain.Offer{}, errPage)
				return
			}
			if !yield(e2etest.OfferAt("here", 1), nil) {
				return
			}
		}
	}
}

func (d askerDriver) Close() error {
	*d.closed++
	return d.Driver.Close()
}

// Offers reads no more pages than the caller needs, and yields the provider's error.
func TestOffersAreLazy(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
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
