package gputrain_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/local"
)

// A TaskError distinguishes the ways in which a task can fail.
func ExampleTaskError() {
	pool := start(1)
	defer pool.Close()

	for _, text := range []string{"echo no such column >&2; exit 3", "kill -SEGV $$", "exit 4"} {
		_, err := pool.Run(gputrain.Script(text))
		var failed *gputrain.TaskError
		switch {
		case errors.As(err, &failed) && failed.Cause == gputrain.CauseSignal:
			fmt.Println("signal", failed.Signal)
		case errors.Is(err, gputrain.ErrOutOfMemory):
			fmt.Println("try a smaller batch")
		case errors.As(err, &failed) && failed.Cause == gputrain.CauseExit:
			fmt.Printf("exit code %d; last lines: %q\n", failed.ExitCode, failed.Tail)
		}
	}
	// Output:
	// exit code 3; last lines: "no such column"
	// signal SEGV
	// exit code 4; last lines: ""
}

// Each error of a provider has a kind to compare with, and a hint.
func ExampleError() {
	_, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{VCPUs: 1e6})
	var failed *gputrain.Error
	fmt.Println(errors.Is(err, gputrain.ErrNoOffers), errors.As(err, &failed) && failed.Provider == "local")

	err = &gputrain.Error{Provider: "acme", Op: "launch", Kind: gputrain.ErrQuota, RequestID: "r-17",
		Hint: "ask for more at acme.example/quota", Err: errors.New("8 of 8 GPUs in use")}
	fmt.Println(err)
	// Output:
	// true true
	// acme: launch: quota exceeded: 8 of 8 GPUs in use (request r-17); ask for more at acme.example/quota
}

// A BootstrapError has the phase that failed on a node, and what it printed.
func ExampleBootstrapError() {
	spec := gputrain.Spec{Image: gputrain.Image{Setup: []string{"true", "echo no compiler here >&2; exit 7"}}}
	_, err := gputrain.Open(context.Background(), local.Config{}, spec)
	var failed *gputrain.BootstrapError
	if errors.As(err, &failed) {
		fmt.Println(failed.Phase, failed.ExitCode, failed.Tail)
	}
	// Output: setup 2/2 7 no compiler here
}

// A LeakError names what may still cost money. Open and Close return such an error.
func ExampleLeakError() {
	var err error = &gputrain.LeakError{
		Resources: []gputrain.Resource{{Provider: "acme", Kind: "machine", ID: "i-42", Region: "eu-1", HourlyUSD: driver.USD(1.5)}},
		Err:       errors.New("the API does not answer"),
	}
	var leak *gputrain.LeakError
	if errors.As(err, &leak) {
		for _, r := range leak.Resources {
			fmt.Println("end by hand:", r.Kind, r.ID)
		}
	}
	fmt.Println(err)
	// Output:
	// end by hand: machine i-42
	// not confirmed gone: acme machine i-42 in eu-1 at $1.50 an hour: the API does not answer
}

func ExampleCause() {
	fmt.Println(gputrain.CauseOutOfMemory, "or", gputrain.CauseNodeLost)
	// Output: out of memory or node lost
}
