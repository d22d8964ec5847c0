package kubernetes_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/kubernetes"
	"github.com/gputrain/gputrain/providers/runpod"
)

func ExampleConfig() {
	spec := gputrain.Spec{Nodes: 2, Accelerator: accelerators.A100(accelerators.Count(4)), MemoryGiB: 256, TTL: 8 * time.Hour}
	pool, err := gputrain.Open(context.Background(), kubernetes.Config{}, spec)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Broadcast(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

// The lab's own cluster first, a cloud when it is full.
func ExampleConfig_firstOf() {
	where := gputrain.FirstOf(
		kubernetes.Config{Contexts: []string{"team"}, PendingTimeout: 10 * time.Minute},
		runpod.Config{}, // paid for, so last
	)
	pool, err := gputrain.Open(context.Background(), where, gputrain.Spec{Accelerator: accelerators.A100(), BudgetUSD: 60})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	fmt.Println(pool.Nodes()[0].Provider)
}

// A namespace that allows no root, with a claim of datasets and a place on nodes for one team.
func ExampleConfig_unprivileged() {
	cluster := kubernetes.Config{
		Namespace:    "research",
		Image:        "registry.lab/train:7", // with an SSH server
		PullSecrets:  []string{"registry"},
		Unprivileged: true,
		NodeSelector: map[string]string{"team": "vision"},
		Tolerations:  []kubernetes.Toleration{{Key: "team", Value: "vision", Effect: "NoSchedule"}},
		Volumes:      []kubernetes.Volume{{Claim: "datasets", Path: "/data", ReadOnly: true}},
	}
	spec := gputrain.Spec{Mounts: []gputrain.Mount{{Source: "pvc:results", Target: "/results"}}}
	pool, err := gputrain.Open(context.Background(), cluster, spec)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
}

// A cluster that grows, with the prices of its machines, reached from a pod inside of it.
func ExampleShape() {
	cluster := kubernetes.Config{
		Autoscaled: true,
		Shapes: []kubernetes.Shape{
			{GPU: "H100", Count: 8, VCPUs: 208, MemoryGiB: 1800, HourlyUSD: 88, NodeSelector: map[string]string{"pool": "h100"}},
			{GPU: "L4", Count: 1, Spot: true, HourlyUSD: 0.3},
		},
		Reach: kubernetes.ReachDirect,
	}
	plan, err := gputrain.Plan(context.Background(), cluster, gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8))})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan {
		fmt.Println(c.Offer.InstanceType, c.Offer.HourlyUSD, c.Offer.Warnings)
	}
}

func ExampleConfig_Name() {
	fmt.Println(kubernetes.Config{}.Name())
	// Output: kubernetes
}

// Open reports all mistakes at once, before it contacts anything.
func ExampleConfig_Open() {
	_, err := kubernetes.Config{Kubeconfig: "/no/such/file", PullPolicy: "Sometimes"}.Open(context.Background())
	fmt.Println(err)
	_, err = kubernetes.Config{Kubeconfig: "/no/such/file"}.Open(context.Background())
	fmt.Println(err)
	// Output:
	// kubernetes: open: invalid: PullPolicy is "Sometimes"; it is Always, IfNotPresent or Never
	// kubernetes: open: not authorized: Config.Kubeconfig: stat /no/such/file: no such file or directory
}
