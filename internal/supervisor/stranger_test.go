//go:build unix

package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/internal/test/strangertest"
)

// Other users of a node's machine, and other pools there, have processes with the node's name in
// their environment. The end of the node does not end those processes.
func TestForgedMarks(t *testing.T) {
	strangertest.Need(t)
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		c := connect(t, srv, "")
		cfg, neighbour := config(t, shell), config(t, shell)
		n, other := start(t, c, cfg), start(t, c, neighbour)
		name := "GPUTRAIN_NODE=" + cfg.PoolID
		stranger := strangertest.Start(t, name)
		wrong := strangertest.Start(t, name, "GPUTRAIN_NODE_TOKEN=wrong")
		joined := strangertest.Sleeping(t, "GPUTRAIN_NODE_TOKEN=another", "X=\n"+name)
		mine := strangertest.Sleeping(t, name) // as a session leaves it that was cut

		// This is a task of another pool with this node's name in its environment.
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		started, over := make(chan struct{}), make(chan result, 1)
		go func() {
			over <- runCtx(ctx, other, Spec{Script: "exec sleep 600", Env: map[string]string{"GPUTRAIN_NODE": cfg.PoolID}}, func() { close(started) })
		}()
		<-started
		// This is a process of the node itself that has left its session.
		if r := run(t, n, Spec{Script: "setsid sleep 600 >/dev/null 2>&1 </dev/null & echo $!"}); r.err != nil {
			t.Fatal(r.err)
		}
		token := tokenOf(t, n)
		if r := run(t, n, Spec{Script: "echo $GPUTRAIN_NODE_TOKEN"}); strings.TrimSpace(r.out) != token || token == tokenOf(t, other) {
			t.Errorf("a task has the token %q, and the node %q", r.out, token)
		}
		for _, line := range processes(t, "GPUTRAIN_NODE_TOKEN="+token) {
			if strings.Contains(line, token) {
				t.Errorf("every user can read the token: %s", line)
			}
		}

		if err := n.Close(t.Context(), true); err != nil {
			t.Error(err)
		}
		if left := processes(t, "GPUTRAIN_NODE_TOKEN="+token); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		for _, pid := range []int{stranger, wrong, joined} {
			if !strangertest.Lives(t, pid) {
				t.Errorf("process %d was ended", pid)
			}
		}
		if strangertest.Lives(t, mine) {
			t.Error("a process of this user with the node's name is left")
		}
		cancel()
		if r := <-over; r.Cause != Cancelled {
			t.Errorf("another pool's task ended by itself: %+v", r)
		}
	})
}

func tokenOf(t *testing.T, n *Node) string {
	t.Helper()
	token, err := os.ReadFile(n.Facts().Root + "/t/mark")
	if err != nil || len(token) < 30 {
		t.Fatalf("the node's token: %q, %v", token, err)
	}
	return strings.TrimSpace(string(token))
}

