package gputrain_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// exampleCloud is an account at a cloud that rents one kind of machine.
func exampleCloud(account, region string, usd float64) sim.Config {
	cloud := sim.New(sim.Options{Offers: []gputrain.Offer{{InstanceType: "small", Region: region, HourlyUSD: driver.USD(usd)}}})
	return sim.Config{Cloud: cloud, Account: account}
}

func ExampleCheapest() {
	clouds := gputrain.Cheapest(exampleCloud("one", "north", 3), exampleCloud("two", "south", 2))
	plan, err := gputrain.Plan(context.Background(), clouds, gputrain.Spec{MaxHourlyUSD: 5})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.Region, c.Offer.HourlyUSD)
	}
	// Output:
	// south $2.00
	// north $3.00
}

func ExampleFirstOf() {
	mine, others := exampleCloud("reserved", "north", 3), exampleCloud("spare", "south", 2)
	pool, err := gputrain.Open(context.Background(), gputrain.FirstOf(mine, others), gputrain.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	fmt.Println(pool.Nodes()[0].Region)
	// Output: north
}
