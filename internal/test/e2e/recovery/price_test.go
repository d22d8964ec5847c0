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

// Prices are whole after Attach, and in the list of pools: the parts, what a spot machine was charged before its price moved, and
// machines that are gone. So the budget is what it was, too.
func TestPricesAfterAttach(t *testing.T) {
	spot := e2etest.OfferAt("here", 1)
	spot.Spot, spot.Parts = true, []driver.PricePart{{Name: "machine", HourlyUSD: 0.75}, {Name: "disk", HourlyUSD: 0.25}}
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{spot}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2, Allocation: gputrain.Spot, BudgetUSD: 60})
		time.Sleep(2 * time.Hour)
		c.MovePrice("here", driver.USD(4))
		time.Sleep(time.Hour)
		if err := c.Vanish(p.Nodes()[1].ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		before := p.Cost()
		pools, err := gputrain.StateDir(c.State).Pools()
		if err != nil || len(pools) != 1 || math.Abs(pools[0].CostUSD-before.USD) > 1e-6 {
			t.Errorf("the list of pools has %+v, %v, and the pool cost $%v", pools, err, before.USD)
		}
		leave(t, p)
		p = reattach(t, c, p.ID())
		after := p.Cost()
		if before.USD < 18 || // 4 for two hours at the first price, and most of an hour or two more of two machines at the second
			len(before.Nodes) != 3 || math.Abs(after.USD-before.USD) > 0.01 || after.HourlyUSD != before.HourlyUSD || len(after.Nodes) != len(before.Nodes) || len(after.Parts) < 2 {
			t.Errorf("it cost %+v, and after Attach %+v", before, after)
		}
		for part, usd := range before.Parts {
			if math.Abs(after.Parts[part]-usd) > 0.01 {
				t.Errorf("the %s cost $%v, and after Attach $%v", part, usd, after.Parts[part])
			}
		}
		begun := time.Now()
		if _, err := p.Run(gputrain.Cmd("sleep", "100h")); err == nil {
			t.Error("the budget did not end it")
		}
		left := time.Duration((60 - before.USD) / 8 * float64(time.Hour))
		if ran := time.Since(begun); ran > left || ran < left-10*time.Minute {
			t.Errorf("the rest of the budget lasted %v, want %v", ran, left)
		}
		p.Close()
	})
}
