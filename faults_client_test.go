//go:build unix

package gputrain_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/ssh"
)

// A client is what a program that is killed opens: a pool of local nodes in a
// folder, or of hosts.
type client struct {
	Dir   string
	Hosts []ssh.Host
	Lease time.Duration
}

const clientUp = "up: "

// TestClient is no test: it is the program that TestClientThatIsKilled kills.
func TestClient(t *testing.T) {
	text := os.Getenv(clientEnv)
	if text == "" {
		return
	}
	var c client
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	var provider gputrain.Provider = local.Config{Dir: c.Dir}
	if len(c.Hosts) > 0 {
		provider = ssh.Config{Hosts: c.Hosts}
	}
	started := make(chan bool, 100)
	pool, err := gputrain.Open(t.Context(), provider, gputrain.Spec{Nodes: 2, Concurrency: 2, Lease: max(c.Lease, gputrain.MinLease)},
		gputrain.WithEvents(func(e gputrain.Event) {
			if e.Kind == gputrain.EventTask && e.State == "started" {
				started <- true
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for range 2 {
		pool.Start(gputrain.Script(`trap '' TERM; setsid sleep 600 & sleep 600; sleep 600`))
	}
	for range 2 {
		pool.Start(hang.Call(struct{}{}))
	}
	for range 4 {
		<-started
	}
	fmt.Println(clientUp + pool.ID())
	io.Copy(io.Discard, os.Stdin) // until it is killed, or the test has ended
}

// TestClientThatIsKilled kills a program with SIGKILL while its pool works.
// Once the lease is over, its nodes have ended everything by themselves. Reap ends
// at once what a longer lease has left, and its ledger.
func TestClientThatIsKilled(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	reap := func(t *testing.T, providers ...gputrain.Provider) {
		t.Helper()
		if _, err := gputrain.Reap(t.Context(), providers...); err != nil {
			t.Error(err)
		}
		wantNoPools(t, filepath.Join(state, "gputrain"))
	}
	t.Run("local", func(t *testing.T) {
		dir := t.TempDir()
		id := killClient(t, client{Dir: dir})
		until(t, "the end of the pool", func() bool {
			return len(processesWith("GPUTRAIN_POOL="+id)) == 0 && len(tree(dir)) == 0
		})
		reap(t, local.Config{Dir: dir})
	})
	t.Run("local, reaped", func(t *testing.T) {
		dir := t.TempDir()
		id := killClient(t, client{Dir: dir, Lease: time.Hour})
		reap(t, local.Config{Dir: dir})
		if left := append(processesWith("GPUTRAIN_POOL="+id), tree(dir)...); left != nil {
			t.Errorf("left: %v", left)
		}
	})
	t.Run("own hosts", func(t *testing.T) {
		a, b := newHost(t), newHost(t)
		hosts := []ssh.Host{a.host(), b.host()}
		id := killClient(t, client{Hosts: hosts})
		until(t, "the end of the pool", func() bool { return len(processesWith("GPUTRAIN_POOL="+id)) == 0 })
		reap(t, ssh.Config{Hosts: hosts})
	})
	t.Run("own hosts, reaped", func(t *testing.T) {
		a, b := newHost(t), newHost(t)
		hosts := []ssh.Host{a.host(), b.host()}
		id := killClient(t, client{Hosts: hosts, Lease: time.Hour})
		reap(t, ssh.Config{Hosts: hosts})
		if left := processesWith("GPUTRAIN_POOL=" + id); left != nil {
			t.Errorf("left: %v", left)
		}
		a.wantAsFound(t)
		b.wantAsFound(t)
	})
}

// killClient runs a client, kills it once its tasks run, and returns its pool's ID.
func killClient(t *testing.T, c client) string {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestClient$", "-test.v")
	cmd.Env = append(os.Environ(), clientEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var id string
	var said strings.Builder
	for lines := bufio.NewScanner(stdout); id == "" && lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if rest, ok := strings.CutPrefix(lines.Text(), clientUp); ok {
			id = rest
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if id == "" {
		t.Fatalf("the client did not come up:\n%s", said.String())
	}
	if len(processesWith("GPUTRAIN_POOL="+id)) == 0 {
		t.Error("nothing of the pool runs")
	}
	return id
}
