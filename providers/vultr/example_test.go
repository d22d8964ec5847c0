package vultr_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/vultr"
)

func ExampleConfig() {
	spec := gputrain.Spec{Accelerator: accelerators.L40S(), TTL: 8 * time.Hour}
	pool, err := gputrain.Open(context.Background(), vultr.Config{Region: vultr.Anywhere}, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Run(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

// Servers of eight GPUs, in any region, for at most $30 an hour each.
func ExampleConfig_bareMetal() {
	servers := vultr.Config{Mode: vultr.BareMetal, Region: vultr.Anywhere, ProvisionTimeout: 90 * time.Minute}
	spec := gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8)), Nodes: 2, MaxHourlyUSD: 30}
	plan, err := gputrain.Plan(context.Background(), servers, spec) // rents nothing
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.InstanceType, c.Offer.Region, c.Offer.HourlyUSD, c.Rejected)
	}
}

func ExampleConfig_Name() {
	fmt.Println(vultr.Config{}.Name())
	// Output: vultr
}
