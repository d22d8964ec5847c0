package gputrain_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/ledger"
)

// Pools names the folders with a dead program's results, including those of older versions in the
// folder for temporary files. Reap does not remove them.
func TestPoolsNameResults(t *testing.T) {
	state, tmp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("TMP", tmp) // Windows
	dir, err := ledger.OpenDir(state)
	if err != nil {
		t.Fatal(err)
	}
	l, err := dir.Create(ledger.Header{Pool: "p-1", Provider: "empty", Account: "empty", Lease: time.Minute}, []byte("key"))
	if err := errors.Join(err, l.Close(false)); err != nil {
		t.Fatal(err)
	}
	mine := []string{filepath.Join(state, "results", "p-1-abcd"), filepath.Join(state, "results", "p-1-efgh"), filepath.Join(tmp, "gputrain-results-p-1")}
	for _, path := range append([]string{filepath.Join(state, "results", "p-1-2-abcd"), filepath.Join(tmp, "gputrain-results-p-1-2"), filepath.Join(tmp, "p-1-abcd")}, mine...) {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "model"), []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(tmp, filepath.Join(state, "results", "p-1-link")); err != nil {
		t.Log(err)
	}
	pools, err := gputrain.StateDir(state).Pools()
	if err != nil || len(pools) != 1 || !slices.Equal(pools[0].Results, mine) {
		t.Fatalf("%+v, %v; want the results %q", pools, err, mine)
	}
	if _, err := gputrain.StateDir(state).Reap(t.Context(), emptyAccount{}); err != nil {
		t.Fatal(err)
	}
	if pools, err := gputrain.StateDir(state).Pools(); err != nil || len(pools) != 0 {
		t.Errorf("after Reap: %+v, %v", pools, err)
	}
	for _, path := range mine {
		if got, err := os.ReadFile(filepath.Join(path, "model")); err != nil || string(got) != "precious" {
			t.Errorf("Reap has changed %s: %q, %v", path, got, err)
		}
	}
}
