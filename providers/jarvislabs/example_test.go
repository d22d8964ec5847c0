package jarvislabs_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/jarvislabs"
)

func Example() {
	spec := gputrain.Spec{
		Accelerator: accelerators.A100(accelerators.Memory(80)),
		DiskGiB:     200,
		TTL:         8 * time.Hour,
	}
	pool, err := gputrain.Open(context.Background(), jarvislabs.Config{}, spec, gputrain.WithName("tune"), gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Run(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

// Spot containers in Chennai.
func ExampleConfig_spot() {
	spec := gputrain.Spec{
		Accelerator:  accelerators.L4(),
		Nodes:        4,
		Allocation:   driver.Spot,
		MaxHourlyUSD: 0.40,
	}
	plan, err := gputrain.Plan(context.Background(), jarvislabs.Config{Region: "IN1"}, spec) // rents nothing
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.InstanceType, c.Offer.Region, c.Offer.HourlyUSD, c.Rejected)
	}
}

func ExampleConfig_Name() {
	fmt.Println(jarvislabs.Config{}.Name())
	// Output: jarvislabs
}