// If the home folder is not writable, the pool's folder is in a folder that all users share. Another user has taken
// its name before.
func TestStrangersFolders(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		for name, script := range map[string]string{
			"folder": `mkdir -m 777 "$1"`, "whole": `mkdir -m 777 -p "$1/pools/$3/t" && echo evil >"$1/pools/$3/session.pl"`,
			"link": `ln -s "$2" "$1"`, "dangling": `ln -s "$2/x" "$1"`, "file": `echo x >"$1"`,
		} {
			t.Run(name, func(t *testing.T) {
				shared, precious := strangertest.Shared(t), t.TempDir()
				cfg := config(t, shell)
				cfg.Root, cfg.Shell = "", "env HOME=/nowhere TMPDIR='"+shared+"' "+cfg.Shell
				usual := filepath.Join(shared, "gputrain-0")
				strangertest.Run(t, script, usual, precious, cfg.PoolID)
				n, err := Start(t.Context(), connect(t, srv, ""), cfg)
				if err != nil {
					t.Fatal(err)
				}
				base := filepath.Dir(filepath.Dir(n.Facts().Root))
				if info, err := os.Lstat(base); err != nil || !strings.HasPrefix(base, usual+"-") || info.Mode().Perm() != 0o700 {
					t.Errorf("the pool's folder is in %s: %v, %v", base, info, err)
				}
				if r := run(t, n, Spec{Script: "echo hidden >file; cat file", Secrets: map[string]string{"S": "x"}}); r.out != "hidden\n" {
					t.Errorf("%+v", r)
				}
				if open := strangertest.Opens(t, base); len(open) > 0 {
					t.Errorf("another user can open %v", open)
				}
				// Another node of the machine finds the same folder.
				again := cfg
				again.PoolID += "-b"
				m, err := Start(t.Context(), connect(t, srv, ""), again)
				if err != nil {
					t.Fatal(err)
				}
				if filepath.Dir(m.Facts().Root) != filepath.Dir(n.Facts().Root) {
					t.Errorf("nodes are in %s and %s", m.Facts().Root, n.Facts().Root)
				}
				for _, n := range []*Node{m, n} {
					if err := n.Close(t.Context(), true); err != nil {
						t.Error(err)
					}
				}
				if left, err := os.ReadDir(shared); err != nil || len(left) != 1 || left[0].Name() != "gputrain-0" {
					t.Errorf("left: %v, %v", left, err)
				}
				if left, err := os.ReadDir(precious); err != nil || len(left) > 0 {
					t.Errorf("a link led to %v, %v", left, err)
				}
			})
		}
	})
}

// The folder was removed, as when /tmp is emptied, and another user made it again, with programs to be run there.
func TestStrangerTakesThePlace(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		shared := strangertest.Shared(t)
		cfg := config(t, shell)
		cfg.Root = ""
		cfg.Shell = "env HOME=/nowhere TMPDIR='" + shared + "' " + cfg.Shell
		n, err := Start(t.Context(), connect(t, srv, ""), cfg)
		if err != nil {
			t.Fatal(err)
		}
		root := n.Facts().Root
		if err := n.Close(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		evil := filepath.Join(shared, "evil")
		strangertest.Run(t, `mkdir -p "$1/t" "$1/work" "$1/s" && chmod -R 777 "$1" && cd "$1" &&
			echo "2 1 60 0 $1" >t/pool && echo "system('touch $2')" | tee session.pl >runner.pl && chmod 666 t/pool *.pl`, root, evil)
		cfg.Root, cfg.Lease = root, time.Minute
		if m, _, err := Attach(t.Context(), connect(t, srv, ""), cfg); err == nil {
			t.Error("attached to another user's folder")
			m.Close(t.Context(), false)
		}
		if _, err := os.Lstat(evil); err == nil {
			t.Error("another user's program ran")
		}
		// A later close of the node does not wait for that, and keeps the other user's files.
		later, err := newNode(t.Context(), connect(t, srv, ""), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := later.Close(t.Context(), true); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(root, "t", "pool")); err != nil {
			t.Errorf("another user's folder was changed: %v", err)
		}
	})
}

// If a task's process ID now belongs to another user's process, that process is not ended as the task's, whatever
// it claims to be.
func TestRecoveryOfForgedTasks(t *testing.T) {
	strangertest.Need(t)
	n := start(t, connect(t, opensshtest.Start(t), ""), config(t, "perl"))
	stranger := strangertest.Start(t, "GPUTRAIN_TASK=t-1")
	var journal *os.File
	until(t, "the runner's journal", func() (there bool) {
		var err error
		journal, err = os.OpenFile(n.facts.Root+"/t/journal", os.O_WRONLY|os.O_APPEND, 0)
		return err == nil
	})
	if _, err := fmt.Fprintf(journal, "S t-1\nP t-1 %d\n", stranger); err != nil {
		t.Fatal(err)
	}
	journal.Close()
	killRunner(t, n)
	if r := run(t, n, Spec{ID: "t-1", Args: []string{"true"}}); r.Cause != Vanished {
		t.Errorf("the journal was not read: %+v", r)
	}
	if !strangertest.Lives(t, stranger) {
		t.Error("another user's process was ended as a task")
	}
}
