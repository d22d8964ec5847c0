package recovery

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

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
		gputrain.SpotIfAvailable: "cheap spot dear | small too dear", gputrain.CheapestAllocation: "cheap spot dear | small too dear",
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

// A torn is a provider whose driver fails in the middle of its offers.
type torn struct {
	sim.Config
	closed *int
}

type tornDriver struct {
	driver.Driver
	torn
}

func (p torn) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Config.Open(ctx)
	return tornDriver{d, p}, err
}

var errPage = errors.New("the page is torn")

func (d tornDriver) Offers(context.Context, driver.Query) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		if yield(e2etest.OfferAt("here", 1), nil) {
			yield(gputrain.Offer{}, errPage)
		}
	}
}

func (d tornDriver) Close() error {
	*d.closed++
	return d.Driver.Close()
}

// Plan returns the provider's error and not half a plan, and closes what it has opened.
func TestPlanFails(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		closed := 0
		plan, err := gputrain.Plan(t.Context(), torn{sim.Config{Cloud: c.Cloud}, &closed}, gputrain.Spec{})
		if !errors.Is(err, errPage) || plan != nil || closed != 1 {
			t.Errorf("a plan of %v, %v, closed %d times", plan, err, closed)
		}
	})
	if _, err := gputrain.Plan(t.Context(), nil, gputrain.Spec{}); !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("of no provider: %v", err)
	}
	if _, err := gputrain.Plan(t.Context(), sim.Config{}, gputrain.Spec{Nodes: -1}); !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("of a bad spec: %v", err)
	}
}

// If the provider does not answer, Plan shows what it last offered, and says how long ago. Open rents nothing by that.
func TestPlanOfEarlierOffers(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{e2etest.OfferAt("here", 1)}}, func(t *testing.T, c *e2etest.SimCloud) {
		ask := func(spec gputrain.Spec) ([]gputrain.Candidate, error) {
			return gputrain.Plan(t.Context(), sim.Config{Cloud: c.Cloud}, spec)
		}
		c.Inject(sim.Fault{Op: sim.OpOffers, Kind: sim.Unavailable})
		if plan, err := ask(gputrain.Spec{}); !errors.Is(err, gputrain.ErrUnavailable) || plan != nil {
			t.Errorf("before there was an answer: %+v, %v", plan, err)
		}
		c.Calm()
		fresh, err := ask(gputrain.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		c.Inject(sim.Fault{Op: sim.OpOffers, Kind: sim.Unavailable})
		time.Sleep(3 * time.Hour)
		plan, err := ask(gputrain.Spec{})
		if err != nil || len(plan) != 1 || plan[0].HourlyUSD != fresh[0].HourlyUSD || plan[0].Rejected != "" {
			t.Fatalf("%+v, %v; want %+v", plan, err, fresh)
		}
		if w := plan[0].Warnings[0]; !strings.Contains(w, "it was there 3h0m0s ago; the provider does not answer now: ") {
			t.Errorf("%q", w)
		}
		if plan, err := ask(gputrain.Spec{VCPUs: 1}); !errors.Is(err, gputrain.ErrUnavailable) {
			t.Errorf("to another question: %+v, %v", plan, err)
		}
		if _, err := c.Open(t, gputrain.Spec{}); !errors.Is(err, gputrain.ErrUnavailable) || c.CountLaunches() > 0 {
			t.Errorf("Open rents by it: %v", err)
		}
	})
}
