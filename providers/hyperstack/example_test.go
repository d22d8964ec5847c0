package hyperstack_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/hyperstack"
)

// Two machines of eight GPUs each, on the fast network.
func Example() {
	fast := hyperstack.Config{Regions: []string{"CANADA-1"}, NetworkOptimised: true}
	spec := gputrain.Spec{
		Accelerator: accelerators.H100(accelerators.Count(8)),
		Nodes:       2,
		TTL:         8 * time.Hour,
	}
	pool, err := gputrain.Open(context.Background(), fast, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Broadcast(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

func ExampleConfig_spot() {
	spec := gputrain.Spec{
		Accelerator:  accelerators.A100(accelerators.Memory(80)),
		Allocation:   driver.SpotIfAvailable,
		MaxHourlyUSD: 1.50,
	}
	plan, err := gputrain.Plan(context.Background(), hyperstack.Config{}, spec) // rents nothing
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.InstanceType, c.Offer.Region, c.Offer.HourlyUSD, c.Rejected)
	}
}

func ExampleConfig_Name() {
	fmt.Println(hyperstack.Config{}.Name())
	// Output: hyperstack
}
