package gcp_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/gcp"
)

func ExampleConfig() {
	spec := gputrain.Spec{
		Accelerator: accelerators.L4(),
		DiskGiB:     200,
		TTL:         8 * time.Hour, // after the TTL, Google itself deletes the nodes
	}
	pool, err := gputrain.Open(context.Background(), gcp.Config{Zone: "europe-west4-a"}, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Run(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

// Spot machines in any zone of a region, with a key from a secret store, and nodes that
// can delete themselves.
func ExampleConfig_spot() {
	europe := gcp.Config{
		ProjectID:      "my-lab",
		Credentials:    "cmd://pass show gcp/trainer",
		Region:         "europe-west4",
		ServiceAccount: "node@my-lab.iam.gserviceaccount.com",
		SourceRanges:   []string{"203.0.113.0/24"},
	}
	spec := gputrain.Spec{
		Accelerator:  accelerators.A100(accelerators.Memory(80)),
		Nodes:        2,
		Allocation:   driver.Spot,
		MaxHourlyUSD: 3,
	}
	plan, err := gputrain.Plan(context.Background(), europe, spec) // rents nothing
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.InstanceType, c.Offer.Region, c.Offer.HourlyUSD, c.Rejected)
	}
}

// Nodes in a reservation of one machine type, with labels for the bill.
func ExampleConfig_reservation() {
	reserved := gcp.Config{
		Zone:        "us-central1-a",
		MachineType: "a3-ultragpu-8g",
		Reservation: "vision-h200",
	}
	spec := gputrain.Spec{
		Accelerator: accelerators.H200(accelerators.Count(8)),
		Tags:        map[string]string{"team": "vision"},
	}
	plan, err := gputrain.Plan(context.Background(), reserved, spec) // rents nothing
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.InstanceType, c.Offer.HourlyUSD, c.Warnings)
	}
}

func ExampleConfig_Name() {
	fmt.Println(gcp.Config{}.Name())
	// Output: gcp
}
