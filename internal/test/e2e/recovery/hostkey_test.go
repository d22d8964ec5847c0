package recovery

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	xssh "golang.org/x/crypto/ssh"
)

// known returns a market whose machines' host keys come from source, and are reported if told is set.
func known(t *testing.T, source gputrain.HostKeySource, told bool) *market {
	m := newMarket(t, "127.0.0.1")
	m.edit = func(caps *driver.Capabilities) { caps.LocalAddresses, caps.HostKeys = true, source }
	m.change = func(in *driver.Instance) {
		if !told {
			in.SSH.HostKeys = nil
		}
	}
	return m
}

// fingerprint returns the fingerprint of the last machine's host key.
func (m *market) fingerprint() string {
	key, _, _, _, err := xssh.ParseAuthorizedKey([]byte(m.key))
	if err != nil {
		m.t.Fatal(err)
	}
	return xssh.FingerprintSHA256(key)
}

// The host key that a node proved, and its source, are in the node, in its events and in results. A program that
// attaches sees the same.
func TestHostKeyOfNodes(t *testing.T) {
	for source, told := range map[gputrain.HostKeySource]bool{
		gputrain.HostKeyInjected: true, gputrain.HostKeyPublished: true, gputrain.HostKeyFirstContact: false,
	} {
		t.Run(source.String(), func(t *testing.T) {
			m := known(t, source, told)
			state := gputrain.WithStateDir(t.TempDir())
			var mu sync.Mutex
			events := map[string][]gputrain.Event{} // events of nodes, by program
			ready := map[string]chan bool{"open": make(chan bool), "attach": make(chan bool)}
			watch := func(who string) gputrain.Option {
				return gputrain.WithEvents(func(e gputrain.Event) {
					if e.Kind != gputrain.EventNode {
						return
					}
					mu.Lock()
					defer mu.Unlock()
					events[who] = append(events[who], e)
					if e.State == "ready" {
						close(ready[who])
					}
				})
			}
			older, err := gputrain.Open(t.Context(), m, gputrain.Spec{}, state, watch("open"), gputrain.WithName("keys"))
			if err != nil {
				t.Fatal(err)
			}
			look := func(who string, pool *gputrain.Compute) {
				t.Helper()
				r, err := pool.Run(gputrain.Cmd("true"))
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range []gputrain.Node{pool.Nodes()[0], r.Node} {
					if n.HostKey != m.fingerprint() || n.HostKeySource != source {
						t.Errorf("%s: the key is %q, by %v; want %q, by %v", who, n.HostKey, n.HostKeySource, m.fingerprint(), source)
					}
				}
				<-ready[who] // that event may arrive a little later
				mu.Lock()
				defer mu.Unlock()
				for _, e := range events[who] {
					switch e.State {
					case "launching", "connecting":
						if e.HostKey != "" {
							t.Errorf("%s: %s has a key: %+v", who, e.State, e)
						}
					case "bootstrapping", "ready":
						if e.HostKey != m.fingerprint() || e.HostKeySource != source {
							t.Errorf("%s: %s has the key %q, by %v", who, e.State, e.HostKey, e.HostKeySource)
						}
					}
				}
			}
			look("open", older)
			pool, err := gputrain.Attach(t.Context(), m, "keys", state, watch("attach"), gputrain.WithTakeover())
			if err != nil {
				older.Close()
				t.Fatal(err)
			}
			defer pool.Close()
			defer older.Close()
			look("attach", pool)
		})
	}
}

// A spec can exclude offers whose host key is known only by the first contact. A plan rejects them with the reason, and
// so does each member of a group.
func TestRequireKnownHostKey(t *testing.T) {
	spec := gputrain.Spec{RequireKnownHostKey: true}
	const why = "its host key is known by the first contact alone"
	unknown := known(t, gputrain.HostKeyFirstContact, false)
	plan, err := gputrain.Plan(t.Context(), unknown, spec)
	if err != nil || len(plan) == 0 || !strings.Contains(plan[0].Rejected, why) {
		t.Errorf("plan: %+v, %v", plan, err)
	}
	if pool, err := gputrain.Open(t.Context(), unknown, spec); err == nil {
		pool.Close()
		t.Error("a machine of an unknown key is a node")
	} else if !errors.Is(err, gputrain.ErrNoOffers) || !strings.Contains(err.Error(), why) {
		t.Errorf("open: %v", err)
	}
	if unknown.launched > 0 {
		t.Errorf("%d were launched", unknown.launched)
	}
	for name, group := range map[string]func(...gputrain.Provider) gputrain.Provider{"cheapest": gputrain.Cheapest, "first of": gputrain.FirstOf} {
		certain := known(t, gputrain.HostKeyInjected, true)
		pool, err := gputrain.Open(t.Context(), group(unknown, certain), spec)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := pool.Nodes()[0]; n.HostKeySource != gputrain.HostKeyInjected || certain.launched != 1 {
			t.Errorf("%s: %+v", name, n)
		}
		pool.Close()
	}
}

// If a driver claims that host keys are injected or published, but reports none, no connection is made. The key of the
// first contact is not accepted.
func TestUntoldHostKey(t *testing.T) {
	for _, source := range []gputrain.HostKeySource{gputrain.HostKeyInjected, gputrain.HostKeyPublished, gputrain.HostKeyConfigured} {
		m := known(t, source, false)
		pool, err := gputrain.Open(t.Context(), m, gputrain.Spec{MaxReplacements: -1})
		if err == nil {
			pool.Close()
		}
		if !errors.Is(err, gputrain.ErrHostKey) || m.came > 0 {
			t.Errorf("%v: %v; %d connections", source, err, m.came)
		}
	}
}
