package recovery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// A machine that did not come up is avoided by later pools, until it is forgotten. What came up is known with its boot
// time.
func TestLaterPoolsAvoidAMachineThatFailed(t *testing.T) {
	cheap, dear := e2etest.OfferAt("cheap", 1), e2etest.OfferAt("dear", 2)
	cheap.Provider, cheap.Host, dear.Host = "sim", "m1", "m2"
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{cheap, dear}, BootTime: 40 * time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
		open := func(want string) {
			t.Helper()
			p := c.Pool(t, gputrain.Spec{})
			if got := p.Nodes()[0].Region; got != want {
				t.Errorf("it rents in %s, want %s", got, want)
			}
			c.CloseAndCheck(t, p)
		}
		c.Inject(sim.Fault{Op: sim.OpLaunch, Kind: sim.NeverUp, Nth: 1})
		open("dear")
		for range 2 {
			open("dear")
			time.Sleep(24 * time.Hour)
		}
		if err := gputrain.StateDir(c.State).ForgetFailures(cheap); err != nil {
			t.Error(err)
		}
		open("cheap")

		for _, trouble := range c.Events() {
			if trouble.State == "history" {
				t.Errorf("%v", trouble.Err)
			}
		}
	})
}

// A plan shows what failed, and how long the last machine took to boot.
func TestPlanShowsHistory(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	cheap, dear := e2etest.OfferAt("cheap", 1), e2etest.OfferAt("dear", 2)
	cheap.Host, dear.Host = "m1", "m2"
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{cheap, dear}, BootTime: 40 * time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
		c.State = "" // the default
		c.Inject(sim.Fault{Op: sim.OpLaunch, Kind: sim.NeverUp, Nth: 1})
		c.CloseAndCheck(t, c.Pool(t, gputrain.Spec{}))
		plan, err := gputrain.Plan(t.Context(), sim.Config{Cloud: c.Cloud}, gputrain.Spec{})
		if err != nil || len(plan) != 2 || plan[0].Offer.Region != "dear" {
			t.Fatalf("%+v, %v", plan, err)
		}
		if w := fmt.Sprint(plan[0].Warnings); !strings.Contains(w, "the last machine there took 4") {
			t.Errorf("dear: %s", w)
		}
		if w := fmt.Sprint(plan[1].Warnings); !strings.Contains(w, "a machine failed there lately (") || !strings.Contains(w, "not up within 10m") {
			t.Errorf("cheap: %s", w)
		}
	})
}

// A node whose machine vanishes, a preemption and a set-up of the user that fails are no machine's fault.
func TestWhatIsNoMachinesFault(t *testing.T) {
	only := e2etest.OfferAt("here", 1)
	only.Host = "m1"
	other := e2etest.OfferAt("there", 2)
	other.Host = "m2"
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{only, other}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{})
		c.Preempt(p.Nodes()[0].ID, 0)
		e2etest.WithinVirtualTime(t, "replaced", func() bool { n := p.Nodes()[0]; return n.State == gputrain.NodeReady && c.CountLaunches() == 2 })
		c.CloseAndCheck(t, p)
		p = c.Pool(t, gputrain.Spec{})
		if got := p.Nodes()[0].Region; got != "here" {
			t.Errorf("it avoids %s", "here")
		}
		c.CloseAndCheck(t, p)
	})
}
