package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
)

var converge = gputrain.Func("converge", func(ctx context.Context, steps int) (loss float64, err error) {
	for n := range steps {
		loss = 1 / float64(n+1)
		gputrain.ReportStep(ctx, gputrain.Step{N: int64(n + 1), Of: int64(steps), Values: map[string]float64{"loss": loss}})
	}
	return loss, nil
})

// A function says how far it has come, and so does a command, by a line.
func ExampleReportStep() {
	steps := make(chan gputrain.Event, 100)
	pool := start(1, gputrain.WithEvents(func(ev gputrain.Event) {
		if ev.Kind == gputrain.EventStep {
			steps <- ev
		}
	}))
	if _, err := converge.Run(pool, 4); err != nil {
		fmt.Println(err)
	}
	if _, err := pool.Run(gputrain.Script("echo gputrain: step=8/8 loss=0.125")); err != nil {
		fmt.Println(err)
	}
	pool.Close()
	close(steps)
	for ev := range steps { // one a second at most, and always the last one
		if s := ev.Step; s.N == s.Of {
			fmt.Printf("%s: step %d of %d, loss %v\n", ev.Task, s.N, s.Of, s.Values["loss"])
		}
	}
	// Output:
	// t0: step 4 of 4, loss 0.25
	// t1: step 8 of 8, loss 0.125
}

// A program that hangs is ended, and the error says where it was.
func ExampleTask_stallTimeout() {
	pool := start(1)
	defer pool.Close()

	t := gputrain.Script("echo gputrain: step=120/1000; exec sleep 600")
	t.StallTimeout = 5 * time.Second
	_, err := pool.Run(t)
	var failed *gputrain.TaskError
	if errors.As(err, &failed) {
		fmt.Println(failed.Cause, "after step", failed.Step, errors.Is(err, gputrain.ErrStalled))
		fmt.Println(strings.Contains(failed.Stack, "sleep"))
	}
	// Output:
	// stalled after step 120 true
	// true
}
