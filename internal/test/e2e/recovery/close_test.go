package recovery

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
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// A valve is a connection that drops everything that is sent to the machine after a number of bytes.
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
func simDial(ctx context.Context, w *e2etest.Wrapped, inst driver.Instance) (net.Conn, error) {
	w.Mu.Lock()
	d := w.Opened.Driver.(driver.Dialer)
	w.Mu.Unlock()
	return d.Dial(ctx, inst)
}

// A machine vanishes at some point of its node's start, and then the context ends. Close does not wait for that
// machine.
func TestCloseWhileANodeStartsOnAMachineThatIsGone(t *testing.T) {
	sent := func(t *testing.T, most int64) (total int64) {
		e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
			var left atomic.Int64
			left.Store(most)
			w := &e2etest.Wrapped{}
			w.OnDial = func(ctx context.Context, inst driver.Instance) (net.Conn, error) {
				if left.Load() < 0 {
					<-ctx.Done() // the request is lost silently
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
			p, err := c.OpenWrapped(ctx, t, w, gputrain.Spec{Nodes: 1})
			if err == nil {
				total = most - left.Load()
				c.CloseAndCheck(t, p)
				return
			}
			if took := since(c, "closing"); took > 3*time.Second {
				t.Errorf("after %d bytes the end took %v: %v", most, took, err)
			}
			if n := c.CountMachines(); n > 0 {
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

// since returns the time from the pool's first event with that state to its last event.
func since(c *e2etest.SimCloud, state string) time.Duration {
	all := c.Events()
	i := slices.IndexFunc(all, func(e gputrain.Event) bool { return e.Kind == gputrain.EventPool && e.State == state })
	if i < 0 {
		return -1
	}
	return all[len(all)-1].Time.Sub(all[i].Time)
}

// slow makes machines whose end was requested be reported in another state for a while.
func slow(w *e2etest.Wrapped, as driver.InstanceState, d time.Duration) {
	var mu sync.Mutex
	var asked time.Time
	w.OnTerminate = func([]string) error {
		mu.Lock()
		defer mu.Unlock()
		if asked.IsZero() {
			asked = time.Now()
		}
		return nil
	}
	w.OnDescribe = func(found []driver.Instance) ([]driver.Instance, error) {
		mu.Lock()
		defer mu.Unlock()
		for i := range found {
			if found[i].State == driver.InstanceTerminated && time.Since(asked) < d {
				found[i].State, found[i].StateReason = as, "deleting"
			}
		}
		return found, nil
	}
}

// A machine that ends slowly does not delay the removal of shared resources. If Close gives up waiting for it, the rest
// is removed too.
func TestCloseReleasesBesideASlowMachine(t *testing.T) {
	for name, tt := range map[string]struct {
		ends time.Duration // after the call that ends it
		leak bool
	}{
		"slow":        {2 * time.Minute, false},
		"almost late": {165 * time.Second, false},
		"never gone":  {time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
				w := &e2etest.Wrapped{}
				slow(w, driver.InstanceStopped, tt.ends)
				p, err := c.OpenWrapped(t.Context(), t, w, gputrain.Spec{Nodes: 1})
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
					t.Errorf("the shared resources were removed after %v", at)
				}
				if tt.leak && len(leak.Resources) != 1 {
					t.Errorf("the error lists %v; only the machine is left", leak.Resources)
				}
			})
		})
	}
}

// Resources that a remaining machine needs are kept: Release receives the machines that remain.
func TestReleaseIsToldWhichMachinesRemain(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		w := &e2etest.Wrapped{}
		slow(w, driver.InstanceStopped, time.Minute)
		var told []int
		w.OnReleaseOf = func(p driver.PoolInfo) { told = append(told, len(p.Remaining)) }
		p, err := c.OpenWrapped(t.Context(), t, w, gputrain.Spec{Nodes: 2})
		if err != nil {
			t.Fatal(err)
		}
		c.CloseAndCheck(t, p)
		if len(told) != 2 || told[0] != 2 || told[1] != 0 {
			t.Errorf("Release got %v remaining machines; want 2, and then none", told)
		}
	})
}

// A create or Prepare that the API answered with an error has no later effect: Close does not wait for it. If there was
// no answer, Close waits once for the effect, and reports that in an event.
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
			e2etest.InCloud(t, o, func(t *testing.T, c *e2etest.SimCloud) {
				p, err := c.Open(t, gputrain.Spec{Nodes: 1})
				if err != nil {
					t.Fatal(err)
				}
				begun, before := time.Now(), len(c.Events())
				c.CloseAndCheck(t, p)
				took := time.Since(begun)
				if tt.waits != (took > 30*time.Second) || took > 75*time.Second {
					t.Errorf("Close took %v; LateEffect is a minute", took)
				}
				said := 0
				for _, e := range c.Events()[before:] {
					if e.State == "settling" && e.Err != nil && strings.Contains(e.Err.Error(), string(tt.op)) && e.Until.After(begun) {
						said++
					}
				}
				if want := map[bool]int{true: 1}[tt.waits]; said != want {
					t.Errorf("%d events report the wait; want %d", said, want)
				}
			})
		})
	}
}
