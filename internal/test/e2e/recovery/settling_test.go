package recovery

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// The effect of an unanswered create is waited for once, by the driver or by the pool, and an event reports it.
func TestOpenWaitsForListLagOnce(t *testing.T) {
	const lag = 30 * time.Second
	for _, driver := range []struct {
		name     string
		noTokens bool
		own      time.Duration // how much longer than the lag the driver searches
	}{{"looks by itself", true, 15 * time.Second}, {"asks again", false, 0}} {
		t.Run(driver.name, func(t *testing.T) {
			o := sim.Options{ListLag: lag, NoTokens: driver.noTokens, Offers: []gputrain.Offer{e2etest.OfferAt("first", 1), e2etest.OfferAt("second", 2)}}
			e2etest.InCloud(t, o, func(t *testing.T, c *e2etest.SimCloud) {
				repeats := 5
				if driver.noTokens {
					repeats = 1
				}
				c.Inject(sim.Fault{Op: sim.OpLaunch, Nth: 1, Count: repeats, Kind: sim.ErrorBefore})
				p := c.Pool(t, gputrain.Spec{})
				if n := p.Nodes()[0]; n.Region != "second" {
					t.Errorf("it is in %s", n.Region)
				}
				var failed, again time.Time
				for _, call := range c.Log() {
					switch {
					case call.Op != sim.OpLaunch:
					case call.Fault == sim.ErrorBefore:
						failed = call.Time
					case again.IsZero():
						again = call.Time
					}
				}
				// The searches are up to five seconds apart.
				if took, most := again.Sub(failed), lag+driver.own+10*time.Second; took < lag || took > most {
					t.Errorf("the next create is %v after the failed one; want %v to %v", took, lag, most)
				}
				told := 0
				for _, e := range c.Events() {
					if e.State != "settling" {
						continue
					}
					told++
					if e.Kind != gputrain.EventWait || e.Err == nil || !strings.Contains(e.Err.Error(), p.ID()+"-0 may have been made") || e.Until.Before(failed.Add(lag)) || e.Until.After(again) {
						t.Errorf("%+v", e)
					}
				}
				if told != 1 {
					t.Errorf("%d events report the wait", told)
				}
				c.CloseAndCheck(t, p)
			})
		})
	}
}

// If the driver does not search, the pool does, and finds the machine that was created late.
func TestAPoolLooksWhereItsDriverDoesNot(t *testing.T) {
	e2etest.InCloud(t, sim.Options{ListLag: 30 * time.Second, NoTokens: true}, func(t *testing.T, c *e2etest.SimCloud) {
		w := &e2etest.Wrapped{Provider: sim.Config{Cloud: c.Cloud}}
		lost := false
		w.OnLaunch = func(ctx context.Context, r driver.Launch, d driver.Driver) ([]driver.Instance, error) {
			got, err := d.Launch(ctx, r)
			if lost || err != nil {
				return got, err
			}
			lost = true
			return nil, &gputrain.Error{Provider: "sim", Op: "launch", Kind: gputrain.ErrUnavailable, Err: errors.New("EOF")}
		}
		p, err := gputrain.Open(t.Context(), w, gputrain.Spec{}, gputrain.WithStateDir(c.State), gputrain.WithEvents(c.Tell))
		if err != nil {
			t.Fatal(err)
		}
		c.Pools = append(c.Pools, p)
		if c.CountLaunches() != 1 || c.CountEvents(gputrain.EventWait, "settling") != 1 {
			t.Errorf("%d machines, %d events", c.CountLaunches(), c.CountEvents(gputrain.EventWait, "settling"))
		}
		c.CloseAndCheck(t, p)
	})
}
