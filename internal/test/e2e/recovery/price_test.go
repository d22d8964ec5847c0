package recovery

import (
	"math"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// The price of a spot machine is followed: the cost is what was charged when, ten minutes' change at most aside.
func TestASpotPriceThatMoves(t *testing.T) {
	spot := e2etest.OfferAt("here", 1)
	spot.Spot = true
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{spot}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Allocation: gputrain.Spot})
		for _, usd := range []float64{4, 2, 0.5} {
			time.Sleep(2 * time.Hour)
			c.MovePrice("here", driver.USD(usd))
		}
		time.Sleep(time.Hour)
		const most = 10.0 / 60 * (3 + 2 + 1.5)
		got, billed := p.Cost(), c.BilledUSD("")
		if math.Abs(got.USD-billed) > most || got.HourlyUSD != 0.5 || billed != 14.5 {
			t.Errorf("it cost $%v and $%v an hour, and the cloud bills $%v", got.USD, got.HourlyUSD, billed)
		}
		if n := c.CountEvents(gputrain.EventCost, ""); n < 4 {
			t.Errorf("%d events", n)
		}
		c.CloseAndCheck(t, p)
	})
}

// A budget is kept by the prices of the moment.
func TestABudgetAndAPriceThatMoves(t *testing.T) {
	spot := e2etest.OfferAt("here", 1)
	spot.Spot = true
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{spot}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Allocation: gputrain.Spot, BudgetUSD: 6})
		time.AfterFunc(time.Hour, func() { c.MovePrice("here", driver.USD(5)) })
		begun := time.Now()
		_, err := p.Run(gputrain.Cmd("sleep", "10h"))
		if ended := time.Since(begun); err == nil || ended < time.Hour || ended > 2*time.Hour+10*time.Minute {
			t.Errorf("after %v: %v", ended, err)
		}
		if billed := c.BilledUSD(""); billed > 6.9 {
			t.Errorf("$%v are billed", billed)
		}
		p.Close()
	})
}
