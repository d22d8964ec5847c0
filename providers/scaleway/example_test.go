package scaleway_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/scaleway"
)

func ExampleConfig() {
	spec := gputrain.Spec{
		Accelerator: accelerators.L4(),
		DiskGiB:     200,
		TTL:         8 * time.Hour,
	}
	pool, err := gputrain.Open(context.Background(), scaleway.Config{Zone: "fr-par-2"}, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Run(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

// H100s in any zone of Paris or Warsaw, for no more than 4 dollars an hour at today's rate.
func ExampleConfig_euros() {
	spec := gputrain.Spec{
		Accelerator:  accelerators.H100(),
		Regions:      []string{"fr-par", "pl-waw"},
		MaxHourlyUSD: 4,
	}
	plan, err := gputrain.Plan(context.Background(), scaleway.Config{USDPerEUR: 1.0842}, spec) // rents nothing
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.InstanceType, c.Offer.Region, c.Offer.HourlyUSD, c.Rejected)
	}
}

func ExampleConfig_Name() {
	fmt.Println(scaleway.Config{}.Name())
	// Output: scaleway
}
