package gputrain_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/sim"
)

// An elastic pool rents nothing until there is a task.
func ExampleSpec_elastic() {
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{
		MaxNodes:    3,
		IdleTimeout: time.Minute,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	fmt.Println(len(pool.Nodes()), "nodes")

	r, err := pool.Run(gputrain.Cmd("echo", "now there is one"))
	fmt.Printf("%s%v\n", r.Stdout, err)
	// Output:
	// 0 nodes
	// now there is one
	// <nil>
}

func ExampleCompute_Resize() {
	pool := start(1)
	defer pool.Close()

	if err := pool.Resize(3); err != nil { // three are ready
		log.Fatal(err)
	}
	results, _ := pool.Broadcast(gputrain.Script("echo $GPUTRAIN_NODE_RANK"))
	fmt.Println(len(results), "nodes")
	if err := pool.Resize(1); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(pool.Nodes()), "node")
	// Output:
	// 3 nodes
	// 1 node
}

// A cost prints as one line.
func ExampleCost_String() {
	cloud := sim.New(sim.Options{Offers: []gputrain.Offer{
		{InstanceType: "a100", Region: "sim-east", HourlyUSD: driver.USD(2), BillingUnit: time.Hour},
	}})
	defer cloud.Close()
	pool, err := gputrain.Open(context.Background(), sim.Config{Cloud: cloud}, gputrain.Spec{Nodes: 2})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pool.Cost())
	pool.Close()
	fmt.Println(pool.Cost())
	// Output:
	// $4.00 so far, 2 machines for $4.00 an hour, at most $4.00 if this program dies now
	// $4.00 so far, no machine runs
}

// Cost returns what the pool has cost, and what it can cost at most if this program dies now.
func ExampleCompute_Cost() {
	cloud := sim.New(sim.Options{Offers: []gputrain.Offer{
		{InstanceType: "a100", Region: "sim-east", HourlyUSD: driver.USD(2), BillingUnit: time.Hour},
	}})
	defer cloud.Close()
	pool, err := gputrain.Open(context.Background(), sim.Config{Cloud: cloud}, gputrain.Spec{Nodes: 2, BudgetUSD: 10})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	cost := pool.Cost()
	fmt.Printf("$%.0f so far, $%.0f an hour, $%.0f at most\n", cost.USD, cost.HourlyUSD, cost.AtMostUSD)
	for _, n := range cost.Nodes {
		fmt.Printf("rank %d: $%.0f\n", n.Rank, n.USD)
	}
	// Output:
	// $4 so far, $4 an hour, $4 at most
	// rank 0: $2
	// rank 1: $2
}

// The first hour of these two nodes costs more than the budget, so nothing is rented.
func ExampleSpec_budget() {
	cloud := sim.New(sim.Options{Offers: []gputrain.Offer{
		{InstanceType: "a100", Region: "sim-east", HourlyUSD: driver.USD(2), BillingUnit: time.Hour},
	}})
	defer cloud.Close()
	_, err := gputrain.Open(context.Background(), sim.Config{Cloud: cloud}, gputrain.Spec{Nodes: 2, BudgetUSD: 3})
	fmt.Println(err)
	// Output: sim: budget exceeded: the start of the pool costs $4.00 at least, and BudgetUSD is $3.00
}

// The ledger is in a folder of the program's own, and Pools lists what it records.
func ExampleWithStateDir() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	pool := start(2, gputrain.WithName("digits"), gputrain.WithStateDir(dir))
	pools, err := gputrain.StateDir(dir).Pools()
	for _, p := range pools {
		fmt.Println(p.Name, "of", p.Provider, "is", p.State, "with", p.Nodes, "nodes")
	}
	fmt.Println(err)

	pool.Close()
	pools, _ = gputrain.StateDir(dir).Pools()
	fmt.Println(len(pools), "pools are left")
	// Output:
	// digits of local is open with 2 nodes
	// <nil>
	// 0 pools are left
}
