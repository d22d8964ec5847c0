package tasks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/local"
)

// files creates a temporary folder with text files, and with links for texts of the form "-> target".
func files(t *testing.T, of map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range of {
		name = filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if target, link := strings.CutPrefix(text, "-> "); link {
			err = errors.Join(err, os.Symlink(target, name))
		} else {
			err = errors.Join(err, os.WriteFile(name, []byte(text), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run runs a script on every node and returns the output of the first one.
func run(t *testing.T, pool *gputrain.Compute, script string) string {
	t.Helper()
	results, err := pool.Broadcast(gputrain.Script(script))
	if err != nil {
		t.Fatal(err)
	}
	return string(results[0].Stdout)
}

// TestUploadSendsNothingFromOutside uploads a folder with a link to a secret outside it.
func TestUploadSendsNothingFromOutside(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 1})
	dir := files(t, map[string]string{"up/f": "mine", "up/inside": "-> f", "up/outside": "-> ../secret", "secret": "secret"})
	up := filepath.Join(dir, "up")
	err := pool.Upload(up, "refused")
	if !errors.Is(err, gputrain.ErrOutsideLink) || !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), `"outside" -> "../secret"`) || strings.Contains(err.Error(), `"inside"`) {
		t.Errorf("error %v", err)
	}
	if err := pool.Upload(up, "skipped", gputrain.SkipOutsideLinks()); err != nil {
		t.Error(err)
	}
	if err := pool.Upload(up, "followed", gputrain.FollowOutsideLinks()); err != nil {
		t.Error(err)
	}
	got := run(t, pool, `ls -d refused 2>/dev/null; ls skipped followed; cat skipped/inside followed/outside`)
	if want := "followed:\nf\ninside\noutside\n\nskipped:\nf\ninside\nminesecret"; got != want {
		t.Errorf("the node has %q, want %q", got, want)
	}
	for name, opts := range map[string][]gputrain.FileOption{
		"KeepOutsideLinks": {gputrain.KeepOutsideLinks()}, "two": {gputrain.SkipOutsideLinks(), gputrain.FollowOutsideLinks()},
	} {
		if err := pool.Upload(up, "x", opts...); !errors.Is(err, gputrain.ErrInvalid) || errors.Is(err, gputrain.ErrOutsideLink) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := pool.Download("skipped", t.TempDir(), gputrain.FollowOutsideLinks()); !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("a download that follows links: error %v", err)
	}
}

// TestDownloadPlacesNoLinkOutside downloads a folder with links that point outside it, and uploads it again.
func TestDownloadPlacesNoLinkOutside(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	run(t, pool, `mkdir -p d/sub; echo f >d/f; ln -s ../f d/sub/inside; ln -s ../../.. d/sub/outside; ln -s /etc/passwd d/absolute; mkfifo d/pipe`)
	dir := t.TempDir()
	err := pool.Download("d", dir)
	for _, said := range []string{"node 0: download d: ", "node 1: download d: ", `"sub/outside" -> "../../.."`, `"absolute" -> "/etc/passwd"`, "KeepOutsideLinks"} {
		if !errors.Is(err, gputrain.ErrOutsideLink) || !strings.Contains(err.Error(), said) {
			t.Errorf("error %v, want one with %q", err, said)
		}
	}
	list := func(dir string) string {
		names, _ := filepath.Glob(dir + "/*/d/*")
		subs, _ := filepath.Glob(dir + "/*/d/sub/*")
		var b strings.Builder
		for _, n := range append(names, subs...) {
			name, _ := filepath.Rel(dir, n)
			target, _ := os.Readlink(n)
			fmt.Fprintln(&b, name, target)
		}
		return b.String()
	}
	const whole = "0/d/f \n0/d/sub \n1/d/f \n1/d/sub \n0/d/sub/inside ../f\n1/d/sub/inside ../f\n"
	if got := list(dir); got != whole {
		t.Errorf("%s arrived, want %s", got, whole)
	}
	if err := pool.Upload(dir, "again"); err != nil {
		t.Errorf("the downloaded folder cannot be uploaded: %v", err)
	}
	skipped := t.TempDir()
	if err := pool.Download("d", skipped, gputrain.SkipOutsideLinks()); err != nil || list(skipped) != whole {
		t.Errorf("without outside links there is %s, %v", list(skipped), err)
	}
	kept := t.TempDir()
	if err := pool.Download("d", kept, gputrain.KeepOutsideLinks()); err != nil || !strings.Contains(list(kept), "0/d/absolute /etc/passwd\n") {
		t.Errorf("with outside links there is %s, %v", list(kept), err)
	}
}

// TestDownloadFollowsNoLinkHere downloads into folders that are links on this machine. Only the destination itself may
// be a link.
func TestDownloadFollowsNoLinkHere(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 1})
	run(t, pool, `mkdir -p .ssh; echo evil >.ssh/authorized_keys`)
	for _, at := range []string{"to/0", "to/0/.ssh"} {
		dir := files(t, map[string]string{"home/.ssh/config": "untouched", at: "-> " + strings.Repeat("../", strings.Count(at, "/")) + "home/.ssh"})
		err := pool.Download(".ssh", filepath.Join(dir, "to"))
		if err == nil || !strings.Contains(err.Error(), "node 0: download .ssh: ") || !strings.Contains(err.Error(), "is a link") {
			t.Errorf("%s: error %v", at, err)
		}
		if found, _ := filepath.Glob(dir + "/home/.ssh/*"); len(found) != 1 {
			t.Errorf("%s: the link was followed: there is %q", at, found)
		}
	}
	dir := files(t, map[string]string{"disk/f": "", "to": "-> disk"})
	if err := pool.Download(".ssh", filepath.Join(dir, "to")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "disk/0/.ssh/authorized_keys")); string(text) != "evil\n" {
		t.Errorf("the destination has %q, %v", text, err)
	}
}

