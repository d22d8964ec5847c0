package tasks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

// A task that shares its node finds its share of the processors in OMP_NUM_THREADS, and so does a process of a training; what the user
// says comes first. Alone on a node it finds nothing.
func TestThreadsOfASlot(t *testing.T) {
	open := func(spec gputrain.Spec) (*gputrain.Compute, int) {
		t.Helper()
		pool, err := gputrain.Open(t.Context(), local.Config{}, spec)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.Close() })
		return pool, pool.Nodes()[0].VCPUs
	}
	ask := gputrain.Cmd("sh", "-c", `echo "${OMP_NUM_THREADS-none}"`)
	own := ask
	own.Env = map[string]string{"OMP_NUM_THREADS": "7"}
	says := func(what string, pool *gputrain.Compute, task gputrain.Task, want string) {
		t.Helper()
		r, err := pool.Run(task)
		if got := strings.TrimSpace(string(r.Stdout)); got != want || err != nil {
			t.Errorf("%s: %s, not %s; %v", what, got, want, err)
		}
	}
	pool, cpus := open(gputrain.Spec{Concurrency: 2})
	says("two slots", pool, ask, fmt.Sprint(max(cpus/2, 1)))
	says("its own value", pool, own, "7")
	pool, _ = open(gputrain.Spec{Concurrency: 1000})
	says("many slots", pool, ask, "1")
	pool, _ = open(gputrain.Spec{Concurrency: 2, Image: gputrain.Image{Env: map[string]string{"OMP_NUM_THREADS": "9"}}})
	says("the image's value", pool, ask, "9")
	pool, cpus = open(gputrain.Spec{})
	alone, err := pool.Run(ask)
	if got := strings.TrimSpace(string(alone.Stdout)); err != nil || got != "none" && got != "" {
		t.Errorf("alone: %q, %v", got, err)
	}
	trained, err := pool.Train(gputrain.Training{Task: ask, ProcessesPerNode: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range trained.Ranks {
		if got := strings.TrimSpace(string(r.Stdout)); got != fmt.Sprint(max(cpus/2, 1)) {
			t.Errorf("rank %d: %q", i, got)
		}
	}
}
