package recovery

import (
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// The spec of the usage program choose, on a simulated cloud whose stock comes after hours, whose price moves, and where a
// host fails: the next program avoids it.
func TestChoose(t *testing.T) {
	offer := func(id, country, host string, a accelerators.Accelerator, usd float64) gputrain.Offer {
		o := e2etest.OfferAt(id, usd)
		o.Country, o.Host, o.Accelerator, o.Spot = country, host, a, true
		return o
	}
	h100 := offer("h100", "US", "m1", accelerators.H100(), 3)
	a100 := offer("a100", "DE", "m2", accelerators.A100(accelerators.Count(2), accelerators.Memory(80)), 2.2)
	l40s := offer("l40s", "CA", "m3", accelerators.L40S(), 1)
	t4 := offer("t4", "US", "m4", accelerators.T4(), 0.2)
	far := offer("far", "JP", "m5", accelerators.H100(), 1)
	dear := offer("dear", "US", "m6", accelerators.H100(), 6)
	spec := gputrain.Spec{
		AnyOf: []accelerators.Accelerator{
			accelerators.H100(), accelerators.A100(accelerators.Count(2), accelerators.Memory(80)),
			accelerators.Any(accelerators.Memory(48), accelerators.Capability(8.9)),
		},
		Speed: map[string]float64{"H100": 2.4, "A100": 1}, Countries: []string{"US", "CA", "DE"}, Allocation: gputrain.Spot,
		WaitForCapacity: 6 * time.Hour, ProvisionTimeout: 20 * time.Minute, MaxHourlyUSD: 5, BudgetUSD: 100,
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{t4, far, dear}, BootTime: time.Minute}, func(t *testing.T, c *e2etest.SimCloud) {
		c.State = "" // where Plan looks, too
		time.AfterFunc(4*time.Hour, func() { c.SetOffers(t4, far, dear, l40s, a100, h100) })
		c.Inject(sim.Fault{Op: sim.OpLaunch, Kind: sim.NeverUp, Nth: 1}) // the best one

		begun := time.Now()
		p := c.Pool(t, spec)
		if waited := time.Since(begun); waited < 4*time.Hour+20*time.Minute || waited > 4*time.Hour+25*time.Minute {
			t.Errorf("it opened after %v", waited)
		}
		if n := p.Nodes()[0]; n.Region != "h100" { // a unit of work costs $1.10 on the two A100, which failed, and $1.25 on an H100
			t.Errorf("the first is %s", n.Region)
		}
		time.Sleep(time.Hour)
		c.MovePrice("h100", driver.USD(4.4))
		time.Sleep(time.Hour)
		if cost := p.Cost(); cost.HourlyUSD != 4.4 || cost.USD < 3+4.4*5/6 {
			t.Errorf("%+v", cost)
		}
		c.CloseAndCheck(t, p)

		plan, err := gputrain.Plan(t.Context(), sim.Config{Cloud: c.Cloud}, spec)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, o := range plan {
			order = append(order, o.Offer.Region)
			for region, why := range map[string]string{
				"t4": "has accelerator T4", "far": "is in JP; the spec allows the countries US, CA, DE", "dear": "costs $6.00 an hour; MaxHourlyUSD is $5.00",
			} {
				if o.Offer.Region == region && !strings.Contains(o.Rejected, why) {
					t.Errorf("%s: rejected since it %q, want %q", region, o.Rejected, why)
				}
			}
		}
		if got := strings.Join(order[:3], " "); got != "h100 l40s a100" {
			t.Errorf("the order is %s; the A100 have failed", got)
		}
		p = c.Pool(t, spec)
		if n := p.Nodes()[0]; n.Region != "h100" {
			t.Errorf("the next program rents %s", n.Region)
		}
		c.CloseAndCheck(t, p)
	})
}
