package gputrain_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/local"
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

// Any of several accelerators will do: offers are compared by the price of the work that they do.
func ExamplePlan_anyOf() {
	cloud := sim.New(sim.Options{Offers: []gputrain.Offer{
		{InstanceType: "h100", Region: "north", Country: "NO", Accelerator: accelerators.H100(), HourlyUSD: driver.USD(2.4)},
		{InstanceType: "a100", Region: "south", Country: "US", Accelerator: accelerators.A100(), HourlyUSD: driver.USD(1.3)},
		{InstanceType: "l40s", Region: "south", Country: "US", Accelerator: accelerators.L40S(), HourlyUSD: driver.USD(0.9)},
	}})
	defer cloud.Close()
	plan, err := gputrain.Plan(context.Background(), sim.Config{Cloud: cloud}, gputrain.Spec{
		AnyOf:     []accelerators.Accelerator{accelerators.H100(), accelerators.A100()},
		Speed:     map[string]float64{"H100": 2.4, "A100": 1},
		Countries: []string{"US", "NO"},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Printf("%s in %s: %v an hour, %v a unit of work %q\n", c.Offer.InstanceType, c.Offer.Country, c.HourlyUSD, c.WorkUSD, c.Rejected)
	}
	// Output:
	// h100 in NO: $2.40 an hour, $1.00 a unit of work ""
	// a100 in US: $1.30 an hour, $1.30 a unit of work ""
	// l40s in US: $0.90 an hour, unknown a unit of work "has accelerator L40S; the spec asks for H100 or A100"
}

// Nodes of a training on several nodes must reach each other: a plan says which offers cannot.
func ExamplePlan_network() {
	cloud := sim.New(sim.Options{Offers: []gputrain.Offer{
		{InstanceType: "h100.8", Region: "north", HourlyUSD: driver.USD(20), Capabilities: &driver.Capabilities{PrivateNetwork: true}},
		{InstanceType: "h100.8", Region: "south", HourlyUSD: driver.USD(16), Capabilities: &driver.Capabilities{}},
	}})
	defer cloud.Close()
	plan, err := gputrain.Plan(context.Background(), sim.Config{Cloud: cloud}, gputrain.Spec{Nodes: 2, Network: gputrain.NetworkPrivate})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Printf("%s %s %q\n", c.Offer.InstanceType, c.Offer.Region, c.Rejected)
	}
	// Output:
	// h100.8 north ""
	// h100.8 south "its nodes have no private network, which the spec's Network asks for"
}

// A machine that did not come up is tried again by the next pool, if it is forgotten.
func ExampleStateDir_ForgetFailures() {
	dir, err := os.MkdirTemp("", "state-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	state := gputrain.StateDir(dir)                                                      // or StateDir(""), the user's own
	fmt.Println(state.ForgetFailures())                                                  // all of them
	fmt.Println(state.ForgetFailures(gputrain.Offer{Provider: "vastai", Host: "88000"})) // that of one machine, as Plan has its offer
	// Output:
	// <nil>
	// <nil>
}

// The processes of a training on several nodes meet at ports that ask for no password. Plan says who else reaches them: here
// the other users of this computer.
func ExamplePlan_ports() {
	plan, err := gputrain.Plan(context.Background(), local.Config{}, gputrain.Spec{Nodes: 2})
	if err != nil {
		log.Fatal(err)
	}
	for _, warning := range plan[0].Warnings {
		if strings.Contains(warning, "ports") {
			fmt.Println(warning)
		}
	}
	// Output: what shares a network with its nodes reaches a gang's ports, which ask for no password
}
