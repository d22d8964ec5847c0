package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// ends are the ways in which a machine can end, and the kind of its node's error.
var ends = map[string]struct {
	end  func(c *e2etest.SimCloud, id string) error
	kind error
}{
	"vanished":  {func(c *e2etest.SimCloud, id string) error { return c.Vanish(id) }, gputrain.ErrNoCapacity},
	"failed":    {func(c *e2etest.SimCloud, id string) error { return c.Fail(id) }, gputrain.ErrNoCapacity},
	"preempted": {func(c *e2etest.SimCloud, id string) error { return c.Preempt(id, 0) }, gputrain.ErrPreempted},
	"stopped":   {func(c *e2etest.SimCloud, id string) error { return c.Stop(id) }, gputrain.ErrNoCapacity},
}

// A machine that ends before its SSH server has answered is replaced within a minute, not only
// after the provisioning timeout.
func TestAMachineGoneBeforeItsFirstAnswerIsReplaced(t *testing.T) {
	for name, way := range ends {
		t.Run(name, func(t *testing.T) {
			o := sim.Options{BootTime: 10 * time.Second, ProvisionTimeout: time.Hour, Faults: []sim.Fault{{Op: sim.OpLaunch, Nth: 1, Kind: sim.DeadSSH}}}
			e2etest.InCloud(t, o, func(t *testing.T, c *e2etest.SimCloud) {
				var gone time.Time
				time.AfterFunc(40*time.Second, func() {
					gone = time.Now()
					if err := way.end(c, c.Machines("")[0].ID); err != nil {
						t.Error(err)
					}
				})
				p := c.Pool(t, gputrain.Spec{})
				if took := time.Since(gone); took > time.Minute {
					t.Errorf("it was replaced after %v", took)
				}
				if n := c.CountLaunches(); n != 2 {
					t.Errorf("%d machines were launched", n)
				}
				failed := false
				for _, e := range c.Events() {
					failed = failed || e.State == "failed" && errors.Is(e.Err, way.kind)
				}
				if !failed {
					t.Errorf("no event has a node that failed by %v", way.kind)
				}
				c.CloseAndCheck(t, p)
			})
		})
	}
}

// A machine that ends during setup is replaced too, even if its connection stays open.
func TestAMachineGoneWhileItIsMadeReadyIsReplaced(t *testing.T) {
	slow := func(ctx context.Context, cmd sim.Command) int {
		if cmd.Getenv("GPUTRAIN_SETUP") != "" {
			return e2etest.Words(ctx, sim.Command{Args: []string{"sleep", "10m"}})
		}
		return e2etest.Words(ctx, cmd)
	}
	e2etest.InCloud(t, sim.Options{Exec: slow}, func(t *testing.T, c *e2etest.SimCloud) {
		w := &e2etest.Wrapped{Provider: sim.Config{Cloud: c.Cloud}}
		began := time.Now()
		w.OnDescribe = func(found []driver.Instance) ([]driver.Instance, error) {
			for i := range found {
				if found[i].ID == "i-1" && time.Since(began) > time.Minute {
					found[i].State, found[i].StateReason = driver.InstanceTerminated, "taken down"
				}
			}
			return found, nil
		}
		first := true
		p, err := gputrain.Open(t.Context(), w, gputrain.Spec{Image: gputrain.Image{Setup: []string{"make it, slowly"}}},
			gputrain.WithStateDir(c.State), gputrain.WithEvents(func(e gputrain.Event) {
				c.Tell(e)
				if e.Kind == gputrain.EventNode && e.State == "failed" && first {
					first = false
					if took := time.Since(began); took > 2*time.Minute || !errors.Is(e.Err, gputrain.ErrNodeLost) {
						t.Errorf("after %v: %v", took, e.Err)
					}
				}
			}))
		if err != nil {
			t.Fatal(err)
		}
		c.Pools = append(c.Pools, p)
		if n := p.Nodes()[0]; n.ID != "i-2" || first {
			t.Errorf("the node is %s", n.ID)
		}
		c.CloseAndCheck(t, p)
	})
}

