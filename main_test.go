package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
	"go.uber.org/goleak"
)

// TestMain is what a user's own TestMain looks like: on a node, Init serves
// the functions below.
func TestMain(m *testing.M) {
	gputrain.Init()
	if playsRole() {
		return
	}
	eachLooksForLeaks(m)
	state, err := os.MkdirTemp("", "gputrain-state-")
	if err != nil {
		log.Fatal(err)
	}
	os.Setenv("XDG_STATE_HOME", state)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(state)
		os.Exit(code)
	}))
}

type point struct{ X, Y float64 }

var errTooFar = gputrain.RegisterError("too-far", errors.New("too far"))

var (
	norm = gputrain.Func("norm", func(_ context.Context, p point) (float64, error) {
		if p.X > 1e6 {
			return 0, fmt.Errorf("x is %g: %w", p.X, errTooFar)
		}
		return p.X*p.X + p.Y*p.Y, nil
	})
	explode = gputrain.Func("explode", func(_ context.Context, depth int) (int, error) {
		if depth == 0 {
			panic("the reactor")
		}
		return depth, nil
	})
	hang = gputrain.Func("hang", func(ctx context.Context, _ struct{}) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	where = gputrain.Func("where", func(ctx context.Context, _ struct{}) (gputrain.NodeInfo, error) {
		return gputrain.ThisNode(ctx), nil
	})
	share = gputrain.Func("share", func(ctx context.Context, items []int) ([]int, error) {
		return gputrain.Shard(ctx, items), nil
	})
	exit = gputrain.Func("exit", func(_ context.Context, code int) (int, error) {
		fmt.Fprintln(os.Stderr, "leaving the building")
		os.Exit(code)
		return 0, nil
	})
	greet = gputrain.Func("greet", func(_ context.Context, name string) (string, error) {
		fmt.Println("hello from inside,", name)
		return "hello, " + name, nil
	})
)

// open returns a pool of local nodes that ends with the test.
func open(t testing.TB, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	opts = append([]gputrain.Option{gputrain.WithResultsDir(t.TempDir())}, opts...)
	pool, err := gputrain.Open(t.Context(), local.Config{Dir: t.TempDir()}, spec, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return pool
}
