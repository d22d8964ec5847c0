package gputrain_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	xssh "golang.org/x/crypto/ssh"
)

// known returns a market whose machines' keys are known in a way, and are told or not.
func known(t *testing.T, source gputrain.HostKeySource, told bool) *market {
	m := newMarket(t, "127.0.0.1")
	m.edit = func(caps *gputrain.Capabilities) { caps.LocalAddresses, caps.HostKeys = true, source }
	m.change = func(in *gputrain.Instance) {
		if !told {
			in.SSH.HostKeys = nil
		}
	}
	return m
}

// fingerprint is that of the last machine's host key.
func (m *market) fingerprint() string {
	key, _, _, _, err := xssh.ParseAuthorizedKey([]byte(m.key))
	if err != nil {
		m.t.Fatal(err)
	}
	return xssh.FingerprintSHA256(key)
}

// What a node's server has proved is in the node, in its events and in results, with how it
// came to be known, and stays so for the program that attaches.
func TestHostKeyOfNodes(t *testing.T) {
	for source, told := range map[gputrain.HostKeySource]bool{
		gputrain.HostKeyInjected: true, gputrain.HostKeyPublished: true, gputrain.HostKeyFirstContact: false,
	} {
		t.Run(source.String(), func(t *testing.T) {
			m := known(t, source, told)
			state := gputrain.WithStateDir(t.TempDir())
			var mu sync.Mutex
			events := map[string][]gputrain.Event{} // of nodes, by the program that has them
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
				<-ready[who] // which may be told a little later
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

// Offers whose keys only the first contact shows are passed over by a spec that says so:
// in a plan, with the reason, and member by member.
func TestRequireKnownHostKey(t *testing.T) {
	spec := gputrain.Spec{RequireKnownHostKey: true}
	const why = "its host key is known by the first contact alone"
	unknown := known(t, gputrain.HostKeyFirstContact, false)
	plan, err := gputrain.Plan(t.Context(), unknown, spec)
	if err != nil || len(plan) == 0 || !strings.Contains(plan[0].Rejected, why) {
		t.Errorf("plan: %+v, %v", plan, err)
	}
	for o, err := range gputrain.Offers(t.Context(), unknown, spec) {
		t.Errorf("offered: %+v, %v", o, err)
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

// A driver that says that keys are injected, or published, and tells none is not taken for
// one of first contacts: no connection is made.
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
