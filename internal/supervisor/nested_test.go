//go:build unix

package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/internal/test/strangertest"
)

// A node within another node's folder keeps that one as long as its task holds the lease, and not longer.
func TestNodeWithinANode(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		cfg := config(t, shell)
		cfg.Lease = 6 * time.Second
		within := cfg
		outside := newHourglass(t, &cfg)
		outer := begin(t, srv, cfg)
		may, mark := t.TempDir()+"/may", t.TempDir()+"/mark"
		if err := AtEnd(t.Context(), outer.Node, "echo end >>'"+mark+"'"); err != nil {
			t.Fatal(err)
		}
		within.Root, within.Name, within.Cache = outer.facts.Root+"/in", cfg.PoolID+"-in", "/nowhere/cache"
		inside := newHourglass(t, &within)
		inner := begin(t, srv, within)
		if got := inner.Facts().CacheDir; got != within.Cache {
			t.Errorf("its cache is in %q", got)
		}
		inner.launch(t, Spec{ID: "a", Script: "until [ -e '" + may + "' ]; do sleep 0.05; done; echo over >>'" + mark + "'", HoldsLease: true})
		outer.kill()
		inner.kill()
		for range 18 { // three leases
			inside.pass(t, inner.Node, 1)
			outside.pass(t, outer.Node, 1)
		}
		touch(t, may)
		until(t, "the outer node's own end", func() bool {
			inside.turn(t)
			outside.turn(t)
			return isGone(outer.Node)
		})
		if got, err := os.ReadFile(mark); string(got) != "over\nend\n" {
			t.Errorf("the nodes have left %q, %v", got, err)
		}
	})
}

// AtEnd's text runs at the node's close, after its tasks. Close fails as long as the text does.
func TestAtEnd(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		n, err := Start(t.Context(), connect(t, srv, ""), config(t, shell))
		if err != nil {
			t.Fatal(err)
		}
		defer clean(t, n)
		dir := t.TempDir()
		may, seen := filepath.Join(dir, "may"), filepath.Join(dir, "seen")
		text := "pwd >'" + seen + "'\n[ -e '" + may + "' ] || { echo not yet; exit 1; }\n"
		if err := AtEnd(t.Context(), n, "exit 3"); err != nil {
			t.Fatal(err)
		}
		if err := AtEnd(t.Context(), n, text); err != nil {
			t.Fatal(err)
		}
		if r := run(t, n, Spec{Args: []string{"true"}}); r.err != nil || r.Code != 0 {
			t.Errorf("%+v", r)
		}
		if err := n.Close(t.Context(), true); err == nil || !strings.Contains(err.Error(), "end.sh") || !strings.Contains(err.Error(), "not yet") {
			t.Errorf("got %v", err)
		}
		if got, err := os.ReadFile(seen); strings.TrimSpace(string(got)) != n.facts.Root+"/t" {
			t.Errorf("it ran in %q, %v", got, err)
		}
		if err := os.WriteFile(may, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := n.Close(t.Context(), true); err != nil {
			t.Error(err)
		}
	})
}

// AtEnd's text that takes longer than a minute is killed with what it has started, by Close and when the lease lapses.
// For the node, a minute is over at once when the text has begun.
func TestAtEndIsKilled(t *testing.T) {
	srv := opensshtest.Start(t)
	dir := t.TempDir()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	text := "#!/bin/sh\n[ \"$1\" != 0.1 ] || [ ! -s \"$PIDS\" ] || exit 0\n[ \"$1\" != 1 ] || [ ! -e \"$PIDS-lost\" ] || exit 0\nexec " + sleep + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "sleep"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	hangs := func(t *testing.T, n *Node, pids string) (may string) {
		may = pids + "-may"
		if err := AtEnd(t.Context(), n, "[ ! -e '"+may+"' ] || exit 0\nsh -c 'sleep 600; :' & echo $$ $! >'"+pids+"'\nwait\n"); err != nil {
			t.Fatal(err)
		}
		return may
	}
	ended := func(t *testing.T, pids string) {
		for _, pid := range strings.Fields(await(t, pids)) {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			until(t, "the end of what the text has started", func() bool { return !strangertest.Lives(t, n) })
		}
	}
	eachShell(t, func(t *testing.T, shell string) {
		cfg := config(t, shell)
		plain := cfg.Shell
		hurried := func(pids string) string { return "env PIDS='" + pids + "' PATH='" + dir + "':\"$PATH\" " + plain }
		pids := t.TempDir() + "/pids"
		cfg.Shell = hurried(pids)
		n := start(t, connect(t, srv, ""), cfg)
		may := hangs(t, n, pids)
		if err := n.Close(t.Context(), true); err == nil || !strings.Contains(err.Error(), "killed after a minute") {
			t.Errorf("got %v", err)
		}
		ended(t, pids)
		if err := os.WriteFile(may, nil, 0o600); err != nil {
			t.Fatal(err)
		}

		pids = t.TempDir() + "/pids"
		cfg.PoolID, cfg.Root, cfg.Lease, cfg.Shell = cfg.PoolID+"-b", cfg.Root+"-b", 10*time.Second, hurried(pids)
		lost := begin(t, srv, cfg)
		hangs(t, lost.Node, pids)
		lost.kill()
		touch(t, pids+"-lost") // and the lease is over soon
		until(t, "the node's own end", func() bool { return isGone(lost.Node) })
		ended(t, pids)
	})
}
