package sim_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// The answer to a launch is lost: the pool adopts the machines that were made, and leaves
// nothing at its end.
func Example() {
	cloud := sim.New(sim.Options{Exec: func(_ context.Context, cmd sim.Command) int {
		fmt.Fprintln(cmd.Stdout, "this is rank", cmd.Rank)
		return 0
	}})
	defer cloud.Close()
	cloud.Inject(sim.Fault{Op: sim.OpLaunch, Nth: 1, Kind: sim.Lost})

	pool, err := gputrain.Open(context.Background(), sim.Config{Cloud: cloud}, gputrain.Spec{Nodes: 2})
	if err != nil {
		log.Fatal(err)
	}
	r, err := pool.Run(gputrain.Cmd("train"))
	fmt.Printf("%s%v\n", r.Stdout, err)
	fmt.Println(len(cloud.Live()), "things exist while it runs")
	fmt.Println(pool.Close(), cloud.Live())
	// Output:
	// this is rank 0
	// <nil>
	// 4 things exist while it runs
	// <nil> []
}

// The zero Config rents from a cloud that the whole program shares.
func ExampleConfig() {
	pool, err := gputrain.Open(context.Background(), sim.Config{}, gputrain.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	r, err := pool.Run(gputrain.Script("echo hello"))
	fmt.Printf("%s%v\n", r.Stdout, err)
	// Output:
	// hello
	// <nil>
}
