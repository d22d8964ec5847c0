package e2etest

import (
	"context"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

// Open opens a pool of local nodes, and closes it at the end of the test.
func Open(t testing.TB, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	return OpenIn(t, t.Context(), spec, opts...)
}

// OpenIn is Open with a context of the test's own.
func OpenIn(t testing.TB, ctx context.Context, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	opts = append([]gputrain.Option{gputrain.WithResultsDir(t.TempDir())}, opts...)
	pool, err := gputrain.Open(ctx, local.Config{Dir: t.TempDir()}, spec, opts...)
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