// A phase that begins says how long it has usually taken before, in pools with the same state directory. A pool counts once,
// however many nodes it has.
func TestAPhaseSaysHowLongItUsuallyTakes(t *testing.T) {
	took := time.Duration(0)
	slow := func(ctx context.Context, cmd sim.Command) int {
		if cmd.Getenv("GPUTRAIN_SETUP") != "" {
			time.Sleep(took)
			return 0
		}
		return e2etest.Words(ctx, cmd)
	}
	e2etest.InCloud(t, sim.Options{Exec: slow}, func(t *testing.T, c *e2etest.SimCloud) {
		var usual []time.Duration
		for _, took = range []time.Duration{9 * time.Minute, 2 * time.Minute, time.Minute, time.Second} {
			p, err := gputrain.Open(t.Context(), sim.Config{Cloud: c.Cloud}, gputrain.Spec{Nodes: 6, Image: gputrain.Image{Setup: []string{"make it, slowly"}}},
				gputrain.WithStateDir(c.State), gputrain.WithEvents(func(e gputrain.Event) {
					c.Tell(e)
					if e.Kind == gputrain.EventPhase && e.Phase == "setup 1/1" && e.State == "started" && e.Node == 0 {
						usual = append(usual, e.Usual.Round(time.Minute))
					}
				}))
			if err != nil {
				t.Fatal(err)
			}
			c.CloseAndCheck(t, p)
		}
		if want := []time.Duration{0, 9 * time.Minute, 2 * time.Minute, 2 * time.Minute}; !slices.Equal(usual, want) {
			t.Errorf("usually %v, want %v", usual, want)
		}
	})
}

// What a provider says of a machine that waits in its queue is an event, once for each change; a machine that its queue will
// never start fails by the kind that the provider gives.
func TestAQueuedMachineSaysWhatItWaitsFor(t *testing.T) {
	e2etest.InCloud(t, sim.Options{BootTime: time.Minute}, func(t *testing.T, c *e2etest.SimCloud) {
		w := &e2etest.Wrapped{Provider: sim.Config{Cloud: c.Cloud}}
		began, refused := time.Now(), false
		w.OnDescribe = func(found []driver.Instance) ([]driver.Instance, error) {
			for i := range found {
				if found[i].State != driver.InstancePending {
					continue
				}
				if found[i].StateReason = "queued: Priority"; time.Since(began) > 20*time.Second {
					found[i].StateReason = "queued: Resources"
				}
				if refused {
					found[i].State, found[i].StateReason, found[i].FailureKind = driver.InstanceFailed, "QOSMaxGRESPerUser", driver.ErrQuota
				}
			}
			return found, nil
		}
		var said []string
		p, err := gputrain.Open(t.Context(), w, gputrain.Spec{}, gputrain.WithStateDir(c.State), gputrain.WithEvents(func(e gputrain.Event) {
			c.Tell(e)
			if e.Kind == gputrain.EventWait && e.State == "machine" {
				said = append(said, fmt.Sprintf("node %d, %s: %v", e.Node, e.At.ID, e.Err))
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		c.CloseAndCheck(t, p)
		if want := []string{"node 0, i-1: queued: Priority", "node 0, i-1: queued: Resources"}; !slices.Equal(said, want) {
			t.Errorf("%q, want %q", said, want)
		}
		refused = true
		if _, err := gputrain.Open(t.Context(), w, gputrain.Spec{}, gputrain.WithStateDir(c.State), gputrain.WithEvents(c.Tell)); !errors.Is(err, gputrain.ErrQuota) || !strings.Contains(err.Error(), "QOSMaxGRESPerUser") {
			t.Errorf("%v", err)
		}
	})
}

// Nodes that are coming up are described together, every few seconds.
func TestNodesOnTheirWayUpAreDescribedTogether(t *testing.T) {
	const nodes, boot = 50, 5 * time.Minute
	e2etest.InCloud(t, sim.Options{BootTime: boot, ProvisionTimeout: time.Hour}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: nodes})
		calls, asked := 0, 0
		for _, call := range c.Log() {
			if call.Op == sim.OpDescribe {
				calls++
				asked += len(call.On)
			}
		}
		if most := int(boot/(5*time.Second)) + 20; calls > most || asked < nodes*int(boot/(10*time.Second)) {
			t.Errorf("%d calls of %d machines; want at most %d calls", calls, asked, most)
		}
		c.CloseAndCheck(t, p)
	})
}
