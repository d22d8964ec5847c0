package kubernetes

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// An api is the [cloud.API] of the clusters. What it remembers saves calls, except for the machines
// that it ends because they wait too long.
type api struct {
	cfg      Config
	clusters []*cluster
	offers   *catalogue
	events   *eventLog

	mu       sync.Mutex
	uids     map[string]string  // of Jobs, by the ID of the machine
	mine     map[string]bool    // machines of this driver's pool, by ID
	verdicts map[string]verdict // of machines that were given up, by ID
	since    map[string]time.Time
	seen     snapshot //secretvet:ignore its endpoints have no password
	life     int      // of seen: counts what this driver has changed
}

var (
	_ cloud.API     = (*api)(nil)
	_ cloud.Starter = (*api)(nil)
)

func newAPI(c Config, clusters []*cluster) *api {
	return &api{
		cfg: c, clusters: clusters, offers: &catalogue{cfg: c, clusters: clusters, places: map[offerKey]place{}},
		events: &eventLog{asked: map[string]answer{}}, uids: map[string]string{}, mine: map[string]bool{},
		verdicts: map[string]verdict{}, since: map[string]time.Time{},
	}
}

// Capabilities returns the same for all machines.
func (a *api) Capabilities() driver.Capabilities {
	var accounts []string
	for _, k := range a.clusters {
		accounts = append(accounts, k.account())
	}
	return driver.Capabilities{
		Account: strings.Join(accounts, " "), LateEffect: lateEffect, Free: a.cfg.free(), Spot: true, PreemptionNotice: grace,
		EndsBilling: "delete job", PrivateNetwork: true, Ports: driver.PortsOfNetwork, Mounts: true, DiskResizable: true, Tags: true, UserTags: true,
		Images:   &driver.Images{Configured: a.cfg.Image, NoLogin: "; name a Secret of the namespace in Config.PullSecrets"},
		HostKeys: driver.HostKeyInjected, ProvisionTimeout: a.cfg.PendingTimeout + imageTime,
	}
}

// Offers yields those of the catalogue.
func (a *api) Offers(ctx context.Context, q driver.Query) iter.Seq2[driver.Offer, error] {
	return a.offers.all(ctx, q)
}

// Prepare makes nothing: each Job has all that it needs.
func (a *api) Prepare(_ context.Context, pool driver.PoolInfo) error { return checkTags(pool.Tags) }

// Release has nothing to remove.
func (a *api) Release(context.Context, driver.PoolInfo) error { return nil }

// Shared returns nothing: a Secret belongs to its Job and goes with it.
func (a *api) Shared(context.Context, string) ([]driver.Resource, error) { return nil, nil }

// Classify returns the kind of a failure by Kubernetes' words.
func (a *api) Classify(op string, err error) (hint string, kind error) { return classify(op, err) }

// Close closes connections.
func (a *api) Close() {
	for _, k := range a.clusters {
		k.close()
	}
}

// id returns the ID of a machine: the name of its Job, with the cluster if there are several.
func (a *api) id(k *cluster, name string) string {
	if len(a.clusters) == 1 {
		return name
	}
	return name + "@" + k.key()
}

// locate finds the cluster and the Job of a machine. An ID of another cluster is an error: it must
// not look like a machine that is gone.
func (a *api) locate(id string) (*cluster, string, error) {
	name, key, several := strings.Cut(id, "@")
	i := slices.IndexFunc(a.clusters, func(k *cluster) bool { return k.key() == key })
	switch {
	case !several && len(a.clusters) == 1:
		return a.clusters[0], name, nil
	case several && i >= 0:
		return a.clusters[i], name, nil
	}
	return nil, "", &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("%q is a machine of another cluster", id), Hint: "set Contexts and Namespace as they were when it was launched"}
}
