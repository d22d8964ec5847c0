package runpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// listLag is how long a pod that was made may be missing from reads. It is a guess: RunPod
// says nothing of it, and no client of others that is known waits for it. Tests have a
// shorter one.
var listLag = 5 * time.Second

const (
	// lateEffect is how long a create that nobody waits for may go on. It is a guess: RunPod
	// says nothing of it. A minute is twice what a call of v2 is waited for, and what one of
	// GraphQL is.
	lateEffect = time.Minute
	// callsAtOnce is how many calls of a kind are made at the same time.
	callsAtOnce = 4

	labelCluster    = "runpod.cluster"
	labelDataCenter = "runpod.datacenter"
	labelCloud      = "runpod.cloud"

	// clusterID begins the ID that stands for a cluster without members yet.
	clusterID = "cluster:"
)

var (
	_ gputrain.Driver         = (*driver)(nil)
	_ gputrain.SelfDestructor = (*driver)(nil)
)

type driver struct {
	cfg     Config //secretvet:ignore without its key
	client  *client
	account string
	opened  time.Time

	mu       sync.Mutex
	launched map[string]launched //secretvet:ignore without private keys; by ID, and what was ended
	registry *string             // of the credential for images, once that is known
	centers  []dataCenter        // once they are known
}

// What was launched by this driver: reads may not have it yet, nor its environment. Of what
// another has launched there is nothing but that it was ended.
type launched struct {
	at    time.Time
	ended bool                 // RunPod has taken its end
	gone  bool                 // RunPod was asked to end it, and found no such pod
	node  gputrain.NodeRequest //secretvet:ignore without its private key
	offer gputrain.Offer
}

// Capabilities says what RunPod can do.
func (d *driver) Capabilities() gputrain.Capabilities {
	return gputrain.Capabilities{
		Account:          d.account,
		LocalAddresses:   localnet.IsURL(d.cfg.Endpoint),
		ListLag:          listLag,
		LateEffect:       lateEffect,
		Spot:             d.cfg.ClusterMode != Instant && d.cfg.GlobalNetworking != NetworkingOn,
		EndsBilling:      "DELETE /v2/pods/{id}",
		PrivateNetwork:   d.cfg.ClusterMode == Instant || d.cfg.GlobalNetworking == NetworkingOn,
		Mounts:           true,
		DiskResizable:    true,
		Tags:             true,
		HostKeys:         gputrain.HostKeyInjected,
		ProvisionTimeout: d.cfg.provisionTimeout(),
	}
}

// Prepare makes nothing: a pod brings its own key. It looks whether the credential for
// images is there.
func (d *driver) Prepare(ctx context.Context, _ gputrain.PoolInfo) error {
	_, err := d.registryID(ctx)
	return fail("prepare", err)
}

// Release has nothing to remove.
func (d *driver) Release(context.Context, gputrain.PoolInfo) error { return nil }

// Close gives up the connections.
func (d *driver) Close() error {
	d.client.close()
	return nil
}

