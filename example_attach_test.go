package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

// WithTakeover takes over a pool from a program that hangs, or cannot be reached: the same nodes
// and tasks go on with this program. After a program that died, WithTakeover is not needed.
func ExampleAttach() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "state-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	state := gputrain.WithStateDir(dir)
	older, err := gputrain.Open(ctx, local.Config{}, gputrain.Spec{}, gputrain.WithName("digits"), state)
	if err != nil {
		log.Fatal(err)
	}
	older.Start(gputrain.Script("echo begun; sleep 0.2; echo ended"))

	_, err = gputrain.Attach(ctx, local.Config{}, "digits", state)
	fmt.Println("in use:", errors.Is(err, gputrain.ErrInUse))
	pool, err := gputrain.Attach(ctx, local.Config{}, "digits", state, gputrain.WithTakeover())
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	for _, job := range pool.Jobs() {
		r, err := job.Wait()
		fmt.Printf("%q %v\n", r.Stdout, err)
	}
	fmt.Println("the older one:", errors.Is(older.Close(), gputrain.ErrFenced))
	// Output:
	// in use: true
	// "begun\nended\n" <nil>
	// the older one: true
}

// A program leaves a pool as it is, and another one, or the same, takes it up.
func ExampleCompute_Detach() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "state-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	state := gputrain.WithStateDir(dir)
	pool, err := gputrain.Open(ctx, local.Config{}, gputrain.Spec{}, state)
	if err != nil {
		log.Fatal(err)
	}
	job := pool.Start(gputrain.Script("echo begun; sleep 0.2; echo ended"))
	id, err := pool.Detach()
	if err != nil {
		log.Fatal(err)
	}
	_, err = job.Wait()
	fmt.Println("left here:", errors.Is(err, gputrain.ErrClosed))

	again, err := gputrain.Attach(ctx, local.Config{}, id, state)
	if err != nil {
		log.Fatal(err)
	}
	defer again.Close()
	for _, job := range again.Jobs() {
		r, err := job.Wait()
		fmt.Printf("%q %v\n", r.Stdout, err)
	}
	// Output:
	// left here: true
	// "begun\nended\n" <nil>
}

func ExamplePools() {
	dir, err := os.MkdirTemp("", "state-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	state := gputrain.StateDir(dir) // gputrain.Pools() does the same in the user's own state directory
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{Nodes: 2}, gputrain.WithName("digits"), gputrain.WithStateDir(dir))
	if err != nil {
		log.Fatal(err)
	}
	pools, err := state.Pools()
	for _, p := range pools {
		fmt.Println(p.Name, "of", p.Provider, "is", p.State, "with", p.Nodes, "nodes,", p.CostUSD, "dollars")
	}
	fmt.Println(err)
	pool.Close()
	pools, err = state.Pools()
	fmt.Println(len(pools), err)
	// Output:
	// digits of local is open with 2 nodes, 0 dollars
	// <nil>
	// 0 <nil>
}

// One pool that a program has left is ended, and all others are left alone.
func ExampleStateDir_ReapPool() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "state-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	state := gputrain.StateDir(dir)
	var ids []string
	for range 2 {
		pool, err := gputrain.Open(ctx, local.Config{}, gputrain.Spec{}, gputrain.WithStateDir(dir))
		if err != nil {
			log.Fatal(err)
		}
		id, err := pool.Detach()
		if err != nil {
			log.Fatal(err)
		}
		ids = append(ids, id)
	}
	ended, err := state.ReapPool(ctx, ids[0], local.Config{})
	fmt.Println(len(ended) > 0, err)
	left, err := state.Pools()
	fmt.Println(len(left), left[0].ID == ids[1], err)
	state.ReapPool(ctx, ids[1], local.Config{})
	// Output:
	// true <nil>
	// 1 true <nil>
}