func TestDownloadAndOutputsHaveLimits(t *testing.T) {
	for _, tt := range []struct {
		limits gputrain.Limits
		want   string
	}{
		{gputrain.Limits{DownloadBytes: 9}, "Limits.DownloadBytes, by WithLimits"},
		{gputrain.Limits{DownloadFiles: 3}, "Limits.DownloadFiles, by WithLimits"},
	} {
		pool := e2etest.Open(t, gputrain.Spec{Nodes: 1}, gputrain.WithLimits(tt.limits))
		run(t, pool, `mkdir d; for f in a b c d; do printf 123 >d/$f; done`)
		if err := pool.Download("d", t.TempDir()); !errors.Is(err, gputrain.ErrLimit) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v", tt.limits, err)
		}
		if err := pool.Download("d/a", t.TempDir()); err != nil {
			t.Errorf("%+v: a file within the limits: %v", tt.limits, err)
		}
		// The limits apply to the sum over both folders that outputs come from.
		task := gputrain.Script(`mkdir o; for f in a b; do printf 123 >o/$f; done; mkdir "$GPUTRAIN_SCRATCH/o"; for f in c d; do printf 123 >"$GPUTRAIN_SCRATCH/o/$f"; done`)
		task.Outputs = []string{"o/*"}
		var failed *gputrain.TaskError
		_, err := pool.Run(task)
		if !errors.As(err, &failed) || failed.Cause != gputrain.CauseOutputs || !errors.Is(err, gputrain.ErrLimit) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: outputs: %v", tt.limits, err)
		}
	}
}

// TestImageIncludesNothingFromOutside checks that links in Include are refused before a node is rented.
func TestImageIncludesNothingFromOutside(t *testing.T) {
	dir := files(t, map[string]string{"src/f": "mine", "src/inside": "-> f", "secret": "secret"})
	src := filepath.Join(dir, "src")
	spec := gputrain.Spec{Nodes: 1, Image: gputrain.Image{Include: []string{src}}}
	if got := run(t, e2etest.Open(t, spec), `cat src/inside`); got != "mine" {
		t.Errorf("the node has %q", got)
	}
	if err := os.Symlink("../secret", filepath.Join(src, "outside")); err != nil {
		t.Fatal(err)
	}
	pool, err := gputrain.Open(t.Context(), local.Config{}, spec)
	if err == nil {
		pool.Close()
	}
	if !errors.Is(err, gputrain.ErrOutsideLink) || !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), `"outside" -> "../secret"`) {
		t.Errorf("error %v", err)
	}
	spec.Image.FollowOutsideLinks = true
	if got := run(t, e2etest.Open(t, spec), `cat src/outside`); got != "secret" {
		t.Errorf("the node has %q", got)
	}
}

// A download from some nodes has their ranks, and one from none says why there is none.
func TestDownloadFrom(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 3})
	run(t, pool, `echo "$GPUTRAIN_NODE_RANK" >rank; [ "$GPUTRAIN_NODE_RANK" = 1 ] || echo some >some`)
	dir := t.TempDir()
	if err := pool.Download("rank", dir, gputrain.From(gputrain.OnRank(2))); err != nil {
		t.Error(err)
	}
	if err := pool.Download("some", dir, gputrain.From(gputrain.OnRank(0)), gputrain.SkipOutsideLinks()); err != nil {
		t.Error(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if want := []string{filepath.Join(dir, "0", "some"), filepath.Join(dir, "2", "rank")}; err != nil || strings.Join(found, " ") != strings.Join(want, " ") {
		t.Errorf("%q are here, want %q, %v", found, want, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "2", "rank")); string(b) != "2\n" {
		t.Errorf("%q, %v", b, err)
	}
	labels := pool.Nodes()[0].Labels()
	if err := pool.Download("rank", t.TempDir(), gputrain.From(gputrain.OnLabels(map[string]string{gputrain.LabelArch: labels[gputrain.LabelArch]}))); err != nil {
		t.Error(err)
	}
	if err := pool.Download("some", dir, gputrain.From(gputrain.OnRank(1))); err == nil || !strings.Contains(err.Error(), "node 1: download some") {
		t.Errorf("what the node does not have: %v", err)
	}
	for name, tt := range map[string]struct {
		opts []gputrain.FileOption
		says string
	}{
		"no such rank":  {[]gputrain.FileOption{gputrain.From(gputrain.OnRank(3))}, "there is no rank 3"},
		"no such label": {[]gputrain.FileOption{gputrain.From(gputrain.OnLabels(map[string]string{"zone": "x"}))}, "no node has zone=x"},
		"no rank":       {[]gputrain.FileOption{gputrain.From(gputrain.OnRank(-1))}, "negative rank"},
		"twice":         {[]gputrain.FileOption{gputrain.From(gputrain.OnRank(0)), gputrain.From(gputrain.OnRank(1))}, "more than one From"},
	} {
		if err := pool.Download("rank", dir, tt.opts...); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := pool.Upload(dir, "up", gputrain.From(gputrain.Target{})); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "From is for Download only") {
		t.Errorf("upload: %v", err)
	}
}
