package tasks

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// A pool of 500 nodes opens, gives every node work, runs each of 5000 commands once, and closes.
// Each node is a server that runs real shells.
func Test500Nodes(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: 2000 processes")
	}
	const nodes, tasks = 500, 5000
	pool := openMany(t, nodes)
	work := make([]gputrain.Task, tasks)
	for i := range work {
		work[i] = gputrain.Script(`echo "$GPUTRAIN_TASK_INDEX on $GPUTRAIN_NODE_RANK"`)
	}
	start := time.Now()
	results, err := pool.Gather(work...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d commands: %v", tasks, time.Since(start))
	served := map[int]int{}
	for i, r := range results {
		if got, want := string(r.Stdout), fmt.Sprintf("%d on %d\n", i, r.Node.Rank); got != want || r.Attempts != 1 {
			t.Errorf("task %d printed %q in %d attempts; want %q in one", i, got, r.Attempts, want)
		}
		served[r.Node.Rank]++
	}
	if len(results) != tasks || len(served) != nodes {
		t.Errorf("%d results from %d nodes", len(results), len(served))
	}
}

// The same for functions, for which each node also runs a process of this program.
func Test5000Calls(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: 32 processes of this program")
	}
	const nodes, calls = 32, 5000
	pool := openMany(t, nodes)
	args := make([]e2etest.Point, calls)
	for i := range args {
		args[i] = e2etest.Point{X: float64(i)}
	}
	start := time.Now()
	results, err := e2etest.Norm.Gather(pool, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls: %v", calls, time.Since(start))
	for i, got := range results {
		if want := float64(i) * float64(i); got != want {
			t.Errorf("call %d returned %g; want %g", i, got, want)
		}
	}
	if len(results) != calls {
		t.Errorf("%d results", len(results))
	}
}

// openMany opens a pool of local nodes, logs how long that took, and checks that all nodes are
// ready.
func openMany(t *testing.T, nodes int) *gputrain.Compute {
	t.Helper()
	start := time.Now()
	pool := e2etest.Open(t, gputrain.Spec{Nodes: nodes})
	t.Logf("%d nodes: %v", nodes, time.Since(start))
	for rank, n := range pool.Nodes() {
		if n.Rank != rank || n.State != gputrain.NodeReady || !strings.HasSuffix(n.Name, strconv.Itoa(rank)) {
			t.Errorf("node %d is %q, %v, of rank %d", rank, n.Name, n.State, n.Rank)
		}
	}
	return pool
}
