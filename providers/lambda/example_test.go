package lambda_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/lambda"
)

func ExampleConfig() {
	spec := gputrain.Spec{
		Accelerator: accelerators.H100(accelerators.Count(8)),
		Nodes:       2,
		TTL:         8 * time.Hour,
	}
	pool, err := gputrain.Open(context.Background(), lambda.Config{}, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Broadcast(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

// Machines with a file system of the account at /lambda/nfs/datasets.
func ExampleConfig_fileSystems() {
	texas := lambda.Config{Region: "us-south-2", FileSystems: []string{"datasets"}}
	spec := gputrain.Spec{Accelerator: accelerators.A100(), Arch: "amd64", MaxHourlyUSD: 2}
	plan, err := gputrain.Plan(context.Background(), texas, spec) // rents nothing
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.InstanceType, c.Offer.Region, c.Offer.HourlyUSD, c.Rejected)
	}
}

func ExampleConfig_Name() {
	fmt.Println(lambda.Config{}.Name())
	// Output: lambda
}
