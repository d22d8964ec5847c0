package gputrain_test

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
	"github.com/gputrain/gputrain/internal/bubble"
	"github.com/gputrain/gputrain/providers/sim"
)

// inCloud runs a test in virtual time, with a cloud of its own whose tasks are words.
func inCloud(t *testing.T, o sim.Options, f func(t *testing.T, c *simCloud)) {
	t.Helper()
	state := t.TempDir()
	bubble.Test(t, func(t *testing.T) {
		if o.Exec == nil {
			o.Exec = words
		}
		c := &simCloud{Cloud: sim.New(o), state: state}
		defer func() {
			for _, p := range c.pools { // where the test has not come to it
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
			for _, e := range c.events() {
				t.Logf("%s %v node %d %s %s %v", e.Time.Format("15:04:05.000"), e.Kind, e.Node, e.State, e.Task, e.Err)
			}
		}()
		f(t, c)
	})
}

// A simCloud is a cloud, and what pools there have told.
type simCloud struct {
	*sim.Cloud
	state string

	mu   sync.Mutex
	told []gputrain.Event

	pools []*gputrain.Compute
}

// pool opens a pool, which the test closes.
func (c *simCloud) pool(t *testing.T, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	p, err := c.open(t, spec, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (c *simCloud) open(t *testing.T, spec gputrain.Spec, opts ...gputrain.Option) (*gputrain.Compute, error) {
	t.Helper()
	opts = append([]gputrain.Option{gputrain.WithStateDir(c.state), gputrain.WithEvents(c.tell)}, opts...)
	p, err := gputrain.Open(t.Context(), sim.Config{Cloud: c.Cloud}, spec, opts...)
	if err == nil {
		c.pools = append(c.pools, p)
	}
	return p, err
}

// end closes a pool, and checks that nothing of it is left.
func (c *simCloud) end(t *testing.T, p *gputrain.Compute) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if live := c.Live(); len(live) > 0 {
		t.Errorf("left: %v", live)
	}
	if doubles := c.Doubles(); len(doubles) > 0 {
		t.Errorf("two machines of one name: %v", doubles)
	}
}

func (c *simCloud) tell(e gputrain.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, e)
}

func (c *simCloud) events() []gputrain.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.told)
}

// count returns how many events there were of a kind and state.
func (c *simCloud) count(kind gputrain.EventKind, state string) (n int) {
	for _, e := range c.events() {
		if e.Kind == kind && e.State == state {
			n++
		}
	}
	return n
}

// machines returns how many exist.
func (c *simCloud) machines() (n int) {
	for _, r := range c.Live() {
		if r.Kind == "machine" {
			n++
		}
	}
	return n
}

// launches returns how many machines there ever were.
func (c *simCloud) launches() int { return len(c.Machines("")) }

// words is what tasks are on simulated nodes: "echo", "rank", "sleep 1h".
func words(ctx context.Context, cmd sim.Command) int {
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

// at returns an offer that is enough for these tests.
func at(region string, usd float64) gputrain.Offer {
	return gputrain.Offer{ID: region, InstanceType: "small", Region: region, VCPUs: 2, MemoryGiB: 8, DiskGiB: 50, HourlyUSD: gputrain.USD(usd)}
}

// alive returns the IDs of a pool's nodes in rank order, and checks that their ranks
// are dense.
func alive(t *testing.T, p *gputrain.Compute) (ids []string) {
	t.Helper()
	for i, n := range p.Nodes() {
		if n.Rank != i {
			t.Errorf("node %d has rank %d", i, n.Rank)
		}
		ids = append(ids, n.ID)
	}
	return ids
}

// inTime waits for something for as long as a test may take, in virtual time.
func inTime(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 100000 {
		synctest.Wait()
		if is() {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("%s: not within a day", what)
}

func allReady(p *gputrain.Compute) bool {
	for _, n := range p.Nodes() {
		if n.State != gputrain.NodeReady {
			return false
		}
	}
	return true
}
