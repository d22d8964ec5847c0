package novita_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/novita"
)

func ExampleConfig() {
	spec := gputrain.Spec{
		Accelerator: accelerators.RTX4090(),
		DiskGiB:     100,
		TTL:         8 * time.Hour,
	}
	pool, err := gputrain.Open(context.Background(), novita.Config{AllowPasswordAtFirstContact: true}, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Run(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

// Spot machines in California, with an image of one version of CUDA.
func ExampleConfig_spot() {
	california := novita.Config{Image: novita.Ubuntu("22.04", "12.4.1"), AllowPasswordAtFirstContact: true}
	spec := gputrain.Spec{
		Accelerator:  accelerators.H100(),
		Allocation:   driver.Spot,
		Regions:      []string{"us-ca"},
		MaxHourlyUSD: 1.50,
	}
	plan, err := gputrain.Plan(context.Background(), california, spec) // rents nothing
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.InstanceType, c.Offer.Region, c.Offer.HourlyUSD, c.Rejected)
	}
}

func ExampleUbuntu() {
	fmt.Println(novita.Ubuntu("24.04", "12.9.1") == novita.DefaultImage)
	// Output: true
}

// An image of a private registry. The password is looked up when the pool opens, and is not put on nodes.
func ExampleConfig_registry() {
	private := novita.Config{
		Image:        "registry.example.com/team/train:12.4",
		RegistryUser: "robot", RegistryPassword: "env://REGISTRY_PASSWORD",
		MinCUDAVersion:              "12.4",
		AllowPasswordAtFirstContact: true,
	}
	pool, err := gputrain.Open(context.Background(), private, gputrain.Spec{Accelerator: accelerators.RTX4090()})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
}

func ExampleConfig_Name() {
	fmt.Println(novita.Config{}.Name())
	// Output: novita
}
