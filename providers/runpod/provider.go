package runpod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// Reads may lack a new pod for listLag seconds. It is an estimate: RunPod documents none,
	// and no other known client waits for it.
	listLag = 5
	// A create may still take effect until lateEffect after its caller has given up. It is an
	// estimate: twice the timeout of a v2 call, and the timeout of a GraphQL call.
	lateEffect = time.Minute
	// callsAtOnce bounds the calls of a kind at the same time.
	callsAtOnce = 4

	labelCluster    = "runpod.cluster"
	labelDataCenter = "runpod.datacenter"
	labelCloud      = "runpod.cloud"
)

// A podDriver is the driver of single pods, which can end themselves.
type podDriver struct {
	*cloud.Driver
	api *api
}

var _ driver.Scripter = (*podDriver)(nil)

// newDriver returns the driver of an account. Members of Instant Clusters cannot end
// themselves, so their driver is not a Scripter.
func newDriver(a *api) driver.Driver {
	opts := cloud.Options{AtOnce: callsAtOnce}
	if a.cfg.ClusterMode == Instant {
		return cloud.New(providerName, clusters{a}, opts)
	}
	return &podDriver{cloud.New(providerName, a, opts), a}
}

// An api is RunPod's [cloud.API].
type api struct {
	cfg      Config //secretvet:ignore without its key
	client   *client
	account  string
	lag      time.Duration // Capabilities.ListLag
	lookups  *lookups
	spending *knownSpending

	mu     sync.Mutex
	rented map[string]cloud.Machine //secretvet:ignore without passwords, which RunPod has none of; by ID, as answered by the create
}

var (
	_ cloud.API    = (*api)(nil)
	_ cloud.Teller = (*api)(nil)
	_ cloud.Ender  = (*api)(nil)

	_ driver.Balancer = (*api)(nil)
	_ driver.Quoter   = (*api)(nil)
)

func newAPI(c Config, client *client) *api {
	return &api{cfg: c, client: client, lag: listLag * cloud.Second, lookups: &lookups{cfg: c, client: client}, spending: &knownSpending{}, rented: map[string]cloud.Machine{}}
}

// Capabilities returns the same for all offers.
func (a *api) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Account:        a.account,
		LocalAddresses: localnet.IsURL(a.cfg.Endpoint),
		ListLag:        a.lag,
		LateEffect:     lateEffect,
		Spot:           a.cfg.ClusterMode != Instant && a.cfg.GlobalNetworking != NetworkingOn,
		EndsBilling:    "DELETE /v2/pods/{id}",
		PrivateNetwork: a.cfg.ClusterMode == Instant || a.cfg.GlobalNetworking == NetworkingOn,
		Ports:          driver.PortsOfNetwork, // of the account's pods
		Mounts:         true,
		DiskResizable:  true,
		Tags:           true,
		HostKeys:       driver.HostKeyInjected,
		Images: &driver.Images{
			Configured: a.cfg.Image, NoLogin: "; make a credential for it in RunPod's console, under Settings, and set Config.RegistryAuth to its name",
		},
		ProvisionTimeout: a.cfg.provisionTimeout(), BootstrapTimeout: a.cfg.BootstrapTimeout,
	}
}

// Prepare makes nothing, as each pod brings its own key. It looks up the credential for images.
func (a *api) Prepare(ctx context.Context, _ driver.PoolInfo) error {
	_, err := a.lookups.registryID(ctx)
	return err
}

// Release does nothing.
func (a *api) Release(context.Context, driver.PoolInfo) error { return nil }

// Shared returns nothing: a pool holds only machines.
func (a *api) Shared(context.Context, string) ([]driver.Resource, error) { return nil, nil }

// Close closes connections.
func (a *api) Close() { a.client.close() }

// End deletes a pod, or a cluster without members.
func (a *api) End(ctx context.Context, id string) error {
	if k, is := strings.CutPrefix(id, clusterID); is {
		return a.client.deleteCluster(ctx, k)
	}
	return a.client.deletePod(ctx, id)
}

