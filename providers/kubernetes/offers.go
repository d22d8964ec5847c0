package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// A catalogue makes offers, and keeps their places for launches.
type catalogue struct {
	cfg      Config
	clusters []*cluster

	mu     sync.Mutex
	places map[offerKey]place
}

type offerKey struct{ id, region string }

// mostGPUs bounds the GPUs of one machine.
const mostGPUs = 64

// all yields the kinds of cluster nodes that could take a node, and the configured Shapes.
func (a *catalogue) all(ctx context.Context, q driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		for _, k := range a.clusters {
			offers, err := a.offersOf(ctx, k, q)
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			for _, o := range offers {
				if !yield(o, nil) {
					return
				}
			}
		}
	}
}

// offersOf returns the offers of a cluster, those with room first.
func (a *catalogue) offersOf(ctx context.Context, k *cluster, q driver.Query) ([]driver.Offer, error) {
	var all []driver.Offer
	if a.cfg.Autoscaled {
		all = a.shapeOffers(k, q)
	}
	nodes, _, err := k.listNodes(ctx, "")
	switch {
	case isRefused(err) && len(a.cfg.Shapes) > 0:
		if !a.cfg.Autoscaled {
			all = a.shapeOffers(k, q)
		}
		return all, nil
	case err != nil:
		return nil, err
	}
	hosts, known, err := a.hosts(ctx, k, nodes)
	if err != nil {
		return nil, err
	}
	found := a.nodeOffers(k, q, hosts, known)
	slices.SortStableFunc(found, func(x, y driver.Offer) int { return cmp.Compare(min(y.Available, 1), min(x.Available, 1)) })
	return append(found, all...), nil
}

// A seen host is one with its taints, which decide by the kind of pod.
type seenHost struct {
	host
	node node
}

// hosts reads the cluster nodes, with what runs there. known is false if this program may not list
// the pods of other namespaces.
func (a *catalogue) hosts(ctx context.Context, k *cluster, nodes []node) (all []seenHost, known bool, err error) {
	pods, err := k.runningPods(ctx)
	if known = !isRefused(err); known && err != nil {
		return nil, false, err
	}
	used := map[string]amounts{}
	for _, p := range pods {
		used[p.Spec.NodeName] = used[p.Spec.NodeName].plus(a.cfg.requestsOf(p))
	}
	for _, n := range nodes {
		if h, ok := a.cfg.hostOf(n); ok {
			h.used = used[h.name]
			all = append(all, seenHost{h, n})
		}
	}
	return all, known, nil
}

// nodeOffers returns an offer for each kind of cluster node, and each number of GPUs that the query
// allows there.
func (a *catalogue) nodeOffers(k *cluster, q driver.Query, hosts []seenHost, known bool) (offers []driver.Offer) {
	groups := map[shape][]seenHost{}
	var order []shape
	for _, h := range hosts {
		s := h.shape()
		if groups[s] == nil {
			order = append(order, s)
		}
		groups[s] = append(groups[s], h)
	}
	for _, s := range order {
		for _, n := range counts(q, s) {
			if o, ok := a.nodeOffer(k, q, s, n, groups[s], hosts, known); ok {
				offers = append(offers, o)
			}
		}
	}
	return offers
}

// counts returns the numbers of GPUs of a shape to offer. Without an accelerator in the query it is
// none, even of machines that have some.
func counts(q driver.Query, s shape) []int {
	switch {
	case q.Accelerator.IsZero():
		return []int{0}
	case s.total.gpus == 0:
		return nil
	case s.device.Count > 0 && s.device.Count < 1:
		return []int{1}
	}
	return q.Accelerator.Counts(min(s.total.gpus, mostGPUs))
}

func (a *catalogue) nodeOffer(k *cluster, q driver.Query, s shape, n int, group, all []seenHost, known bool) (driver.Offer, bool) {
	var device accelerators.Accelerator
	if n > 0 {
		device = times(s.device, n)
	}
	wanted := a.wanted(q, n)
	free, open := 0, 0
	for _, h := range group {
		if a.cfg.allows(h.node, n > 0, s.spot) {
			open++
			free += h.fit(wanted)
		}
	}
	if open == 0 || n > 0 && s.why == "" && !q.Accelerator.Matches(device) {
		return driver.Offer{}, false
	}
	o := driver.Offer{
		ID: s.text(n), InstanceType: cmp.Or(s.kind, group[0].value, "node"), Region: regionOf(k, s.region), Accelerator: device, Arch: s.arch,
		VCPUs: s.total.vcpus, MemoryGiB: s.total.memoryGiB, DiskGiB: s.total.diskGiB, Spot: s.spot, HourlyUSD: a.price(device, 0, 1),
	}
	switch {
	case n > 0 && s.why != "":
		o.Rejected = s.why
	case !known:
		o.Warnings = append(o.Warnings, "what other pods use is not known: the right to list pods is missing")
	case free > 0:
		o.Available = free
	default:
		o.Warnings = append(o.Warnings, "has no room now: "+a.waits())
	}
	a.warn(&o)
	a.remember(o, placeOf(k, s, n, group, all))
	return o, true
}

// wanted returns the amounts of a node.
func (a *catalogue) wanted(q driver.Query, gpus int) amounts {
	return amounts{cmp.Or(q.VCPUs, leastVCPUs), cmp.Or(q.MemoryGiB, leastMemoryGiB), cmp.Or(a.cfg.EphemeralGiB, q.DiskGiB), gpus}
}

func (a *catalogue) waits() string {
	return fmt.Sprintf("a node waits for up to %v (Config.PendingTimeout)", a.cfg.PendingTimeout.Round(time.Second))
}

// warn adds what a user should know of every offer.
func (a *catalogue) warn(o *driver.Offer) {
	if a.cfg.Queue != "" {
		o.Warnings = append(o.Warnings, "Kueue's queue "+a.cfg.Queue+" decides when each node starts, one by one: "+a.waits())
	}
	if !a.cfg.free() {
		o.Warnings = append(o.Warnings, "the price is that of the Config; what the cluster's owner pays depends on its machines")
	}
	if a.cfg.Istio {
		o.Warnings = append(o.Warnings, "with Istio's sidecar a pod does not end by itself before its TTL")
	}
}

// regionOf returns the region of an offer: the context's name, and the cloud's region if a label
// tells it, so that a query for the context finds all of them.
func regionOf(k *cluster, region string) string {
	if region == "" {
		return k.name
	}
	return k.name + "-" + region
}
