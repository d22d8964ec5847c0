package gputrain_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// ends are the ways in which a machine goes, and what the error of its node is then.
var ends = map[string]struct {
	end  func(c *simCloud, id string) error
	kind error
}{
	"vanished":  {func(c *simCloud, id string) error { return c.Vanish(id) }, gputrain.ErrNoCapacity},
	"failed":    {func(c *simCloud, id string) error { return c.Fail(id) }, gputrain.ErrNoCapacity},
	"preempted": {func(c *simCloud, id string) error { return c.Preempt(id, 0) }, gputrain.ErrPreempted},
	"stopped":   {func(c *simCloud, id string) error { return c.Stop(id) }, gputrain.ErrNoCapacity},
}

// A machine that goes before its SSH server has answered is replaced within a minute, and
// not once it would have had to be up.
func TestAMachineGoneBeforeItsFirstAnswerIsReplaced(t *testing.T) {
	for name, way := range ends {
		t.Run(name, func(t *testing.T) {
			o := sim.Options{BootTime: 10 * time.Second, ProvisionTimeout: time.Hour, Faults: []sim.Fault{{Op: sim.OpLaunch, Nth: 1, Kind: sim.DeadSSH}}}
			inCloud(t, o, func(t *testing.T, c *simCloud) {
				var gone time.Time
				time.AfterFunc(40*time.Second, func() {
					gone = time.Now()
					if err := way.end(c, c.Machines("")[0].ID); err != nil {
						t.Error(err)
					}
				})
				p := c.pool(t, gputrain.Spec{})
				if took := time.Since(gone); took > time.Minute {
					t.Errorf("its place was taken after %v", took)
				}
				if n := c.launches(); n != 2 {
					t.Errorf("%d machines were launched", n)
				}
				failed := false
				for _, e := range c.events() {
					failed = failed || e.State == "failed" && errors.Is(e.Err, way.kind)
				}
				if !failed {
					t.Errorf("no event has a node that failed by %v", way.kind)
				}
				c.end(t, p)
			})
		})
	}
}

// So is one that goes while it is made ready, though its connection has not noticed.
func TestAMachineGoneWhileItIsMadeReadyIsReplaced(t *testing.T) {
	slow := func(ctx context.Context, cmd sim.Command) int {
		if cmd.Getenv("GPUTRAIN_SETUP") != "" {
			return words(ctx, sim.Command{Args: []string{"sleep", "10m"}})
		}
		return words(ctx, cmd)
	}
	inCloud(t, sim.Options{Exec: slow}, func(t *testing.T, c *simCloud) {
		w := &wrapped{Provider: sim.Config{Cloud: c.Cloud}}
		began := time.Now()
		w.desc = func(found []gputrain.Instance) ([]gputrain.Instance, error) {
			for i := range found {
				if found[i].ID == "i-1" && time.Since(began) > time.Minute {
					found[i].State, found[i].StateReason = gputrain.InstanceTerminated, "taken down"
				}
			}
			return found, nil
		}
		first := true
		p, err := gputrain.Open(t.Context(), w, gputrain.Spec{Image: gputrain.Image{Setup: []string{"make it, slowly"}}},
			gputrain.WithStateDir(c.state), gputrain.WithEvents(func(e gputrain.Event) {
				c.tell(e)
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
		c.pools = append(c.pools, p)
		if n := p.Nodes()[0]; n.ID != "i-2" || first {
			t.Errorf("the node is %s", n.ID)
		}
		c.end(t, p)
	})
}

// Nodes on their way up are asked for together, every few seconds.
func TestNodesOnTheirWayUpAreDescribedTogether(t *testing.T) {
	const nodes, boot = 50, 5 * time.Minute
	inCloud(t, sim.Options{BootTime: boot, ProvisionTimeout: time.Hour}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{Nodes: nodes})
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
		c.end(t, p)
	})
}
