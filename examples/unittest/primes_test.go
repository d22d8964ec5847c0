package unittest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/container"
)

// pool is shared by all tests. It is nil if there is no container engine,
// and noPool then says why.
var (
	pool   *gputrain.Compute
	noPool error
)

func TestMain(m *testing.M) {
	gputrain.Init() // in a container this call serves Primes and does not return
	os.Exit(run(m))
}

// run is apart from TestMain because os.Exit runs no deferred calls.
func run(m *testing.M) (code int) {
	ctx := context.Background()
	pool, noPool = gputrain.Open(ctx, container.Config{}, gputrain.Spec{Nodes: 2}, gputrain.WithName("unittest"))
	switch {
	case errors.Is(noPool, gputrain.ErrUnavailable), errors.Is(noPool, gputrain.ErrAuth): // no engine, or not for this user
		if os.Getenv("GPUTRAIN_REQUIRE_DOCKER") != "" {
			fmt.Fprintln(os.Stderr, "GPUTRAIN_REQUIRE_DOCKER is set, but there are no containers:", noPool)
			return 1
		}
	case noPool != nil: // there is an engine, so this is a failure and no reason to skip
		fmt.Fprintln(os.Stderr, noPool)
		return 1
	default:
		defer func() {
			if err := pool.Close(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}()
	}
	return m.Run()
}

// onPool returns the pool, or skips the test.
func onPool(t *testing.T) *gputrain.Compute {
	t.Helper()
	if pool == nil {
		t.Skip("no containers here: ", noPool)
	}
	return pool.WithContext(t.Context())
}

func TestPrimes(t *testing.T) {
	got, err := Primes.Run(onPool(t), Span{From: 10, To: 30})
	if want := []int{11, 13, 17, 19, 23, 29}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestPrimesRefusesAnOddSpan(t *testing.T) {
	_, err := Primes.Run(onPool(t), Span{From: 2, To: 1})
	if err == nil || !strings.Contains(err.Error(), "ends before it begins") {
		t.Errorf("got %v, want the function's own error", err)
	}
}

func TestCountPrimes(t *testing.T) {
	if got, err := CountPrimes(onPool(t), 10_000, 8); err != nil || got != 1229 {
		t.Errorf("got %d, %v; want 1229", got, err)
	}
}

// Tests can share the pool at the same time, too.
func TestNodesAreContainers(t *testing.T) {
	t.Parallel()
	results, err := onPool(t).Broadcast(gputrain.Cmd("uname", "-s"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if got := strings.TrimSpace(string(r.Stdout)); got != "Linux" {
			t.Errorf("node %d is %q", r.Node.Rank, got)
		}
	}
}

// A function is Go, and needs no node to be tested.
func TestIsPrime(t *testing.T) {
	for n, want := range map[int]bool{2: true, 9: false, 97: true, 7919: true, 7917: false} {
		if isPrime(n) != want {
			t.Errorf("isPrime(%d) is not %v", n, want)
		}
	}
}
