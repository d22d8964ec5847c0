//go:build unix

package supervisor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// A task that holds the lease keeps the node, without a client, as long as the task and its wrapper run. Then a whole lease
// begins.
func TestHeldLease(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		const lease = 6
		cfg := config(t, shell)
		cfg.Lease = lease * time.Second
		wants := func(t *testing.T, seconds int) {
			t.Helper()
			if seconds <= lease { // at the first look the time begins
				t.Errorf("the node has lapsed after %d seconds, with a lease of %d", seconds, lease)
			}
		}
		t.Run("held", func(t *testing.T) {
			cfg := cfg
			glass := newHourglass(t, &cfg)
			may, mark := t.TempDir()+"/may", t.TempDir()+"/mark"
			n := begin(t, srv, cfg)
			n.launch(t, Spec{ID: "a", Script: "until [ -e '" + may + "' ]; do sleep 0.05; done; echo over >'" + mark + "'", HoldsLease: true})
			n.kill()
			glass.pass(t, n.Node, 3*lease)
			touch(t, may)
			await(t, mark)
			wants(t, glass.lapses(t, n.Node))
		})
		t.Run("not held", func(t *testing.T) {
			cfg := cfg
			glass := newHourglass(t, &cfg)
			n := begin(t, srv, cfg)
			if r := run(t, n.Node, Spec{ID: "over", Args: []string{"true"}, HoldsLease: true, Scratch: true}); r.err != nil {
				t.Errorf("%+v", r)
			}
			n.launch(t, Spec{ID: "a", Script: "sleep 600"})
			n.kill()
			wants(t, glass.lapses(t, n.Node))
		})
		t.Run("no caller waits", func(t *testing.T) {
			cfg := cfg
			glass := newHourglass(t, &cfg)
			n := begin(t, srv, cfg)
			n.launch(t, Spec{ID: "a", Script: "sleep 600", HoldsLease: true})
			n.kill()
			waiter := "a.start"
			if shell == "perl" {
				waiter = "runner"
			}
			killFirst(t, n.facts.Root+"/t/"+waiter)
			wants(t, glass.lapses(t, n.Node))
		})
		t.Run("ttl", func(t *testing.T) {
			cfg := config(t, shell)
			cfg.TTL = 12 * time.Second
			glass := newHourglass(t, &cfg)
			n := begin(t, srv, cfg)
			n.launch(t, Spec{ID: "a", Script: "sleep 600", HoldsLease: true})
			glass.pass(t, n.Node, 10)
			if seconds := glass.lapses(t, n.Node); seconds != 2 {
				t.Errorf("the rest of the TTL is %d seconds", seconds)
			}
			until(t, "the client's knowledge", func() bool { return errors.Is(n.Err(), ErrLapsed) })
		})
	})
}

// A client that attaches does not change the node's settings, and a killed watcher is replaced by one that continues
// with the rest of the time.
func TestAttachLease(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		cfg := config(t, shell)
		cfg.TTL, cfg.Lease = 12*time.Second, 20*time.Minute
		glass := newHourglass(t, &cfg)
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
		glass.pass(t, first.Node, 5)
		killFirst(t, first.facts.Root+"/t/watch")
		third, _ := attach(t, srv, others, 3)
		if file("watch") == watch || file("pool") != pool || file("up") != "5 ;" {
			t.Errorf("the watcher is %q, the pool's %q, and %q of the TTL are over", file("watch"), file("pool"), file("up"))
		}
		result := longTask(t, third)
		if seconds := glass.lapses(t, third); seconds < 7 || seconds > 8 {
			t.Errorf("the rest of the TTL is %d seconds", seconds)
		}
		if err := <-result; !errors.Is(err, ErrLapsed) {
			t.Errorf("%v", err)
		}
	})
}