// Describe reports pods, several by one list.
func (d *driver) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
	found := map[string]pod{}
	if len(ids) > 1 {
		all, err := d.client.pods(ctx)
		if err != nil {
			return nil, fail("describe", err)
		}
		for _, p := range all {
			found[p.ID] = p
		}
	}
	instances := make([]gputrain.Instance, len(ids))
	var g errgroup.Group
	g.SetLimit(callsAtOnce)
	for i, id := range ids {
		p, listed := found[id]
		if listed {
			instances[i] = d.instance(p)
			continue
		}
		g.Go(func() (err error) {
			instances[i], err = d.describe(ctx, id)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fail("describe", err)
	}
	return instances, nil
}

func (d *driver) describe(ctx context.Context, id string) (gputrain.Instance, error) {
	if k, is := strings.CutPrefix(id, clusterID); is {
		return d.describeCluster(ctx, k)
	}
	p, err := d.client.pod(ctx, id)
	switch {
	case err == nil:
		return d.instance(p), nil
	case !isGone(err):
		return gputrain.Instance{}, err
	}
	mine := d.remembered(id)
	in := gputrain.Instance{ID: id, Name: mine.node.Name, Rank: mine.node.Rank, Offer: mine.offer, State: gputrain.InstanceTerminated, StateReason: "RunPod knows no such pod"}
	if !mine.ended && d.isNew(mine) {
		in.State, in.StateReason = gputrain.InstanceUnknown, "RunPod does not show the pod, or not yet"
		if !mine.at.IsZero() {
			in.State = gputrain.InstancePending
		}
	}
	return in, nil
}

// isNew is whether a pod may be too new to be known: another program may have launched it just
// before.
func (d *driver) isNew(mine launched) bool {
	since := mine.at
	if since.IsZero() {
		since = d.opened
	}
	return time.Since(since) < listLag
}

func (d *driver) remembered(id string) launched {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.launched[id]
}

func (d *driver) remember(id string, node gputrain.NodeRequest, offer gputrain.Offer) {
	node.HostKey.Private = ""
	d.mu.Lock()
	defer d.mu.Unlock()
	d.launched[id] = launched{at: time.Now(), node: node, offer: offer}
}

// ended notes that a pod has been ended: from then on one that reads do not have is gone.
func (d *driver) ended(id string) { d.change(id, func(mine *launched) { mine.ended = true }) }

func (d *driver) change(id string, change func(*launched)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	mine := d.launched[id]
	change(&mine)
	d.launched[id] = mine
}

// instance says in the pool's words what RunPod says of a pod.
func (d *driver) instance(p pod) gputrain.Instance {
	mine := d.remembered(p.ID)
	who, _ := identify(p)
	in := gputrain.Instance{
		ID: p.ID, Name: cmp.Or(mine.node.Name, who.name), Rank: who.rank, PrivateAddr: privateAddr(p), Offer: offerOf(p, mine.offer),
		Labels: map[string]string{labelDataCenter: p.DataCenterID, labelCloud: p.Cloud},
	}
	if mine.node.Name != "" {
		in.Rank = mine.node.Rank
	}
	if p.Cluster != nil {
		in.Labels[labelCluster] = p.Cluster.ID
	}
	in.State, in.StateReason = stateOf(p.Status, in.Offer.Spot)
	if mine.gone && cloud.IsOver(in.State) && !d.isNew(mine) {
		in.State, in.StateReason = gputrain.InstanceTerminated, cloud.NothingToEnd(in.StateReason)
	}
	host, port, user := endpoint(p)
	if host != "" && in.State == gputrain.InstanceRunning {
		in.PublicAddr = host
		in.SSH = gputrain.Endpoint{Addr: net.JoinHostPort(host, strconv.Itoa(port)), User: user}
		if key := cmp.Or(publicKey(mine.node.HostKey), who.hostKey); key != "" {
			in.SSH.HostKeys = []string{key}
		}
	}
	return in
}

// stateOf is the table of RunPod's states. A pod that has exited is never started
// again: a spot pod was outbid, any other cannot come back by itself. Both keep a disk
// that is billed.
func stateOf(status string, spot bool) (gputrain.InstanceState, string) {
	switch status {
	case "PROVISIONING", "STARTING":
		return gputrain.InstancePending, status
	case "RUNNING":
		return gputrain.InstanceRunning, ""
	case "EXITED":
		if spot {
			return gputrain.InstancePreempted, "EXITED: RunPod stopped the spot pod"
		}
		return gputrain.InstanceFailed, "EXITED: the pod was stopped, by its image, by hand, or for want of funds"
	case "ERROR":
		return gputrain.InstanceFailed, status
	case "TERMINATED":
		return gputrain.InstanceTerminated, status
	}
	return gputrain.InstanceUnknown, status
}

// endpoint returns where a pod's own SSH server is, and never RunPod's proxy, which
// carries neither files nor input.
func endpoint(p pod) (host string, port int, user string) {
	if at := p.SSH.Direct; at != nil && at.Host != "" && at.Port > 0 {
		return at.Host, at.Port, cmp.Or(at.Username, "root")
	}
	if p.Runtime != nil {
		for _, at := range p.Runtime.Ports {
			if at.Private == 22 && at.Type == "tcp" && at.IP != "" && at.Public > 0 {
				return at.IP, at.Public, "root"
			}
		}
	}
	return "", 0, ""
}

func privateAddr(p pod) string {
	if p.Cluster != nil {
		return p.Cluster.IP
	}
	return cmp.Or(p.GlobalNetworking.IP, p.GlobalNetworking.InternalDNS)
}

// offerOf is what was rented, by what was asked for and what the pod is.
func offerOf(p pod, asked gputrain.Offer) gputrain.Offer {
	o := asked
	if o.ID == "" {
		o.ID = p.Env[tagOffer]
	}
	if want, err := parsePlacement(o.ID); err == nil {
		o.Spot, o.Region = want.spot, want.region
	} else {
		o.Region = p.DataCenterID
	}
	o.Provider = providerName
	if real, known := cost(p).USD(); known {
		o.HourlyUSD = gputrain.USD(real)
	}
	switch {
	case p.GPU != nil:
		o.InstanceType = p.GPU.ID
		if o.Accelerator.IsZero() {
			o.Accelerator = accelerator(p.GPU.ID, 0, max(p.GPU.Count, 1), false)
		}
		o.VCPUs, o.MemoryGiB = cmp.Or(p.GPU.VCPUCount, o.VCPUs), cmp.Or(p.GPU.Memory, o.MemoryGiB)
	case p.CPU != nil:
		o.InstanceType, o.VCPUs, o.MemoryGiB = p.CPU.ID, cmp.Or(p.CPU.VCPUCount, o.VCPUs), cmp.Or(p.CPU.Memory, o.MemoryGiB)
	}
	return o
}

// accelerator reads RunPod's name for a type of GPU. A name that no catalogue has, or
// that was asked for as it is, goes through. A slice of a GPU (MIG) is a share of one, and
// several of them are no more than that.
func accelerator(id string, memory float64, count int, exact bool) accelerators.Accelerator {
	a, err := accelerators.ParseFrom(providerName, id)
	switch {
	case err != nil || a.IsZero() || exact:
		a = accelerators.Exact(id)
	case a.Count > 0 && a.Count < 1:
		return a
	}
	a.Count = float64(count)
	if memory > 0 {
		a.MemoryGiB = memory
	}
	return a
}

// Terminate deletes pods, and a cluster once all its members are to go.
func (d *driver) Terminate(ctx context.Context, ids ...string) error {
	var (
		g       errgroup.Group
		mu      sync.Mutex
		members []string
		errs    []error
	)
	g.SetLimit(callsAtOnce)
	for _, id := range ids {
		g.Go(func() error {
			err := d.terminate(ctx, id)
			switch {
			case err == nil:
				d.ended(id)
			case isGone(err):
				d.change(id, func(mine *launched) { mine.gone = true })
			}
			mu.Lock()
			defer mu.Unlock()
			if isConflict(err) {
				members = append(members, id)
			} else if err != nil && !isGone(err) {
				errs = append(errs, fail("terminate", fmt.Errorf("%s: %w", id, err)))
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs, all of them
	if len(members) > 0 {
		errs = append(errs, fail("terminate", d.terminateClusters(ctx, members, ids)))
	}
	return errors.Join(errs...)
}
