//go:build unix

package hosts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/strangertest"
	"github.com/gputrain/gputrain/providers/local"
)

// Another user of this computer attacks the files of a pool in a shared temporary folder, and its state directory
// there: with names created in advance, with links, and with processes that claim to be the pool's. The attacks read
// nothing, redirect nothing and block nothing, and the other user's files and processes are not changed.
func TestNeighbour(t *testing.T) {
	strangertest.Need(t)
	shared, precious := strangertest.Shared(t), t.TempDir()
	t.Setenv("TMPDIR", shared)
	strangertest.Run(t, `cd "$1" && mkdir -m 777 gputrain.local-0 gputrain-0 gputrain results && ln -s "$2" workers`, shared, precious)
	state := filepath.Join(shared, "state")

	open := func(name string) *gputrain.Compute {
		pool, err := gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{Nodes: 2, Concurrency: 2}, gputrain.WithName(name), gputrain.WithStateDir(state))
		if err != nil {
			t.Fatal(err)
		}
		return pool
	}
	pool, other := open("attacked"), open("beside")
	node := pool.Nodes()[0].Name
	marks := []string{"GPUTRAIN_POOL=" + pool.ID(), "GPUTRAIN_NODE=" + node, "GPUTRAIN_HOMES=" + shared}
	stranger := strangertest.Start(t, marks...)
	strangertest.Run(t, `cd "$1" && mkdir -m 777 "gputrain-$2" "gputrain-$2-0" "gputrain-$2-7" "gputrain-results-$2" && ln -s "$3" "gputrain-$4"`,
		shared, pool.ID(), precious, node)
	theirs := entries(t, shared, strangertest.UID)

	// A task of another pool uses the name of a node of this pool.
	beside := "BESIDE=" + other.ID()
	job := other.Start(gputrain.Script("export " + beside + " GPUTRAIN_POOL=" + pool.ID() + " GPUTRAIN_NODE=" + node + "; exec sleep 600"))
	e2etest.Until(t, "a task of another pool", func() bool { return len(e2etest.ProcessesWith(beside)) > 0 })

	work := func(pool *gputrain.Compute) gputrain.Result {
		task := gputrain.Script("mkdir -p out; echo kept >out/file; yes | head -c 3000000")
		task.Outputs = []string{"out/**"}
		r, err := pool.Run(task)
		if err != nil || r.StdoutFile == "" || len(r.Outputs) != 1 {
			t.Fatalf("%v: %q, %+v", err, r.StdoutFile, r.Outputs)
		}
		if d, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4}); err != nil || d != 25 {
			t.Errorf("a function on a node: %v, %v", d, err)
		}
		return r
	}
	r := work(pool)
	results := filepath.Dir(filepath.Dir(r.StdoutFile))
	if filepath.Dir(results) != filepath.Join(state, "results") || !strings.HasPrefix(filepath.Base(results), pool.ID()+"-") {
		t.Errorf("the results are in %s", results)
	}
	sees := func() {
		t.Helper()
		ours := entries(t, shared, os.Getuid())
		for _, name := range ours {
			if open := strangertest.Opens(t, filepath.Join(shared, name)); len(open) > 0 {
				t.Errorf("another user can open %v", open)
			}
		}
		if len(ours) < 2 { // the state directory, and the folder of the homes
			t.Errorf("this user's files are %v", ours)
		}
	}
	sees()

	// Another program attaches to the pool and uses the same results folder.
	later, err := gputrain.Attach(t.Context(), local.Config{}, pool.ID(), gputrain.WithStateDir(state), gputrain.WithTakeover())
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); !errors.Is(err, gputrain.ErrFenced) {
		t.Errorf("the older program: %v", err)
	}
	if again := filepath.Dir(filepath.Dir(work(later).StdoutFile)); again != results {
		t.Errorf("after Attach the results are in %s, and were in %s", again, results)
	}
	sees()
	if err := later.Close(); err != nil {
		t.Error(err)
	}
	pools, err := gputrain.StateDir(state).Reap(t.Context(), local.Config{})
	if err != nil {
		t.Errorf("reaped %+v, %v", pools, err)
	}
	if !strangertest.Lives(t, stranger) {
		t.Error("another user's process was ended as if it were the pool's")
	}
	job.Cancel()
	var failure *gputrain.TaskError
	if _, err := job.Wait(); !errors.As(err, &failure) || failure.Cause != gputrain.CauseCancelled {
		t.Errorf("the task of another pool ended by itself: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(r.OutputDir, r.Outputs[0].Name)); err != nil || string(got) != "kept\n" {
		t.Errorf("after Close the output is %q, %v", got, err)
	}
	if left := entries(t, shared, strangertest.UID); !slices.Equal(left, theirs) {
		t.Errorf("another user's files are %v, and were %v", left, theirs)
	}
	if left := entries(t, shared, os.Getuid()); !slices.Equal(left, []string{"state"}) {
		t.Errorf("this user's files are still %v", left)
	}
	if left := entries(t, precious, os.Getuid()); len(left) > 0 {
		t.Errorf("a link led to %v", left)
	}
}

// A state directory that another user created, or that is reached by another user's link, is refused with advice, and
// nothing is created.
func TestNeighboursStateDirectory(t *testing.T) {
	shared, precious := strangertest.Shared(t), t.TempDir()
	strangertest.Run(t, `cd "$1" && mkdir -m 777 theirs && ln -s "$2" link`, shared, precious)
	for _, path := range []string{"theirs", "theirs/state", "link", "link/state"} {
		path = filepath.Join(shared, path)
		_, err := gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{}, gputrain.WithStateDir(path))
		var failure *gputrain.Error
		if !errors.Is(err, gputrain.ErrLedger) || !errors.As(err, &failure) || failure.Hint == "" || !strings.Contains(err.Error(), "another user's") {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := gputrain.StateDir(path).Pools(); !errors.Is(err, gputrain.ErrLedger) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if left := entries(t, precious, os.Getuid()); len(left) > 0 {
		t.Errorf("a link led to %v", left)
	}
}

// entries returns the names in a folder that belong to a user.
func entries(t *testing.T, dir string, uid int) []string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		if info, err := e.Info(); err == nil && strangertest.Owner(info) == uid {
			names = append(names, e.Name())
		}
	}
	return names
}
