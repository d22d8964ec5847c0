//go:build unix

package providertest

import (
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// Live does with a simulated cloud of real processes what it does with a real cloud.
func TestLiveOnASimulatedCloud(t *testing.T) {
	open := func(t *testing.T, o sim.Options) (*sim.Cloud, driver.Provider) {
		t.Setenv("XDG_STATE_HOME", t.TempDir())
		o.Dir = t.TempDir()
		c := sim.New(o)
		t.Cleanup(func() { c.Close() })
		return c, sim.Config{Cloud: c, Token: o.Token}
	}
	t.Run("rents and ends", func(t *testing.T) {
		c, p := open(t, sim.Options{})
		t.Setenv(liveVariable, "1.50")
		Live(t, p, gputrain.Spec{})
		if live := c.Live(); len(live) > 0 {
			t.Errorf("left: %v", live)
		}
		if n := len(c.Machines("")); n != 1 {
			t.Errorf("%d machines were rented", n)
		}
	})
	t.Run("too dear", func(t *testing.T) {
		c, p := open(t, sim.Options{Offers: []driver.Offer{{InstanceType: "dear", HourlyUSD: driver.USD(2)}, {InstanceType: "unknown"}}})
		if said := failing(t, func(w testing.TB) { live(w, p, gputrain.Spec{AllowUnknownPrice: true}, 1.5) }); !strings.Contains(said, "MaxHourlyUSD is $1.50") {
			t.Errorf("it says %s", said)
		}
		if n := len(c.Machines("")); n != 0 {
			t.Errorf("%d machines were rented", n)
		}
	})
	t.Run("no key", func(t *testing.T) {
		c := sim.New(sim.Options{Token: "sk-live"})
		defer c.Close()
		if said := failing(t, func(w testing.TB) { live(w, sim.Config{Cloud: c}, gputrain.Spec{}, 1) }); !strings.Contains(said, "Config.Token") {
			t.Errorf("it says %s", said)
		}
	})
	t.Run("leftover", func(t *testing.T) {
		c, p := open(t, sim.Options{})
		d, err := p.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.Prepare(t.Context(), driver.PoolInfo{ID: "left-behind", Owner: "host/1/2", AuthorizedKey: "ssh-ed25519 AAAA"}); err != nil {
			t.Fatal(err)
		}
		if said := failing(t, func(w testing.TB) { wantNothingLeft(w, d, "left-behind") }); !strings.Contains(said, "network") || !strings.Contains(said, "end it by hand") {
			t.Errorf("of %v it says %s", c.Live(), said)
		}
	})
}

// failing returns the failures of a test that must fail.
func failing(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	w := &witness{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { f(w) }) // in its own goroutine, which Fatal ends
	wg.Wait()
	return strings.Join(w.failures, "\n")
}
