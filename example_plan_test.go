package gputrain_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

func ExamplePlan() {
	cloud := sim.New(sim.Options{Offers: []gputrain.Offer{
		{InstanceType: "a100.4", Region: "north", Accelerator: accelerators.A100(accelerators.Count(4)), HourlyUSD: driver.USD(9)},
		{InstanceType: "a100.4", Region: "south", Accelerator: accelerators.A100(accelerators.Count(4)), HourlyUSD: driver.USD(6)},
	}})
	defer cloud.Close()
	plan, err := gputrain.Plan(context.Background(), sim.Config{Cloud: cloud}, gputrain.Spec{
		Accelerator: accelerators.A100(accelerators.Count(4)), MaxHourlyUSD: 8,
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Printf("%s %s %v %q\n", c.Offer.InstanceType, c.Offer.Region, c.Offer.HourlyUSD, c.Rejected)
	}
	// Output:
	// a100.4 south $6.00 ""
	// a100.4 north $9.00 "costs $9.00 an hour; MaxHourlyUSD is $8.00"
}

func ExampleOffers() {
	cloud := sim.New(sim.Options{})
	defer cloud.Close()
	spec := gputrain.Spec{Accelerator: accelerators.A100()}
	for offer, err := range gputrain.Offers(context.Background(), sim.Config{Cloud: cloud}, spec) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(offer.Accelerator.Name)
		break // no more offers are asked for
	}
	// Output: A100
}
