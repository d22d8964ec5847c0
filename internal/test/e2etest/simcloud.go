package e2etest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// InCloud runs a test in virtual time, with its own cloud, whose tasks run Words unless o sets Exec.
func InCloud(t *testing.T, o sim.Options, f func(t *testing.T, c *SimCloud)) {
	t.Helper()
	state := t.TempDir()
	bubble.Test(t, func(t *testing.T) {
		if o.Exec == nil {
			o.Exec = Words
		}
		c := &SimCloud{Cloud: sim.New(o), State: state}
		defer func() {
			for _, p := range c.Pools { // if the test has not closed it
				p.Close()
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if !t.Failed() {
				return
			}
			for _, call := range c.Log() {
				t.Log(call)
			}
			for _, e := range c.Events() {
				t.Logf("%s %v node %d %s %s %v", e.Time.Format("15:04:05.000"), e.Kind, e.Node, e.State, e.Task, e.Err)
			}
		}()
		f(t, c)
	})
}

// A SimCloud is a cloud, with the events of its pools.
type SimCloud struct {
	*sim.Cloud
	State string

	mu   sync.Mutex
	told []gputrain.Event

	Pools []*gputrain.Compute
}

// Pool opens a pool, which the test closes.
func (c *SimCloud) Pool(t *testing.T, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	p, err := c.Open(t, spec, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (c *SimCloud) Open(t *testing.T, spec gputrain.Spec, opts ...gputrain.Option) (*gputrain.Compute, error) {
	t.Helper()
	opts = append([]gputrain.Option{gputrain.WithStateDir(c.State), gputrain.WithEvents(c.Tell)}, opts...)
	p, err := gputrain.Open(t.Context(), sim.Config{Cloud: c.Cloud}, spec, opts...)
	if err == nil {
		c.Pools = append(c.Pools, p)
	}
	return p, err
}

// OpenWrapped opens a pool on this cloud with some driver calls changed.
func (c *SimCloud) OpenWrapped(ctx context.Context, t *testing.T, w *Wrapped, spec gputrain.Spec) (*gputrain.Compute, error) {
	t.Helper()
	w.Provider = sim.Config{Cloud: c.Cloud}
	p, err := gputrain.Open(ctx, w, spec, gputrain.WithStateDir(c.State), gputrain.WithEvents(c.Tell))
	if err == nil {
		c.Pools = append(c.Pools, p)
	}
	return p, err
}

// CloseAndCheck closes a pool, and checks that nothing remains in the cloud.
func (c *SimCloud) CloseAndCheck(t *testing.T, p *gputrain.Compute) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if live := c.Live(); len(live) > 0 {
		t.Errorf("these resources are left: %v", live)
	}
	if doubles := c.Doubles(); len(doubles) > 0 {
		t.Errorf("two machines of one name: %v", doubles)
	}
}

func (c *SimCloud) Tell(e gputrain.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, e)
}

func (c *SimCloud) Events() []gputrain.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.told)
}

// CountEvents returns the number of events of a kind and state.
func (c *SimCloud) CountEvents(kind gputrain.EventKind, state string) (n int) {
	for _, e := range c.Events() {
		if e.Kind == kind && e.State == state {
			n++
		}
	}
	return n
}

// CountMachines returns the number of machines that exist now.
func (c *SimCloud) CountMachines() (n int) {
	for _, r := range c.Live() {
		if r.Kind == "machine" {
			n++
		}
	}
	return n
}

// CountLaunches returns the number of machines that ever existed.
func (c *SimCloud) CountLaunches() int { return len(c.Machines("")) }

// Words executes the tasks of simulated nodes: "echo", "rank", "sleep 1h" and others.
func Words(ctx context.Context, cmd sim.Command) int {
	args := cmd.Args
	if cmd.Script != "" {
		args = strings.Fields(cmd.Script)
	}
	switch args[0] {
	case "echo":
		fmt.Fprintln(cmd.Stdout, strings.Join(args[1:], " "))
	case "rank":
		fmt.Fprintln(cmd.Stdout, cmd.Getenv("GPUTRAIN_NODE_RANK"))
	case "seconds":
		fmt.Fprintln(cmd.Stdout, cmd.Getenv("GPUTRAIN_SECONDS"))
	case "cat":
		io.Copy(cmd.Stdout, cmd.Stdin)
	case "sleep":
		d, _ := time.ParseDuration(args[1])
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return -15
		}
	case "fail":
		return 3
	}
	return 0
}

// OfferAt returns an offer that satisfies the specs of these tests.
func OfferAt(region string, usd float64) gputrain.Offer {
	return gputrain.Offer{ID: region, InstanceType: "small", Region: region, VCPUs: 2, MemoryGiB: 8, DiskGiB: 50, HourlyUSD: driver.USD(usd)}
}

// Alive returns the IDs of a pool's nodes in rank order, and checks that the ranks have no gaps.
func Alive(t *testing.T, p *gputrain.Compute) (ids []string) {
	t.Helper()
	for i, n := range p.Nodes() {
		if n.Rank != i {
			t.Errorf("node %d has rank %d", i, n.Rank)
		}
		ids = append(ids, n.ID)
	}
	return ids
}

// WithinVirtualTime waits, in virtual time, until is reports true. The test fails after about a day of virtual time.
func WithinVirtualTime(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 100000 {
		synctest.Wait()
		if is() {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("not within a day: %s", what)
}

func AllReady(p *gputrain.Compute) bool {
	for _, n := range p.Nodes() {
		if n.State != gputrain.NodeReady {
			return false
		}
	}
	return true
}
