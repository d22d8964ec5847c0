package local

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/providers/driver"
)

// A localDriver holds the nodes of one pool. A node's ID is its name.
type localDriver struct {
	dir   string // the folder of the homes
	real  string // the same by the name that all programs use
	homes homes
	host  string   // this machine
	pass  []string // Config.PassEnv
	gpus  gpuList

	mu    sync.Mutex
	nodes map[string]*node
}

var (
	_ driver.Provider = driver.RegisterConfig(Config{})
	_ driver.Driver   = (*localDriver)(nil)
	_ driver.Dialer   = (*localDriver)(nil)
	_ driver.Scripter = (*localDriver)(nil)
	_ driver.Resumer  = (*localDriver)(nil)
)

func (d *localDriver) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Account:        d.host + ":" + d.real,
		Free:           true,
		EndsBilling:    "terminate",
		PrivateNetwork: true,
		Ports:          driver.PortsOfNetwork, // of this computer's users
		Tags:           true,
		HostKeys:       driver.HostKeyInjected,
	}
}

// Offers yields this machine, any number of times, if the query asks for no accelerator or the
// machine has none, and otherwise once for each kind of GPU that it has.
func (d *localDriver) Offers(ctx context.Context, query driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		var offers []driver.Offer
		if !query.Accelerator.IsZero() {
			var err error
			if offers, err = d.gpuOffers(ctx, query.Accelerator); err != nil {
				yield(driver.Offer{}, fail("offers", driver.ErrUnavailable, err))
				return
			}
		}
		if offers == nil {
			offers = []driver.Offer{d.offer()}
		}
		for _, o := range offers {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (d *localDriver) offer() driver.Offer {
	return driver.Offer{
		Provider:     name,
		ID:           name,
		InstanceType: name,
		Region:       d.host,
		Arch:         runtime.GOARCH,
		VCPUs:        float64(runtime.NumCPU()),
		MemoryGiB:    memoryGiB(),
		DiskGiB:      diskGiB(d.dir),
		HourlyUSD:    driver.USD(0),
	}
}

func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return host
}

// Prepare does nothing: nodes share nothing.
func (*localDriver) Prepare(context.Context, driver.PoolInfo) error { return nil }

// Release does nothing.
func (*localDriver) Release(context.Context, driver.PoolInfo) error { return nil }

func (d *localDriver) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	if err := machine.CheckKey(req.Pool.AuthorizedKey); err != nil {
		return nil, fail("launch", driver.ErrInvalid, fmt.Errorf("the pool's authorized key: %w", err))
	}
	var launched []driver.Instance
	for _, want := range req.Nodes {
		if err := ctx.Err(); err != nil {
			return launched, fail("launch", nil, err)
		}
		n, err := d.launch(ctx, req, want)
		if err != nil {
			return launched, fail("launch", nil, fmt.Errorf("%s: %w", want.Name, err))
		}
		launched = append(launched, n.instance())
	}
	return launched, nil
}

// launch starts one node, unless it runs here already.
func (d *localDriver) launch(ctx context.Context, req driver.Launch, want driver.NodeRequest) (*node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.nodes[want.Name]; n != nil {
		if n.machine.Home().Exists() {
			return n, nil
		}
		n.machine.Close() // it ended itself
	}
	n, err := d.startNode(ctx, req, want)
	if err != nil {
		return nil, err
	}
	d.nodes[want.Name] = n
	return n, nil
}

// Describe finds a node that this driver does not serve by its home: its program ended without
// ending it.
func (d *localDriver) Describe(_ context.Context, ids ...string) ([]driver.Instance, error) {
	var found []driver.Instance
	for _, id := range ids {
		in, err := d.describe(id)
		if err != nil {
			return nil, fail("describe", nil, err)
		}
		found = append(found, in)
	}
	return found, nil
}

func (d *localDriver) describe(id string) (driver.Instance, error) {
	if n := d.node(id); n != nil {
		return n.instance(), nil
	}
	in := driver.Instance{ID: id, Name: id, State: driver.InstanceTerminated}
	if !validID(id) {
		return in, nil // no node ever had that name
	}
	home := d.homes.find(id)
	if home == "" {
		return in, nil
	}
	switch mark, err := readMark(home); {
	case err == nil:
		in.Rank, in.Offer = mark.Rank, d.offer()
		in.Offer.Accelerator = mark.Accelerator
	case !home.Exists():
		return in, nil
	case errors.Is(err, os.ErrNotExist):
		in.State, in.StateReason = driver.InstanceFailed, "its home has no "+markFile+": its launch was cut short, or another program removed the file"
		return in, nil
	default:
		return in, err
	}
	in.State, in.StateReason = driver.InstanceStopped, "this program does not serve it"
	return in, nil
}

// Terminate ends servers first, then processes detached from them, then the homes, when nothing
// writes to them any more.
func (d *localDriver) Terminate(ctx context.Context, ids ...string) error {
	var errs []error
	ending := map[string]*machine.Machine{}
	for _, id := range ids {
		if !validID(id) {
			errs = append(errs, fmt.Errorf("%q is not a node's ID", id))
			continue
		}
		ending[id] = d.machine(id)
	}
	errs = append(errs, machine.End(ctx, slices.Collect(maps.Values(ending))...))
	d.mu.Lock()
	for id, m := range ending {
		if !m.Home().Exists() {
			delete(d.nodes, id)
		}
	}
	d.mu.Unlock()
	d.homes.tidy()
	if err := errors.Join(errs...); err != nil {
		return fail("terminate", nil, err)
	}
	return nil
}

// machine returns the machine of a node, or the remains of one from another program.
func (d *localDriver) machine(id string) *machine.Machine {
	if n := d.node(id); n != nil {
		return n.machine
	}
	home, m := d.homes.find(id), mark{}
	if home != "" {
		m, _ = readMark(home) // without a mark the token of its processes is unknown
	}
	return machine.Left(d.machineConfig(id, home, m))
}

// Close ends the servers of this program. Nodes that were not terminated stay on disk, and List
// finds them.
func (d *localDriver) Close() error {
	d.mu.Lock()
	nodes := slices.Collect(maps.Values(d.nodes))
	clear(d.nodes)
	d.mu.Unlock()
	for _, n := range nodes {
		n.machine.Close()
	}
	return nil
}

// Dial connects to the node's server, in memory.
func (d *localDriver) Dial(_ context.Context, in driver.Instance) (net.Conn, error) {
	n := d.node(in.ID)
	if n == nil || !n.machine.Home().Exists() {
		return nil, fail("dial", driver.ErrNotFound, fmt.Errorf("%s is gone", in.ID))
	}
	nc, err := n.machine.Dial()
	if err != nil {
		return nil, fail("dial", driver.ErrNotFound, err)
	}
	return nc, nil
}

func (d *localDriver) node(id string) *node {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[id]
}
