package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// MaxOffers bounds how often a cloud that refuses everything is asked.
func ExampleSpec_maxOffers() {
	state, err := os.MkdirTemp("", "state")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(state)
	cloud := sim.New(sim.Options{Faults: []sim.Fault{{Op: sim.OpLaunch, Kind: sim.RateLimited}}})
	defer cloud.Close()
	_, err = gputrain.Open(context.Background(), sim.Config{Cloud: cloud}, gputrain.Spec{MaxOffers: 2, MaxReplacements: -1},
		gputrain.WithStateDir(state), gputrain.WithEvents(func(e gputrain.Event) {
			if e.Kind == gputrain.EventWait && e.State == "launching" {
				fmt.Println(e.Err)
			}
		}))
	tried := 0
	for _, call := range cloud.Log() {
		if call.Op == sim.OpLaunch {
			tried++
		}
	}
	fmt.Println(tried, errors.Is(err, gputrain.ErrRateLimited))
	// Output:
	// sim: launch: 2 of 6 offers tried, 0 of 1 nodes have a machine; the last: launch: rate limited: 429: too many requests (request sim-6)
	// 2 true
}
