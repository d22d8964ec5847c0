package gputrain_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// A program on a machine that is always on ends what lapses, at clouds whose machines cannot end
// themselves. examples/guard is such a program.
func ExampleGuard() {
	ctx := context.Background()
	cloud := sim.New(sim.Options{NoSelfDestruct: true})
	defer cloud.Close()
	provider := sim.Config{Cloud: cloud}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	pool, err := gputrain.Open(ctx, provider, gputrain.Spec{}, gputrain.WithStateDir(dir))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	rounds := 0
	for ended, err := range gputrain.StateDir(dir).Guard(ctx, 10*time.Millisecond, provider) {
		fmt.Println(len(ended), "ended,", err)
		if rounds++; rounds == 2 {
			break // a guard goes on
		}
	}
	fmt.Println(pool.Nodes()[0].State)
	// Output:
	// 0 ended, <nil>
	// 0 ended, <nil>
	// ready
}

// At a cloud whose machines cannot end themselves a second process of the program would look after
// the pool. Where Guard runs anyway, it is not needed.
func ExampleWithoutGuardian() {
	cloud := sim.New(sim.Options{NoSelfDestruct: true})
	defer cloud.Close()
	pool, err := gputrain.Open(context.Background(), sim.Config{Cloud: cloud}, gputrain.Spec{}, gputrain.WithoutGuardian(),
		gputrain.WithEvents(func(ev gputrain.Event) {
			if ev.State == "guardian" {
				fmt.Println("there is a guardian, or why not:", ev.Err)
			}
		}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("closed:", pool.Close())
	// Output: closed: <nil>
}
