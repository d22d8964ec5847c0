package local

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"os"
	"os/user"
	"runtime"
	"slices"
	"sync"

	"github.com/gputrain/gputrain"
	xssh "golang.org/x/crypto/ssh"
)

// A driver keeps the nodes of one pool. A node's ID is its name.
type driver struct {
	dir   string // where homes are
	real  string // the same by the one name that all programs have for it
	homes homes
	host  string   // this machine
	pass  []string // Config.PassEnv

	mu    sync.Mutex
	nodes map[string]*node
}

var (
	_ gputrain.Provider       = Config{}
	_ gputrain.Driver         = (*driver)(nil)
	_ gputrain.Dialer         = (*driver)(nil)
	_ gputrain.SelfDestructor = (*driver)(nil)
	_ gputrain.Resumer        = (*driver)(nil)
)

func (d *driver) Capabilities() gputrain.Capabilities {
	return gputrain.Capabilities{
		Account:        d.host + ":" + d.real,
		Free:           true,
		EndsBilling:    "terminate",
		PrivateNetwork: true,
		Tags:           true,
		HostKeys:       gputrain.HostKeyInjected,
	}
}

// Offers yields this machine, without an accelerator, as often as one likes.
func (d *driver) Offers(context.Context, gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) { yield(d.offer(), nil) }
}

func (d *driver) offer() gputrain.Offer {
	return gputrain.Offer{
		Provider:     name,
		ID:           name,
		InstanceType: name,
		Region:       d.host,
		Arch:         runtime.GOARCH,
		VCPUs:        float64(runtime.NumCPU()),
		MemoryGiB:    memoryGiB(),
		DiskGiB:      diskGiB(d.dir),
		HourlyUSD:    gputrain.USD(0),
	}
}

func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return host
}

// Prepare has nothing to make: nodes share nothing.
func (*driver) Prepare(context.Context, gputrain.PoolInfo) error { return nil }

// Release has nothing to remove.
func (*driver) Release(context.Context, gputrain.PoolInfo) error { return nil }

func (d *driver) Launch(ctx context.Context, req gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	authorized, _, _, _, err := xssh.ParseAuthorizedKey([]byte(req.Pool.AuthorizedKey))
	if err != nil {
		return nil, fail("launch", gputrain.ErrInvalid, fmt.Errorf("the pool's authorized key: %w", err))
	}
	var launched []gputrain.Instance
	for _, want := range req.Nodes {
		if err := ctx.Err(); err != nil {
			return launched, fail("launch", nil, err)
		}
		n, err := d.launch(req, want, authorized)
		if err != nil {
			return launched, fail("launch", nil, fmt.Errorf("%s: %w", want.Name, err))
		}
		launched = append(launched, n.instance())
	}
	return launched, nil
}

// launch starts one node, unless it runs here already.
func (d *driver) launch(req gputrain.LaunchRequest, want gputrain.NodeRequest, authorized xssh.PublicKey) (*node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.nodes[want.Name]; n != nil {
		if exists(n.home) {
			return n, nil
		}
		n.server.Close() // it ended itself
	}
	n, err := d.startNode(req, want, authorized)
	if err != nil {
		return nil, err
	}
	d.nodes[want.Name] = n
	return n, nil
}

// Describe finds what this driver does not serve by its home: the node of a
// program that ended without ending it.
func (d *driver) Describe(_ context.Context, ids ...string) ([]gputrain.Instance, error) {
	var found []gputrain.Instance
	for _, id := range ids {
		in, err := d.describe(id)
		if err != nil {
			return nil, fail("describe", nil, err)
		}
		found = append(found, in)
	}
	return found, nil
}

func (d *driver) describe(id string) (gputrain.Instance, error) {
	if n := d.node(id); n != nil {
		return n.instance(), nil
	}
	in := gputrain.Instance{ID: id, Name: id, State: gputrain.InstanceTerminated}
	if !validID(id) {
		return in, nil // nothing was ever made under such a name
	}
	home := d.homes.find(id)
	if home == "" {
		return in, nil
	}
	switch mark, err := readMark(home); {
	case err == nil:
		in.Rank, in.Offer = mark.Rank, d.offer()
	case !exists(home):
		return in, nil
	case errors.Is(err, os.ErrNotExist):
		in.State, in.StateReason = gputrain.InstanceFailed, "its home has no "+markFile+": its launch was cut short, or somebody removed the file"
		return in, nil
	default:
		return in, err
	}
	in.State, in.StateReason = gputrain.InstanceStopped, "this program does not serve it"
	return in, nil
}

// Terminate ends servers first, then what detached itself from them, then the
// homes, which nobody writes to any more.
func (d *driver) Terminate(ctx context.Context, ids ...string) error {
	var errs []error
	ending := map[string]ending{}
	for _, id := range ids {
		if !validID(id) {
			errs = append(errs, fmt.Errorf("%q is not the ID of a node", id))
			continue
		}
		ending[id] = d.ending(id)
	}
	errs = append(errs, endProcesses(ctx, ending))
	for id, node := range ending {
		if node.home != "" {
			if err := removeHome(node.home); err != nil {
				errs = append(errs, fmt.Errorf("the home of %s: %w", id, err))
				continue
			}
		}
		d.mu.Lock()
		delete(d.nodes, id)
		d.mu.Unlock()
	}
	d.homes.tidy()
	if err := errors.Join(errs...); err != nil {
		return fail("terminate", nil, err)
	}
	return nil
}

// ending ends a node's server, and returns by what the rest of it is found.
func (d *driver) ending(id string) ending {
	if n := d.node(id); n != nil {
		n.server.Close()
		return ending{n.home, n.mark.Token, d}
	}
	e := ending{home: d.homes.find(id), at: d}
	if e.home != "" {
		m, _ := readMark(e.home) // without one its processes have no token that is known
		e.token = m.Token
	}
	return e
}

// Close ends the servers, which are this program's. What was not terminated
// stays on disk, where List finds it.
func (d *driver) Close() error {
	d.mu.Lock()
	nodes := slices.Collect(maps.Values(d.nodes))
	clear(d.nodes)
	d.mu.Unlock()
	for _, n := range nodes {
		n.server.Close()
	}
	return nil
}

// Dial connects to the node's server, in memory.
func (d *driver) Dial(_ context.Context, in gputrain.Instance) (net.Conn, error) {
	n := d.node(in.ID)
	if n == nil || !exists(n.home) {
		return nil, fail("dial", gputrain.ErrNotFound, fmt.Errorf("%s is gone", in.ID))
	}
	nc, err := n.server.Dial()
	if err != nil {
		return nil, fail("dial", gputrain.ErrNotFound, err)
	}
	return nc, nil
}

func (d *driver) node(id string) *node {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[id]
}

// userName is whom nodes run as.
func userName() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.Username, nil
}
