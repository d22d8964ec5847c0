package gputrain_test

import (
	"context"
	"fmt"
	"os"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

// Events and lines come beside the calls, and may come after their results. Sync waits for them.
func ExampleCompute_Sync() {
	ended := 0
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{}, gputrain.WithEvents(func(ev gputrain.Event) {
		if ev.Kind == gputrain.EventTask && ev.Ended != nil {
			ended++
		}
	}))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer pool.Close()
	pool.Gather(gputrain.Cmd("true"), gputrain.Cmd("true"))
	err = pool.Sync()
	fmt.Println(ended, err)
	// Output: 2 <nil>
}
