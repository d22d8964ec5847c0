package hostile_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/hostile"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/providers/local"
)

var double = gputrain.Func("hostile/double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })

// TestKinds checks that sessions of every kind occur and succeed if no node lies: an attack on a kind that does not
// occur would prove nothing.
func TestKinds(t *testing.T) {
	home := hostile.NewHome(t)
	c := newCloud(t, local.Config{Dir: t.TempDir()}, home)
	pool, err := gputrain.Open(t.Context(), c, gputrain.Spec{Nodes: 2}, gputrain.WithResultsDir(home.Taken), gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	up := t.TempDir()
	write(t, filepath.Join(up, "file"), "up")
	if err := pool.Upload(up, "up"); err != nil {
		t.Fatal(err)
	}
	task := gputrain.Script("mkdir out; cat up/file >out/file; echo said")
	task.Outputs = []string{"out/*"}
	if r, err := pool.Run(task); err != nil || len(r.Outputs) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := pool.Download("up", home.Taken); err != nil {
		t.Fatal(err)
	}
	for rank := range 2 {
		if b, err := os.ReadFile(filepath.Join(home.Taken, fmt.Sprint(rank), "up", "file")); string(b) != "up" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	}
	if n, err := double.Run(pool, 21); n != 42 || err != nil {
		t.Error(n, err)
	}
	r := withShell(t, home)
	write(t, filepath.Join(r.work, "file"), "here")
	if err := download(t.Context(), r.remote(false), "file", home.Taken); err != nil {
		t.Error(err)
	}
	if err := r.remote(true).Upload(t.Context(), filepath.Join(up, "file"), "up", transfer.Options{}); err != nil {
		t.Error(err)
	}
	for _, kind := range hostile.Kinds {
		if c.at(0).Sessions(kind)+c.at(1).Sessions(kind)+r.node.Sessions(kind) == 0 {
			t.Errorf("no session is %q", kind)
		}
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if wrong := home.Changes(); wrong != nil || c.leaked() {
		t.Error(wrong, c.leaked())
	}
}
