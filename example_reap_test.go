package gputrain_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// Reap ends what dead programs have left, and nothing of a pool whose program is alive.
func ExampleReap() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cloud := sim.New(sim.Options{})
	defer cloud.Close()
	provider := sim.Config{Cloud: cloud}

	pool, err := gputrain.Open(context.Background(), provider, gputrain.Spec{}, gputrain.WithStateDir(dir))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	ended, err := gputrain.StateDir(dir).Reap(context.Background(), provider)
	fmt.Println(len(ended), err, pool.Nodes()[0].State)
	// Output: 0 <nil> ready
}
