package providertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

func endToEndChecks() []check {
	return []check{
		{"end to end with a command on each node", nil, endToEndCommand},
		{"end to end with a function on each node", nil, endToEndFunction},
	}
}

// ownKey is a public key of a user's. The private half is lost.
const ownKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEjM47rJIh9Q5Ph8KX4XVDFZSCgkaPtAoQvdmunNCWoP me@laptop"

// square runs on the nodes.
var square = gputrain.Func("providertest.square", func(_ context.Context, x int) (int, error) { return x * x, nil })

// keep leaves a file on the node, and fails.
var keep = gputrain.Func("providertest.keep", func(ctx context.Context, text string) (bool, error) {
	return false, errors.Join(errFailed, os.WriteFile(filepath.Join(gputrain.ThisNode(ctx).Scratch, "kept.txt"), []byte(text), 0o600))
})

var errFailed = gputrain.RegisterError("providertest.failed", errors.New("it fails, as it should"))

func endToEndCommand(c *trial) {
	endToEnd(c, func(pool *gputrain.Compute) {
		results, err := pool.Broadcast(gputrain.Cmd("echo", "hello"))
		if err != nil || len(results) != c.upTo(2) {
			c.Fatalf("a command on each of %d nodes: %d results, %v", c.upTo(2), len(results), err)
		}
		for _, r := range results {
			if strings.TrimSpace(string(r.Stdout)) != "hello" {
				c.Errorf("node %d printed %q", r.Node.Rank, r.Stdout)
			}
		}
		costIsBounded(c, pool)
		reachNode(c, pool)
	})
}

// reachNode checks that a node can be reached beside its tasks.
func reachNode(c *trial, pool *gputrain.Compute) {
	c.Helper()
	var out bytes.Buffer
	if err := pool.Shell(c.Context(), 0, strings.NewReader("echo hello\n"), &out, nil); err != nil || strings.TrimSpace(out.String()) != "hello" {
		c.Errorf("Compute.Shell printed %q: %v", out.String(), err)
	}
	// Nothing listens at port 1. A simulated node has no ports.
	if _, err := pool.Dial(c.Context(), 0, "127.0.0.1:1"); !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, driver.ErrUnsupported) {
		c.Errorf("Compute.Dial of a port at which nothing listens: %v", err)
	}
}

// costIsBounded checks that a pool's cost counts as bounded if, and only if, nothing of the pool outlives the lease: machines
// end themselves, or cost nothing, and nothing else is billed.
func costIsBounded(c *trial, pool *gputrain.Compute) {
	c.Helper()
	d := c.open()
	caps := d.Capabilities()
	scripter, _ := d.(driver.Scripter)
	bounded := true
	for _, n := range pool.Nodes() {
		ends := scripter != nil && scripter.Scripts(driver.Instance{ID: n.ID}).SelfDestruct != ""
		bounded = bounded && (ends || caps.Free || caps.Adopts)
	}
	cost := pool.Cost()
	if _, shared := cost.Parts["shared"]; shared || cost.Unknown > 0 {
		bounded = false
	}
	if cost.Bounded != bounded {
		c.Errorf("Cost.Bounded is %v of a pool whose machines end themselves: %v; Cost is %+v", cost.Bounded, bounded, cost)
	}
}

func endToEndFunction(c *trial) {
	endToEnd(c, func(pool *gputrain.Compute) {
		if got, err := square.Broadcast(pool, 7); err != nil || !slices.Equal(got, []int{49, 49}[:c.upTo(2)]) {
			c.Errorf("a function on each of %d nodes: %v, %v", c.upTo(2), got, err)
		}
		fails := keep.Call("half")
		fails.Outputs = []string{"*.txt"}
		r, err := pool.Run(fails)
		if b, readErr := os.ReadFile(filepath.Join(r.OutputDir, "kept.txt")); !errors.Is(err, errFailed) || string(b) != "half" {
			c.Errorf("the outputs of a function that failed: %q, %v, %v", b, err, readErr)
		}
	})
}

// endToEnd opens a pool of two, or of as many as possible, makes it work, closes it, and checks
// that the account is as before.
func endToEnd(c *trial, work func(*gputrain.Compute)) {
	var before []string
	live := c.live()
	if c.h.Account != nil {
		before = resourceIDs(c.h.Account())
	}
	spec := c.h.Spec
	spec.Nodes, spec.AuthorizedKeys = c.upTo(2), []string{ownKey}
	pool, err := gputrain.Open(c.Context(), viaDial(c.h), spec, gputrain.WithStateDir(c.TempDir()))
	if err != nil {
		c.Fatalf("gputrain.Open: %v", err)
	}
	defer func() {
		if err := pool.Close(); err != nil {
			c.Errorf("Compute.Close: %v", err)
		}
		c.wantLive("after Compute.Close", live)
		if c.h.Account == nil {
			return
		}
		if err := c.eventually(eventTimeout, func() error {
			if left := c.newIn(before); len(left) > 0 {
				return fmt.Errorf("%q", resourceIDs(left))
			}
			return nil
		}); err != nil {
			c.Errorf("after Compute.Close the account has %v", err)
		}
	}()
	work(pool)
}

// viaDial returns the provider with machines that are reached by Harness.Dial.
func viaDial(h Harness) driver.Provider {
	if h.Dial == nil {
		return h.Provider
	}
	return Dialed(h.Provider, h.Dial)
}

// Dialed returns a provider whose machines are reached by dial: for tests with fakes of APIs
// that only use port 22.
func Dialed(p driver.Provider, dial func(ctx context.Context, addr string) (net.Conn, error)) driver.Provider {
	return dialedProvider{p, dial}
}

type dialedProvider struct {
	driver.Provider
	dial func(context.Context, string) (net.Conn, error)
}

func (p dialedProvider) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Provider.Open(ctx)
	if err != nil {
		return nil, err
	}
	// A pool finds a driver's abilities by interfaces: the wrapper must keep them.
	base := dialedDriver{d, p.dial}
	ends, canEnd := d.(driver.Scripter)
	marks, canMark := d.(driver.LeaseMarker)
	switch {
	case canEnd && canMark:
		return struct {
			dialedDriver
			driver.Scripter
			driver.LeaseMarker
		}{base, ends, marks}, nil
	case canEnd:
		return struct {
			dialedDriver
			driver.Scripter
		}{base, ends}, nil
	case canMark:
		return struct {
			dialedDriver
			driver.LeaseMarker
		}{base, marks}, nil
	}
	return base, nil
}

type dialedDriver struct {
	driver.Driver
	dial func(context.Context, string) (net.Conn, error)
}

func (d dialedDriver) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	return d.dial(ctx, in.SSH.Addr)
}
