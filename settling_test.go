package gputrain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// What an unanswered create may have made is waited for once, by the driver or by the pool,
// and an event says so.
func TestOpenWaitsForListLagOnce(t *testing.T) {
	const lag = 30 * time.Second
	for _, driver := range []struct {
		name     string
		noTokens bool
		own      time.Duration // how much longer than the lag the driver looks
	}{{"looks by itself", true, 15 * time.Second}, {"asks again", false, 0}} {
		t.Run(driver.name, func(t *testing.T) {
			o := sim.Options{ListLag: lag, NoTokens: driver.noTokens, Offers: []gputrain.Offer{at("first", 1), at("second", 2)}}
			inCloud(t, o, func(t *testing.T, c *simCloud) {
				repeats := 5
				if driver.noTokens {
					repeats = 1
				}
				c.Inject(sim.Fault{Op: sim.OpLaunch, Nth: 1, Count: repeats, Kind: sim.ErrorBefore})
				p := c.pool(t, gputrain.Spec{})
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
				// The looks are up to five seconds apart.
				if took, most := again.Sub(failed), lag+driver.own+10*time.Second; took < lag || took > most {
					t.Errorf("the next create is %v after the failed one; want %v to %v", took, lag, most)
				}
				told := 0
				for _, e := range c.events() {
					if e.State != "settling" {
						continue
					}
					told++
					if e.Kind != gputrain.EventPool || e.Err == nil || !strings.Contains(e.Err.Error(), p.ID()+"-0 may have been made") || e.Until.Before(failed.Add(lag)) || e.Until.After(again) {
						t.Errorf("%+v", e)
					}
				}
				if told != 1 {
					t.Errorf("%d events of what is waited for", told)
				}
				c.end(t, p)
			})
		})
	}
}

// A driver that does not look leaves that to the pool, which finds what was made late.
func TestAPoolLooksWhereItsDriverDoesNot(t *testing.T) {
	inCloud(t, sim.Options{ListLag: 30 * time.Second, NoTokens: true}, func(t *testing.T, c *simCloud) {
		w := &wrapped{Provider: sim.Config{Cloud: c.Cloud}}
		lost := false
		w.launch = func(ctx context.Context, r gputrain.LaunchRequest, d gputrain.Driver) ([]gputrain.Instance, error) {
			got, err := d.Launch(ctx, r)
			if lost || err != nil {
				return got, err
			}
			lost = true
			return nil, &gputrain.Error{Provider: "sim", Op: "launch", Kind: gputrain.ErrUnavailable, Err: errors.New("EOF")}
		}
		p, err := gputrain.Open(t.Context(), w, gputrain.Spec{}, gputrain.WithStateDir(c.state), gputrain.WithEvents(c.tell))
		if err != nil {
			t.Fatal(err)
		}
		c.pools = append(c.pools, p)
		if c.launches() != 1 || c.count(gputrain.EventPool, "settling") != 1 {
			t.Errorf("%d machines, %d events", c.launches(), c.count(gputrain.EventPool, "settling"))
		}
		c.end(t, p)
	})
}
