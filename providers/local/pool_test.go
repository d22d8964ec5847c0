//go:build unix

package local_test

import (
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

// A node's processes are ended by a mark, which tasks must inherit through all processes
// between them and the node's server.
func TestTasksCarryTheMark(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pool, err := gputrain.Open(t.Context(), local.Config{Dir: dir}, gputrain.Spec{Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	r, err := pool.Run(gputrain.Script("echo $GPUTRAIN_HOMES"))
	if err != nil || string(r.Stdout) != dir+"\n" {
		t.Errorf("a task has %q, %v", r.Stdout, err)
	}
}
