//go:build unix

package supervisor

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// A task that holds the lease keeps the node, without a client, as long as the task and its wrapper run.
func TestHeldLease(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		var held sync.WaitGroup
		defer held.Wait()
		held.Go(func() {
			t.Run("held", func(t *testing.T) {
				cfg := config(t, shell)
				cfg.Lease = 6 * time.Second
				mark := t.TempDir() + "/mark"
				n := begin(t, srv, cfg)
				n.launch(t, Spec{ID: "a", Script: "sleep 18; echo over >'" + mark + "'", HoldsLease: true})
				n.kill()
				lapses(t, n.Node)
				if b, err := os.ReadFile(mark); err != nil {
					t.Errorf("the node has lapsed before its task was over: %q, %v", b, err)
				}
			})
		})
		t.Run("not held", func(t *testing.T) {
			cfg := config(t, shell)
			cfg.Lease = 6 * time.Second
			n := begin(t, srv, cfg)
			if r := run(t, n.Node, Spec{ID: "over", Args: []string{"true"}, HoldsLease: true, Scratch: true}); r.err != nil {
				t.Errorf("%+v", r)
			}
			n.launch(t, Spec{ID: "a", Script: "sleep 600"})
			n.kill()
			lapses(t, n.Node)
		})
		t.Run("no caller waits", func(t *testing.T) {
			cfg := config(t, shell)
			cfg.Lease = 6 * time.Second
			n := begin(t, srv, cfg)
			n.launch(t, Spec{ID: "a", Script: "sleep 600", HoldsLease: true})
			n.kill()
			waiter := "a.start"
			if shell == "perl" {
				waiter = "runner"
			}
			killFirst(t, n.facts.Root+"/t/"+waiter)
			lapses(t, n.Node)
		})
		t.Run("ttl", func(t *testing.T) {
			cfg := config(t, shell)
			cfg.TTL = 12 * time.Second
			n := begin(t, srv, cfg)
			if r := run(t, n.Node, Spec{Script: "sleep 600", HoldsLease: true}); !errors.Is(r.err, ErrLapsed) {
				t.Errorf("%+v", r)
			}
			lapses(t, n.Node)
		})
	})
}

// lapses waits until a node has ended itself.
func lapses(t *testing.T, n *Node) {
	t.Helper()
	until(t, "the node's own end", func() bool {
		_, err := os.Stat(n.facts.Root)
		return os.IsNotExist(err)
	})
}

// A client that attaches does not change the node's settings, and a killed watcher is replaced by one that continues
// with the rest of the time.
func TestAttachLease(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		cfg := config(t, shell)
		cfg.TTL, cfg.Lease = 20*time.Second, 20*time.Minute
		first := begin(t, srv, cfg)
		file := func(name string) string {
			return strings.Join(strings.Fields(await(t, first.facts.Root+"/t/"+name)), " ")
		}
		watch, pool := file("watch"), file("pool")
		others := &Node{cfg: first.cfg, facts: first.facts}
		others.cfg.Lease, others.cfg.TTL = time.Second, time.Hour // the settings that later clients ask for
		second, _ := attach(t, srv, others, 2)
		if file("watch") != watch || second.cfg.Lease != cfg.Lease || second.Facts().Lease != cfg.Lease {
			t.Errorf("the watcher was %q and is %q, the lease is %v", watch, file("watch"), second.cfg.Lease)
		}
		until(t, "the watcher's count", func() bool { return file("up") != "0 ;" })
		killFirst(t, first.facts.Root+"/t/watch")
		third, _ := attach(t, srv, others, 3)
		if file("watch") == watch || file("pool") != pool || file("up") == "0 ;" {
			t.Errorf("the watcher is %q, the pool's %q, and %q of the TTL are over", file("watch"), file("pool"), file("up"))
		}
		if r := run(t, third, Spec{Script: "sleep 600"}); !errors.Is(r.err, ErrLapsed) {
			t.Errorf("%+v", r)
		}
	})
}
