package gputrain_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// These nodes are real processes with real files.
func realCloud(t *testing.T) *sim.Cloud {
	t.Helper()
	c := sim.New(sim.Options{Dir: t.TempDir()})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func openReal(t *testing.T, c *sim.Cloud, spec gputrain.Spec) *gputrain.Compute {
	t.Helper()
	p, err := gputrain.Open(t.Context(), sim.Config{Cloud: c}, spec, gputrain.WithResultsDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func someFile(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rates")
	if err := os.WriteFile(name, []byte("0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The machine that takes a lost one's place has what was uploaded before.
func TestUploadsReachAReplacement(t *testing.T) {
	c := realCloud(t)
	p := openReal(t, c, gputrain.Spec{})
	if err := p.Upload(someFile(t), "in/rates"); err != nil {
		t.Fatal(err)
	}
	first := p.Nodes()[0].ID
	if err := c.Vanish(first); err != nil {
		t.Fatal(err)
	}
	until(t, "another machine", func() bool { return p.Nodes()[0].ID != first })
	r, err := p.Run(gputrain.Cmd("cat", "in/rates"))
	if err != nil || string(r.Stdout) != "0.1\n" || r.Node.ID == first {
		t.Errorf("on %s: %q, %v", r.Node.ID, r.Stdout, err)
	}
}

// What an upload's option was counts for nodes that come later too, and for a pool
// that was attached to.
func TestUploadOptionsAreKept(t *testing.T) {
	p := openReal(t, realCloud(t), gputrain.Spec{MaxNodes: 2})
	dir := files(t, map[string]string{"up/f": "mine", "up/outside": "-> ../secret", "secret": "secret"})
	if err := p.Upload(filepath.Join(dir, "up"), "skipped", gputrain.SkipOutsideLinks()); err != nil {
		t.Fatal(err)
	}
	if err := p.Upload(filepath.Join(dir, "up"), "followed", gputrain.FollowOutsideLinks()); err != nil {
		t.Fatal(err)
	}
	if err := p.Upload(filepath.Join(dir, "up"), "refused"); !errors.Is(err, gputrain.ErrOutsideLink) {
		t.Fatalf("error %v", err)
	}
	r, err := p.Run(gputrain.Script("ls skipped; cat followed/outside; ls -d refused 2>/dev/null; true"))
	if err != nil || string(r.Stdout) != "f\nsecret" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
}

// A pool that has no node yet takes files for those that come.
func TestUploadsReachLaterNodes(t *testing.T) {
	p := openReal(t, realCloud(t), gputrain.Spec{MaxNodes: 2})
	if err := p.Upload(someFile(t), "in/rates"); err != nil {
		t.Fatal(err)
	}
	results, err := p.Gather(gputrain.Cmd("cat", "in/rates"), gputrain.Cmd("cat", "in/rates"))
	for _, r := range results {
		if string(r.Stdout) != "0.1\n" {
			t.Errorf("%q, %v", r.Stdout, r.Err)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A file that another was uploaded in place of is not sent again, so it may be gone here.
// What went into a folder stays there, in the order in which it was uploaded.
func TestSupersededUploadsAreNotReplayed(t *testing.T) {
	p := openReal(t, realCloud(t), gputrain.Spec{MaxNodes: 2})
	dir := files(t, map[string]string{"step-1": "one", "step-2": "two", "src/a": "a of src", "src/b": "b of src"})
	upload := func(local, remote string) {
		t.Helper()
		if err := p.Upload(filepath.Join(dir, local), remote); err != nil {
			t.Fatal(err)
		}
	}
	upload("step-1", "model")
	upload("src", "src")
	upload("step-2", "src/b")
	upload("step-2", "src/c")
	upload("step-2", "model")
	if err := os.Remove(filepath.Join(dir, "step-1")); err != nil {
		t.Fatal(err)
	}
	if err := p.Resize(2); err != nil {
		t.Fatal(err)
	}
	results, err := p.Broadcast(gputrain.Script("cat model src/a src/b src/c"))
	if err != nil || len(results) != 2 {
		t.Fatal(results, err)
	}
	for _, r := range results {
		if string(r.Stdout) != "twoa of srctwotwo" {
			t.Errorf("node %d has %q", r.Node.Rank, r.Stdout)
		}
	}
}
