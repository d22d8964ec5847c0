//go:build unix

package supervisor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/internal/test/strangertest"
)

// greps returns a shell command with another grep, and a file that gets a line for each search of all processes.
// Before such a search, killed processes get a second to end.
func greps(t *testing.T, shell, grep string) (command, counts string) {
	t.Helper()
	dir := t.TempDir()
	counts = filepath.Join(dir, "counts")
	text := "#!/bin/sh\ncase $* in */environ*) echo look >>'" + counts + "'; sleep 1 ;; esac\nexec " + grep + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "grep"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return "env PATH='" + dir + "':\"$PATH\" " + shell, counts
}

// The close of an idle node, whose watcher sleeps, searches all processes once.
func TestCloseLooksOnce(t *testing.T) {
	grep, err := exec.LookPath("grep")
	if err != nil {
		t.Fatal(err)
	}
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		cfg := config(t, shell)
		var counts string
		cfg.Shell, counts = greps(t, cfg.Shell, grep)
		n := start(t, connect(t, srv, ""), cfg)
		if r := run(t, n, Spec{Args: []string{"true"}}); r.err != nil || r.Code != 0 {
			t.Fatalf("%+v", r)
		}
		watcher, _, _ := strings.Cut(await(t, n.facts.Root+"/t/watch"), " ")
		if _, err := os.Stat("/proc/" + watcher + "/task/" + watcher + "/children"); err != nil {
			t.Skip("this kernel does not list children")
		}
		until(t, "the watcher's sleep", func() bool {
			b, _ := os.ReadFile("/proc/" + watcher + "/task/" + watcher + "/children")
			return len(b) > 0
		})
		if err := n.Close(context.Background(), true); err != nil {
			t.Error(err)
		}
		if looks := await(t, counts); looks != "look\n" {
			t.Errorf("it looked %d times", strings.Count(looks, "\n"))
		}
	})
}

// Busybox's grep finds processes that have left their task, whatever precedes the node's name in their environment.
func TestStraysByBusybox(t *testing.T) {
	needShell(t, "busybox ash")
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		cfg := config(t, shell)
		cfg.Shell, _ = greps(t, cfg.Shell, "busybox grep")
		n := start(t, connect(t, srv, ""), cfg)
		stray := strangertest.Sleeping(t, "A=b", "GPUTRAIN_NODE="+cfg.PoolID)
		other := strangertest.Sleeping(t, "A=b", "GPUTRAIN_NODE="+cfg.PoolID+"-b")
		if err := n.Close(context.Background(), true); err != nil {
			t.Error(err)
		}
		if strangertest.Lives(t, stray) {
			t.Error("a process with the node's name is left")
		}
		if !strangertest.Lives(t, other) {
			t.Error("a process of another node was ended")
		}
	})
}
