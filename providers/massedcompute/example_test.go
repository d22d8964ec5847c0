package massedcompute_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/massedcompute"
)

func ExampleConfig() {
	spec := gputrain.Spec{
		Accelerator: accelerators.L40S(),
		Nodes:       2,
		TTL:         8 * time.Hour,
	}
	pool, err := gputrain.Open(context.Background(), massedcompute.Config{}, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Broadcast(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

// Compare the prices of spot machines with those on demand.
func ExampleConfig_spot() {
	spec := gputrain.Spec{Accelerator: accelerators.A6000(), Allocation: driver.CheapestAllocation}
	plan, err := gputrain.Plan(context.Background(), massedcompute.Config{Coupon: "SPRING"}, spec) // rents nothing
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.InstanceType, c.Offer.Spot, c.Offer.HourlyUSD, c.Rejected)
	}
}

func ExampleConfig_Name() {
	fmt.Println(massedcompute.Config{}.Name())
	// Output: massedcompute
}
