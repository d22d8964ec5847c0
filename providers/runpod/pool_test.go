//go:build unix

package runpod

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
)

var addRank = gputrain.Func("runpod/addRank", func(ctx context.Context, n int) (int, error) {
	return n + gputrain.ThisNode(ctx).Rank, nil
})

// A pool works from Open to Close, with a command and a function on each node, and
// leaves nothing, although the answer of one create is lost.
func TestPool(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Inject(fakecloud.Fault{Op: opCreate, After: true, Cut: true})
	dir := t.TempDir()
	pool, err := gputrain.Open(t.Context(), f.config(), gputrain.Spec{Nodes: 2, TTL: time.Hour}, gputrain.WithName("train"), gputrain.WithStateDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	use(t, pool)
	if live := f.live(); len(live) != 2 || !strings.HasPrefix(live[0], "gputrain-train-") {
		t.Errorf("%v", live)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) > 0 {
		t.Errorf("left: %v", live)
	}
}

// use runs a command and a function on each node.
func use(t *testing.T, pool *gputrain.Compute) {
	t.Helper()
	results, err := pool.Broadcast(gputrain.Script("echo $GPUTRAIN_NODE_RANK"))
	if err != nil {
		t.Fatal(err)
	}
	for rank, r := range results {
		if want := string(rune('0' + rank)); strings.TrimSpace(string(r.Stdout)) != want {
			t.Errorf("node %d says %q", rank, r.Stdout)
		}
	}
	sums, err := addRank.Broadcast(pool, 40)
	if err != nil || len(sums) != 2 || sums[0] != 40 || sums[1] != 41 {
		t.Errorf("%v, %v", sums, err)
	}
}

// A pool that finds no capacity leaves nothing.
func TestPoolWithoutRoom(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Do(func() { f.room = 1 })
	dir := t.TempDir()
	_, err := gputrain.Open(t.Context(), f.config(), gputrain.Spec{Nodes: 2, MaxReplacements: -1}, gputrain.WithStateDir(dir))
	if !errors.Is(err, driver.ErrNoCapacity) {
		t.Errorf("%v", err)
	}
	if live := f.live(); len(live) > 0 {
		t.Errorf("left: %v", live)
	}
}
