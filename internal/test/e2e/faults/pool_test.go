package faults

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/local"
)

func lostNodesTasksRunElsewhere(t *testing.T) {
	w := &e2etest.Wrapped{Provider: local.Config{Dir: t.TempDir()}}
	pool, err := gputrain.Open(t.Context(), w, gputrain.Spec{Nodes: 2, MaxReplacements: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	mark := filepath.Join(t.TempDir(), "mark")
	started := make(chan gputrain.Result, 1)
	task := gputrain.Script(`if [ ! -e "` + mark + `" ]; then echo $GPUTRAIN_NODE_RANK > "` + mark + `"; sleep 600; fi; echo $GPUTRAIN_NODE_RANK`)
	go func() { r, _ := pool.Run(task); started <- r }()
	var first []byte
	e2etest.Until(t, "the task's start", func() bool { first, _ = os.ReadFile(mark); return len(first) > 0 })
	rank := int(first[0] - '0')
	if err := w.Opened.Driver.Terminate(t.Context(), pool.Nodes()[rank].ID); err != nil {
		t.Fatal(err)
	}
	r := <-started
	if r.Err != nil || r.Attempts != 2 || r.Node.Rank == rank {
		t.Errorf("%d attempts, on node %d after %d, %v", r.Attempts, r.Node.Rank, rank, r.Err)
	}
	// If the other node is lost too, there is an error instead of an endless wait.
	if err := w.Opened.Driver.Terminate(t.Context(), pool.Nodes()[1-rank].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Run(gputrain.Cmd("sleep", "600")); !errors.Is(err, gputrain.ErrNodeLost) {
		t.Errorf("without a node: %v", err)
	}
}

func poolEndsByItsTTL(t *testing.T) {
	dir := t.TempDir()
	pool, err := gputrain.Open(t.Context(), local.Config{Dir: dir}, gputrain.Spec{TTL: 10 * time.Second}) // opening takes some of that
	if err != nil {
		t.Fatal(err)
	}
	_, err = pool.Run(gputrain.Cmd("sleep", "600"))
	if !errors.Is(err, gputrain.ErrExpired) || !errors.Is(err, context.Canceled) {
		t.Errorf("the task ended with %v", err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	e2etest.WantEmpty(t, dir)
}
