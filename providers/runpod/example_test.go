package runpod_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/runpod"
)

// Two pods with four A100 each, with the key in RUNPOD_API_KEY.
func ExampleConfig() {
	spec := gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(4)), Nodes: 2, TTL: 8 * time.Hour}
	pool, err := gputrain.Open(context.Background(), runpod.Config{}, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	if _, err := pool.Broadcast(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

// The cheapest RTX 4090 of either cloud, on spot if possible, in France or Sweden.
func ExampleConfig_spot() {
	cheap := runpod.Config{
		Cloud:         runpod.AllClouds,
		CountryCodes:  []string{"FR", "SE"},
		BidMultiplier: 1.2,
	}
	spec := gputrain.Spec{Accelerator: accelerators.RTX4090(), Allocation: driver.SpotIfAvailable, MaxHourlyUSD: 0.5}
	plan, err := gputrain.Plan(context.Background(), cheap, spec)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.InstanceType, c.Offer.Region, c.Offer.HourlyUSD, c.Rejected)
	}
}

// Sixteen H100 in one Instant Cluster, with InfiniBand between its two nodes.
func ExampleConfig_instantCluster() {
	fast := runpod.Config{ClusterMode: runpod.Instant, DataCenterIDs: []string{"US-KS-2"}, ContainerDiskGB: 200}
	spec := gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8)), Nodes: 2, TTL: 24 * time.Hour} // after its TTL, Reap can end the cluster
	pool, err := gputrain.Open(context.Background(), fast, spec)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	pool.Run(gputrain.Cmd("nvidia-smi", "topo", "-m"))
}

func ExampleConfig_Name() {
	fmt.Println(runpod.Config{}.Name())
	// Output: runpod
}

// Open rejects settings that do not go together before it calls RunPod.
func ExampleConfig_Open() {
	_, err := runpod.Config{APIKey: "rpa_EXAMPLE", VolumeGB: 5}.Open(context.Background())
	fmt.Println(err)
	// Output:
	// runpod: open: invalid: VolumeGB is 5; the minimum is 10, and -1 means none
}
