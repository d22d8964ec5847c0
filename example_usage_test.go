package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/sim"
)

// A pool with accelerators samples them, and reports a fault at once.
func ExampleUsage() {
	cloud := sim.New(sim.Options{
		Exec: func(context.Context, sim.Command) int { return 0 },
		Load: func(machine string, device int) float64 { return 40 },
	})
	defer cloud.Close()
	events := make(chan gputrain.Event, 100)
	pool, err := gputrain.Open(context.Background(), sim.Config{Cloud: cloud}, gputrain.Spec{
		Accelerator: accelerators.A100(),
	}, gputrain.WithEvents(func(ev gputrain.Event) {
		if ev.Kind == gputrain.EventUsage {
			events <- ev
		}
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	ev := <-events
	fmt.Println(ev.State, "of node", ev.Node)
	for _, a := range ev.Usage.Accelerators {
		fmt.Printf("%s: %.0f%%\n", a.Device, a.Utilization)
	}
	if err := sim.Xid(cloud, pool.Nodes()[0].ID, 0, "79, GPU has fallen off the bus."); err != nil {
		log.Fatal(err)
	}
	for ev.State != "fault" {
		ev = <-events
	}
	fmt.Println(ev.State, errors.Is(ev.Err, gputrain.ErrAccelerator))
	fmt.Println(ev.Err)
	// Output:
	// sample of node 0
	// 0000:01:00.0: 40%
	// fault true
	// sim: node 0: accelerator failed: 0000:01:00.0: Xid 79: the GPU has fallen off the bus (GPU has fallen off the bus.); the device needs a reset, or its machine a restart, which gputrain does not do; use another machine
}

// An unused pool ends after IdleTimeout, so that it does not cost money for ever.
func ExampleSpec_idleTimeout() {
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{IdleTimeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	for err == nil {
		time.Sleep(1500 * time.Millisecond) // longer than the nodes may do nothing
		_, err = pool.Run(gputrain.Cmd("true"))
	}
	fmt.Println(errors.Is(err, gputrain.ErrIdle))
	fmt.Println(err)
	// Output:
	// true
	// local: pool is closed: pool: idle: its nodes have done nothing for 1s; Spec.IdleTimeout is how long they may
}
