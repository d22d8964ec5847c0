package e2etest

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gputrain/gputrain"
)

// Allocate allocates mib MiB of memory and touches every page.
var Allocate = gputrain.Func("allocate", func(_ context.Context, mib int) (int, error) {
	b := make([]byte, mib<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return int(b[0]), nil
})

// A Point is the argument of Norm.
type Point struct{ X, Y float64 }

// ErrTooFar is the error of Norm if X is over a million.
var ErrTooFar = gputrain.RegisterError("too-far", errors.New("too far"))

// Functions that several suites call on nodes.
var (
	// Norm returns the square of a point's distance from zero.
	Norm = gputrain.Func("norm", func(_ context.Context, p Point) (float64, error) {
		if p.X > 1e6 {
			return 0, fmt.Errorf("x is %g: %w", p.X, ErrTooFar)
		}
		return p.X*p.X + p.Y*p.Y, nil
	})
	// Explode panics at depth 0.
	Explode = gputrain.Func("explode", func(_ context.Context, depth int) (int, error) {
		if depth == 0 {
			panic("the reactor")
		}
		return depth, nil
	})
	// Hang returns only when its context ends.
	Hang = gputrain.Func("hang", func(ctx context.Context, _ struct{}) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	// Where returns the node that it runs on.
	Where = gputrain.Func("where", func(ctx context.Context, _ struct{}) (gputrain.NodeInfo, error) {
		return gputrain.ThisNode(ctx), nil
	})
	// Share returns its node's part of the items.
	Share = gputrain.Func("share", func(ctx context.Context, items []int) ([]int, error) {
		return gputrain.Shard(ctx, items), nil
	})
	// Exit ends its process with a code.
	Exit = gputrain.Func("exit", func(_ context.Context, code int) (int, error) {
		fmt.Fprintln(os.Stderr, "leaving the building")
		os.Exit(code)
		return 0, nil
	})
	// Greet prints a line, and returns a greeting.
	Greet = gputrain.Func("greet", func(_ context.Context, name string) (string, error) {
		fmt.Println("hello from inside,", name)
		return "hello, " + name, nil
	})
)
