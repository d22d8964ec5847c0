package supervisor

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/opensshtest"
)

// Shells that wait for tasks end with the session that they belong to: a node
// whose connection is cut again and again does not fill up with them.
func TestLanesEndWithTheirSession(t *testing.T) {
	needShell(t, "bash")
	srv := opensshtest.Start(t)
	link := opensshtest.Proxy(t, srv.Addr)
	n := start(t, connect(t, srv, link.Addr), config(t, "bash"))
	atOnce := func(many int) {
		done := make(chan result, many)
		for range many {
			go func() { done <- run(t, n, Spec{Args: []string{"sleep", "0.2"}}) }()
		}
		for range many {
			if r := <-done; r.err != nil || r.Code != 0 {
				t.Errorf("%+v", r)
			}
		}
	}
	atOnce(1)
	one := len(shellsOf(t, n))
	atOnce(maxIdle)
	if many := len(shellsOf(t, n)); many < one+maxIdle-1 {
		t.Fatalf("%d shells after %d tasks at once, %d after one: none waits for the next", many, maxIdle, one)
	}
	link.Cut()
	atOnce(1)
	var left []string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if left = shellsOf(t, n); len(left) <= one {
			return
		}
	}
	t.Errorf("%d shells are left, %d are needed: %v", len(left), one, left)
}

// shellsOf returns the processes with the node's mark that are bash.
func shellsOf(t *testing.T, n *Node) (pids []string) {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range environs {
		env, _ := os.ReadFile(name) // it may have ended
		dir := filepath.Dir(name)
		comm, _ := os.ReadFile(dir + "/comm")
		if bytes.Contains(env, []byte("GPUTRAIN_NODE="+n.cfg.Name+"\x00")) && strings.TrimSpace(string(comm)) == "bash" {
			pids = append(pids, filepath.Base(dir))
		}
	}
	return pids
}
