package vastai_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/vastai"
)

func ExampleConfig() {
	spec := gputrain.Spec{
		Accelerator: accelerators.RTX4090(),
		DiskGiB:     200,
		TTL:         8 * time.Hour,
	}
	pool, err := gputrain.Open(context.Background(), vastai.Config{MinReliability: 0.98}, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Run(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

// Interruptible machines in Europe, behind fast links with cheap traffic.
func ExampleConfig_spot() {
	europe := vastai.Config{
		Geolocation:        []string{"EU", "NO", "CH"},
		MinInetDown:        500,
		MaxTrafficUSDPerGB: 0.01,
		BidMultiplier:      1.5,
	}
	spec := gputrain.Spec{
		Accelerator:  accelerators.A100(accelerators.Memory(80)),
		Nodes:        4,
		Allocation:   driver.SpotIfAvailable,
		MaxHourlyUSD: 1.50,
	}
	plan, err := gputrain.Plan(context.Background(), europe, spec) // rents nothing
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.InstanceType, c.Offer.Region, c.Offer.HourlyUSD, c.Rejected)
	}
}

// A private image with an older CUDA, a port for a dashboard, and room for checkpoints.
func ExampleConfig_image() {
	cfg := vastai.Config{
		Image:         "registry.example.com/team/train:7",
		RegistryUser:  "team",
		RegistryToken: "env://REGISTRY_TOKEN",
		MinCUDA:       12.4,
		Ports:         []int{6006},
		DiskGB:        250,
	}
	fmt.Println(cfg.Name(), vastai.Ubuntu("24.04", "12.9.1") == vastai.DefaultImage)
	// Output: vastai true
}

func ExampleConfig_Name() {
	fmt.Println(vastai.Config{}.Name())
	// Output: vastai
}
