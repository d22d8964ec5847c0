package inventory

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

// A cloud is a driver whose machines are in memory.
type cloud struct {
	driver.Driver
	caps driver.Capabilities

	before   func(op string) error // called before each call; an error ends the call there
	after    func(op string) error // called after each call has had its effect
	mu       sync.Mutex
	machines []driver.Instance
	calls    []string
}

func (c *cloud) Capabilities() driver.Capabilities { return c.caps }

func (c *cloud) do(op string, effect func()) error {
	c.mu.Lock()
	c.calls = append(c.calls, op)
	c.mu.Unlock()
	if c.before != nil {
		if err := c.before(op); err != nil {
			return err
		}
	}
	c.mu.Lock()
	effect()
	c.mu.Unlock()
	if c.after != nil {
		return c.after(op)
	}
	return nil
}

func (c *cloud) Offers(context.Context, driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		yield(driver.Offer{InstanceType: "small", HourlyUSD: driver.USD(1)}, nil)
	}
}

func (c *cloud) Prepare(context.Context, driver.PoolInfo) error { return c.do("prepare", func() {}) }

func (c *cloud) Launch(_ context.Context, req driver.Launch) (got []driver.Instance, err error) {
	err = c.do("launch", func() {
		for _, n := range req.Nodes {
			inst := driver.Instance{ID: "id-" + n.Name, Name: n.Name, Rank: n.Rank, Offer: req.Offer, State: driver.InstanceRunning}
			c.machines = append(c.machines, inst)
			got = append(got, inst)
		}
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

func (c *cloud) Describe(_ context.Context, ids ...string) (found []driver.Instance, err error) {
	err = c.do("describe", func() {
		for _, id := range ids {
			i := slices.IndexFunc(c.machines, func(m driver.Instance) bool { return m.ID == id })
			if i < 0 {
				found = append(found, driver.Instance{ID: id, State: driver.InstanceTerminated})
				continue
			}
			found = append(found, c.machines[i])
		}
	})
	return found, err
}

func (c *cloud) List(context.Context, string) (listed []driver.Resource, err error) {
	err = c.do("list", func() {
		for _, m := range c.machines {
			listed = append(listed, driver.Resource{Provider: "acme", Kind: machineKind, ID: m.ID, Name: m.Name, Pool: "p-1", State: m.State})
		}
	})
	return listed, err
}

func (c *cloud) Terminate(_ context.Context, ids ...string) error {
	return c.do("terminate", func() {
		c.machines = slices.DeleteFunc(c.machines, func(m driver.Instance) bool { return slices.Contains(ids, m.ID) })
	})
}

func (c *cloud) Release(context.Context, driver.PoolInfo) error { return c.do("release", func() {}) }

// ops returns the calls so far.
func (c *cloud) ops() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// add makes the cloud hold a machine that is in no inventory.
func (c *cloud) add(id, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machines = append(c.machines, driver.Instance{ID: id, Name: name, State: driver.InstanceRunning})
}

// A heard is a Reporter that records its calls.
type heard struct {
	mu       sync.Mutex
	trouble  []string
	settling []time.Time
	lost     error
}

func (h *heard) Billed() {}

func (h *heard) Trouble(about string, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble = append(h.trouble, about)
}

func (h *heard) Settling(_ error, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settling = append(h.settling, until)
}

func (h *heard) Lost(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = err
}

const lease = 5 * time.Minute

func pool() driver.PoolInfo { return driver.PoolInfo{ID: "p-1", Name: "p", Lease: lease} }

func folder(t *testing.T) *ledger.Dir {
	t.Helper()
	dir, err := ledger.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// begun returns the inventory of a pool in a cloud, and its ledger's folder.
func begun(t *testing.T, c *cloud, report Reporter) (*Inventory, *ledger.Dir) {
	t.Helper()
	dir := folder(t)
	inv := New(Account{Provider: "acme", Driver: c, Caps: c.caps}, pool(), report)
	if err := inv.Begin(dir, []byte("key")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inv.Close(false) })
	return inv, dir
}

// request asks for one machine for each rank, at a dollar an hour.
func request(inv *Inventory, ranks ...int) driver.Launch {
	req := driver.Launch{Offer: driver.Offer{Provider: "acme", InstanceType: "small", HourlyUSD: driver.USD(1)}}
	for _, rank := range ranks {
		req.Nodes = append(req.Nodes, driver.NodeRequest{Rank: rank, Name: inv.Name(rank)})
	}
	return req
}

// rows returns the states of the rows of a ledger, by name.
func rows(t *testing.T, dir *ledger.Dir) map[string]ledger.State {
	t.Helper()
	snap, err := dir.Read("p-1")
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]ledger.State{}
	for _, row := range snap.Rows {
		states[row.Name] = row.State
	}
	return states
}

var errCut = errors.New("the connection was cut")
