package report_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/unzip"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/report"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/sim"
)

// bundled returns the files of a bundle.
func bundled(t *testing.T, rec *observe.Recorder, pool *gputrain.Compute) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle.zip")
	if err := report.WriteBundle(t.Context(), path, rec, pool); err != nil {
		t.Fatal(err)
	}
	return unzip.Texts(t, path)
}

// ending returns the text of the only file whose name ends so.
func ending(t *testing.T, texts map[string]string, end string) string {
	t.Helper()
	var found []string
	for name := range texts {
		if strings.HasSuffix(name, end) {
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		t.Errorf("%q end with %q, of %q\n%s", found, end, slices.Sorted(maps.Keys(texts)), texts["MISSING.txt"])
		return ""
	}
	return texts[found[0]]
}

// A bundle of a real pool has what a failed task printed, what its node says, and no secret of this program.
func TestBundleOfAPool(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("REPORT_TEST_TOKEN", "correct-horse-battery")
	rec, err := observe.New(observe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{Nodes: 2}, gputrain.WithName("digits"), rec.Option())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	bad := gputrain.Script("echo loading; echo correct-horse-battery >&2; echo no such column >&2; exit 3")
	bad.Name = "train"
	if _, err := pool.Run(bad); err == nil {
		t.Fatal("the task did not fail")
	}
	recorded := func(run observe.Run) bool {
		return len(run.Failures) == 1 && len(run.Tasks) == 1 && len(run.Tasks[0].Lines) == 3
	}
	for end := time.Now().Add(time.Minute); !recorded(rec.Run()) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	texts := bundled(t, rec, pool)
	for name, want := range map[string]string{
		"CAUSE.txt": "exit code 3", "/stdout.txt": "loading", "/stderr.txt": "[redacted]\nno such column\n", "/task.json": `"name": "train"`, "/df.txt": "Mounted on", "/ps.txt": "COMMAND", "/supervisor.txt": "\n== journal\nS ",
		"/node.json": `"state": "ready"`, "ledger.json": `"state": "open"`, "spec.json": `"nodes": 2`, "report.html": "no such column", "run.json": pool.ID(), "events.jsonl": `"kind":"task"`,
	} {
		if got := ending(t, texts, name); !strings.Contains(got, want) {
			t.Errorf("%s lacks %q: %.500q", name, want, got)
		}
	}
	var token strings.Builder // by which the node knows its processes
	if err := pool.Shell(t.Context(), 0, strings.NewReader("cat ../t/mark\n"), &token, nil); err != nil || token.Len() < 20 {
		t.Errorf("the node's token is %q, %v", &token, err)
	}
	for name, text := range texts {
		if strings.Contains(text, "correct-horse") || strings.Contains(text, strings.TrimSpace(token.String())) {
			t.Errorf("%s has a secret", name)
		}
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if texts := bundled(t, rec, pool); !strings.Contains(texts["CAUSE.txt"], "exit code 3") || !strings.Contains(texts["MISSING.txt"], "it is terminated, and takes no commands") {
		t.Errorf("%s\n%s", texts["CAUSE.txt"], texts["MISSING.txt"])
	}
}

// A pool that did not open has a bundle that says which phase failed.
func TestBundleOfAPoolThatDidNotOpen(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	rec, err := observe.New(observe.Config{File: filepath.Join(t.TempDir(), "events")})
	if err != nil {
		t.Fatal(err)
	}
	spec := gputrain.Spec{MaxReplacements: -1, Image: gputrain.Image{Setup: []string{"true", "echo no compiler here >&2; exit 7"}}}
	if _, err := gputrain.Open(context.Background(), local.Config{}, spec, rec.Option()); err == nil {
		t.Fatal("the pool opened")
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	texts := bundled(t, rec, nil)
	if cause := texts["CAUSE.txt"]; !strings.Contains(cause, "setup 2/2") || !strings.Contains(cause, "no compiler here") {
		t.Errorf("CAUSE.txt:\n%s\nMISSING.txt:\n%s", cause, texts["MISSING.txt"])
	}
}

// A pool that was refused by every offer, or that no offer fits, has a bundle that says so.
func TestBundleOfARefusedLaunch(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	cloud := sim.New(sim.Options{Quota: -1})
	defer cloud.Close()
	for _, tt := range []struct {
		provider gputrain.Provider
		spec     gputrain.Spec
		want     []string
	}{
		{sim.Config{Cloud: cloud}, gputrain.Spec{MaxOffers: 2}, []string{"Failed first: node 0", "quota exceeded", "ask for quota"}},
		{local.Config{}, gputrain.Spec{VCPUs: 1e6}, []string{"Failed first: pool", "no offers", "vCPUs; the spec asks for"}},
	} {
		rec, err := observe.New(observe.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gputrain.Open(t.Context(), tt.provider, tt.spec, rec.Option()); err == nil {
			t.Fatal("the pool opened")
		}
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		cause := bundled(t, rec, nil)["CAUSE.txt"]
		for _, want := range tt.want {
			if !strings.Contains(cause, want) {
				t.Errorf("CAUSE.txt lacks %q:\n%s", want, cause)
			}
		}
	}
}
