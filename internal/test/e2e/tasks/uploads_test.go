package tasks

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// A replacement of a lost machine gets the files that were uploaded before.
func TestUploadsReachAReplacement(t *testing.T) {
	c := e2etest.RealCloud(t)
	p := e2etest.OpenReal(t, c, gputrain.Spec{})
	if err := p.Upload(e2etest.SomeFile(t), "in/rates"); err != nil {
		t.Fatal(err)
	}
	first := p.Nodes()[0].ID
	if err := c.Vanish(first); err != nil {
		t.Fatal(err)
	}
	e2etest.Until(t, "another machine", func() bool { return p.Nodes()[0].ID != first })
	r, err := p.Run(gputrain.Cmd("cat", "in/rates"))
	if err != nil || string(r.Stdout) != "0.1\n" || r.Node.ID == first {
		t.Errorf("on %s: %q, %v", r.Node.ID, r.Stdout, err)
	}
}

// The option of an upload also applies to nodes that start later.
func TestUploadOptionsAreKept(t *testing.T) {
	p := e2etest.OpenReal(t, e2etest.RealCloud(t), gputrain.Spec{MaxNodes: 2})
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

// A pool without nodes accepts uploads for the nodes that start later.
func TestUploadsReachLaterNodes(t *testing.T) {
	p := e2etest.OpenReal(t, e2etest.RealCloud(t), gputrain.Spec{MaxNodes: 2})
	if err := p.Upload(e2etest.SomeFile(t), "in/rates"); err != nil {
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

// A file that a later upload replaced is not sent to new nodes, so the local file may be gone.
// Uploads into a folder are sent again in their order.
func TestSupersededUploadsAreNotReplayed(t *testing.T) {
	p := e2etest.OpenReal(t, e2etest.RealCloud(t), gputrain.Spec{MaxNodes: 2})
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