// EndAll deletes pods, and a cluster if all its members are among them.
func (a *api) EndAll(ctx context.Context, ids []string) []error {
	errs := cloud.EndEach(ctx, ids, callsAtOnce, a.End)
	ends := map[string]error{} // the ends of clusters
	for i, err := range errs {
		if isConflict(err) {
			errs[i] = a.endMember(ctx, ids[i], ids, ends)
		}
	}
	return errs
}

// endMember ends, once, the cluster of a pod that cannot be ended alone.
func (a *api) endMember(ctx context.Context, id string, ids []string, ends map[string]error) error {
	p, err := a.client.pod(ctx, id)
	switch {
	case err != nil:
		return err
	case p.Cluster == nil:
		return &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("it cannot be deleted while it is %s", p.Status)}
	}
	k := p.Cluster.ID
	err, done := ends[k]
	if !done {
		err = a.endCluster(ctx, k, id, ids)
		ends[k] = err
	}
	return err
}

// endCluster ends the cluster of a named member if all of its members are to end.
func (a *api) endCluster(ctx context.Context, id, member string, ids []string) error {
	pods, err := a.client.clusterPods(ctx, id)
	switch {
	case err != nil:
		return err
	case !slices.ContainsFunc(pods, func(p pod) bool { return p.ID == member }): // others may be missing too, and must stay
		return odd("the pods of cluster %s lack its member %s", id, member)
	}
	var stay []string
	for _, p := range pods {
		if p.Status != "TERMINATED" && !slices.Contains(ids, p.ID) {
			stay = append(stay, p.ID)
		}
	}
	if len(stay) > 0 {
		return &driver.Error{Kind: driver.ErrUnsupported, Err: fmt.Errorf("the members of cluster %s end together, and %s are to stay", id, strings.Join(stay, ", "))}
	}
	return a.client.deleteCluster(ctx, id)
}

// Told describes a pod by the answer of its create, which has the real price.
func (a *api) Told(ctx context.Context, id string) (cloud.Machine, bool) {
	a.mu.Lock()
	m, ok := a.rented[id]
	delete(a.rented, id)
	a.mu.Unlock()
	if ok {
		return m, true
	}
	m, err := a.Machine(ctx, id) // the create's answer was lost
	return m, err == nil
}

// Machine returns a pod, or a cluster without members.
func (a *api) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	if k, is := strings.CutPrefix(id, clusterID); is {
		return a.cluster(ctx, k)
	}
	p, err := a.client.pod(ctx, id)
	if err != nil {
		return cloud.Machine{}, err
	}
	return machine(p), nil
}

// Machines returns all pods of the account, in any state, and the clusters that have no members
// yet.
func (a *api) Machines(ctx context.Context, _ string) ([]cloud.Machine, error) {
	clusters, err := a.client.clusters(ctx) // first, so that a cluster that gets its members meanwhile is in one of the lists
	if err != nil {
		return nil, err
	}
	pods, err := a.client.pods(ctx)
	if err != nil {
		return nil, err
	}
	var all []cloud.Machine
	peopled := map[string]bool{}
	for _, p := range pods {
		all = append(all, machine(p))
		if p.Cluster != nil && p.Status != "TERMINATED" {
			peopled[p.Cluster.ID] = true
		}
	}
	for _, k := range clusters {
		if m := clusterMachine(k); m.Tag.Pool != "" && !peopled[k.ID] {
			all = append(all, m)
		}
	}
	return all, nil
}

// cluster returns the machine that represents a cluster without members.
func (a *api) cluster(ctx context.Context, id string) (cloud.Machine, error) {
	all, err := a.client.clusters(ctx)
	if err != nil {
		return cloud.Machine{}, err
	}
	i := slices.IndexFunc(all, func(k cluster) bool { return k.ID == id })
	if i < 0 {
		return cloud.Machine{}, &driver.Error{Kind: driver.ErrNotFound, Err: errors.New("RunPod knows no such cluster")}
	}
	return clusterMachine(all[i]), nil
}
