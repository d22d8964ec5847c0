package gputrain_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// openWrapped opens a pool of a cloud some of whose calls are changed.
func (c *simCloud) openWrapped(ctx context.Context, t *testing.T, w *wrapped, spec gputrain.Spec) (*gputrain.Compute, error) {
	t.Helper()
	w.Provider = sim.Config{Cloud: c.Cloud}
	p, err := gputrain.Open(ctx, w, spec, gputrain.WithStateDir(c.state), gputrain.WithEvents(c.tell))
	if err == nil {
		c.pools = append(c.pools, p)
	}
	return p, err
}

// A valve is a link on which, after so many bytes to the machine, all that is sent is lost.
type valve struct {
	net.Conn
	left *atomic.Int64
}

func (v valve) Write(b []byte) (int, error) {
	if v.left.Add(-int64(len(b))) < 0 {
		return len(b), nil
	}
	return v.Conn.Write(b)
}

// simDial connects to a machine of a simulated cloud, as its driver does.
func simDial(ctx context.Context, w *wrapped, inst gputrain.Instance) (net.Conn, error) {
	w.mu.Lock()
	d := w.driver.Driver.(gputrain.Dialer)
	w.mu.Unlock()
	return d.Dial(ctx, inst)
}

// A machine goes away at any moment of its node's start, and the pool ends: Close waits for
// nothing on that machine.
func TestCloseWhileANodeStartsOnAMachineThatIsGone(t *testing.T) {
	sent := func(t *testing.T, most int64) (total int64) {
		inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
			var left atomic.Int64
			left.Store(most)
			w := &wrapped{}
			w.dial = func(ctx context.Context, inst gputrain.Instance) (net.Conn, error) {
				if left.Load() < 0 {
					<-ctx.Done() // it is gone, and nothing says so
					return nil, ctx.Err()
				}
				conn, err := simDial(ctx, w, inst)
				if err != nil {
					return nil, err
				}
				return valve{conn, &left}, nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			p, err := c.openWrapped(ctx, t, w, gputrain.Spec{Nodes: 1})
			if err == nil {
				total = most - left.Load()
				c.end(t, p)
				return
			}
			if since := c.since("closing"); since > 3*time.Second {
				t.Errorf("after %d bytes the end took %v: %v", most, since, err)
			}
			if n := c.machines(); n > 0 {
				t.Errorf("%d machines are left", n)
			}
		})
		return total
	}
	all := sent(t, 1<<40)
	if all == 0 {
		t.Fatal("nothing was sent")
	}
	for i := range int64(20) {
		sent(t, all*i/20)
	}
}

// since is how long after its first event of that state the pool's last event was.
func (c *simCloud) since(state string) time.Duration {
	all := c.events()
	i := slices.IndexFunc(all, func(e gputrain.Event) bool { return e.Kind == gputrain.EventPool && e.State == state })
	if i < 0 {
		return -1
	}
	return all[len(all)-1].Time.Sub(all[i].Time)
}

// slow has machines that were asked to end be reported as something else for a while.
func slow(w *wrapped, as gputrain.InstanceState, d time.Duration) {
	var mu sync.Mutex
	var asked time.Time
	w.term = func([]string) error {
		mu.Lock()
		defer mu.Unlock()
		if asked.IsZero() {
			asked = time.Now()
		}
		return nil
	}
	w.desc = func(found []gputrain.Instance) ([]gputrain.Instance, error) {
		mu.Lock()
		defer mu.Unlock()
		for i := range found {
			if found[i].State == gputrain.InstanceTerminated && time.Since(asked) < d {
				found[i].State, found[i].StateReason = as, "deleting"
			}
		}
		return found, nil
	}
}

// A machine that is slow to go holds up neither the removal of what the machines shared nor,
// when it is given up, the rest of it.
func TestCloseReleasesBesideASlowMachine(t *testing.T) {
	for name, tt := range map[string]struct {
		ends time.Duration // after it was asked to
		leak bool
	}{
		"slow":        {2 * time.Minute, false},
		"almost late": {165 * time.Second, false},
		"never gone":  {time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
				w := &wrapped{}
				slow(w, gputrain.InstanceStopped, tt.ends)
				p, err := c.openWrapped(t.Context(), t, w, gputrain.Spec{Nodes: 1})
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				err = p.Close()
				var leak *gputrain.LeakError
				if errors.As(err, &leak) != tt.leak || (err != nil) != tt.leak {
					t.Errorf("Close = %v", err)
				}
				for _, r := range c.Live() {
					if r.Kind != "machine" {
						t.Errorf("%s %s is left", r.Kind, r.ID)
					}
				}
				released := slices.IndexFunc(c.Log(), func(call sim.Call) bool { return call.Op == sim.OpRelease })
				if at := c.Log()[released].Time.Sub(begun); at > 5*time.Second {
					t.Errorf("what the machines shared was removed after %v", at)
				}
				if tt.leak && len(leak.Resources) != 1 {
					t.Errorf("left are %v, and the machine alone is", leak.Resources)
				}
			})
		})
	}
}

// What the machine needs stays, and the driver is told which machine that is.
func TestReleaseIsToldWhichMachinesRemain(t *testing.T) {
	inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
		w := &wrapped{}
		slow(w, gputrain.InstanceStopped, time.Minute)
		var told []int
		w.relOf = func(p gputrain.PoolInfo) { told = append(told, len(p.Remaining)) }
		p, err := c.openWrapped(t.Context(), t, w, gputrain.Spec{Nodes: 2})
		if err != nil {
			t.Fatal(err)
		}
		c.end(t, p)
		if len(told) != 2 || told[0] != 2 || told[1] != 0 {
			t.Errorf("Release was told of %v machines that remain; want 2, and then none", told)
		}
	})
}

// A create, or a Prepare, that the API has answered with an error is not on its way: Close
// does not wait for it. One without an answer is waited for once, and an event says so.
func TestCloseWaitsForUnansweredCallsOnly(t *testing.T) {
	for name, tt := range map[string]struct {
		op    sim.Op
		kind  sim.Kind
		waits bool
	}{
		"create answered":    {sim.OpLaunch, sim.ErrorBefore, false},
		"create cut":         {sim.OpLaunch, sim.Refused, true},
		"prepare answered":   {sim.OpPrepare, sim.ErrorBefore, false},
		"prepare unanswered": {sim.OpPrepare, sim.Refused, true},
	} {
		t.Run(name, func(t *testing.T) {
			const lag = 5 * time.Second
			o := sim.Options{NoTokens: true, ListLag: lag, Faults: []sim.Fault{{Op: tt.op, Nth: 1, Kind: tt.kind}}}
			inCloud(t, o, func(t *testing.T, c *simCloud) {
				p, err := c.open(t, gputrain.Spec{Nodes: 1})
				if err != nil {
					t.Fatal(err)
				}
				begun, before := time.Now(), len(c.events())
				c.end(t, p)
				took := time.Since(begun)
				if tt.waits != (took > 30*time.Second) || took > 75*time.Second {
					t.Errorf("Close took %v; LateEffect is a minute", took)
				}
				said := 0
				for _, e := range c.events()[before:] {
					if e.State == "settling" && e.Err != nil && strings.Contains(e.Err.Error(), string(tt.op)) && e.Until.After(begun) {
						said++
					}
				}
				if want := map[bool]int{true: 1}[tt.waits]; said != want {
					t.Errorf("%d events say what is waited for; want %d", said, want)
				}
			})
		})
	}
}
