package slurm

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// Offers yields an offer for each partition, type of GPU and number of them that a job may ask for, and one of each
// partition without GPUs if the query asks for none. An offer is a hope: only a submission shows what an account may have.
func (d *slurmDriver) Offers(ctx context.Context, q driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		s, err := d.site(ctx)
		if err != nil {
			yield(driver.Offer{}, fail("offers", err))
			return
		}
		d.mu.Lock()
		d.partitions = s.partitions
		d.mu.Unlock()
		offers := d.offers(s, q)
		if len(offers) == 0 {
			yield(driver.Offer{}, fail("offers", d.noOffers(s, q)))
			return
		}
		for _, o := range offers {
			if ctx.Err() != nil {
				yield(driver.Offer{}, context.Cause(ctx))
				return
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

// noOffers says what the cluster has instead.
func (d *controller) noOffers(s site, q driver.Query) error {
	names := d.offered(s)
	if len(names) == 0 {
		return &driver.Error{Kind: driver.ErrNoOffers, Err: fmt.Errorf("the cluster has no default partition"), Hint: "set Partitions: sinfo shows their names"}
	}
	return &driver.Error{Kind: driver.ErrNoOffers, Err: fmt.Errorf("no node of %s has %v", strings.Join(names, ", "), q.Accelerator), Hint: "set Partitions to others: sinfo -o '%P %G' shows what they have"}
}

// offered returns the partitions that are offered.
func (d *controller) offered(s site) (names []string) {
	if len(d.cfg.Partitions) > 0 {
		return d.cfg.Partitions
	}
	for _, n := range s.nodes {
		if n.isDefault && !slices.Contains(names, n.partition) {
			names = append(names, n.partition)
		}
	}
	return names
}

// A group is the nodes of a partition that have a type of GPU, or none, and one architecture.
type group struct {
	partition, kind, arch string
	nodes                 []siteNode
	most                  int // GPUs of that type on one node
}

// groups returns the groups of a partition, in order.
func (s site) groups(partition string) (all []group) {
	add := func(kind string, most int, n siteNode) {
		i := slices.IndexFunc(all, func(g group) bool { return g.kind == kind && g.arch == n.arch && (g.most == 0) == (most == 0) })
		if i < 0 {
			all = append(all, group{partition: partition, kind: kind, arch: n.arch})
			i = len(all) - 1
		}
		all[i].nodes, all[i].most = append(all[i].nodes, n), max(all[i].most, most)
	}
	for _, n := range s.nodes {
		if n.partition != partition || !n.canRun() {
			continue
		}
		add("", 0, n)
		for _, g := range n.gpus {
			if g.count > 0 {
				add(g.kind, g.count, n)
			}
		}
	}
	return all
}

func (d *controller) offers(s site, q driver.Query) (all []driver.Offer) {
	for _, name := range d.offered(s) {
		p, ok := s.partitions[name]
		if !ok {
			continue
		}
		groups := s.groups(name)
		for _, g := range groups {
			for _, n := range counts(q, g.most) {
				if o, ok := d.offerFor(g, p, n, q); ok {
					o.ID += archSuffix(groups, g)
					all = append(all, o)
				}
			}
		}
	}
	return all
}

// archSuffix tells the offers of several architectures apart.
func archSuffix(groups []group, g group) string {
	for _, other := range groups {
		if other.kind == g.kind && (other.most == 0) == (g.most == 0) && other.arch != g.arch {
			return "/" + g.arch
		}
	}
	return ""
}

// counts returns the numbers of GPUs that offers for a query have, of most on a node: none if the query asks for none.
func counts(q driver.Query, most int) []int {
	switch {
	case q.Accelerator.IsZero() && most == 0:
		return []int{0}
	case q.Accelerator.IsZero() || most == 0:
		return nil
	}
	return q.Accelerator.Counts(most)
}

// offer returns an offer without amounts.
func (d *controller) offer(partition, kind string, n int) driver.Offer {
	name := instanceType(kind, n)
	return driver.Offer{Provider: providerName, ID: partition + "/" + name, InstanceType: name, Region: partition, Spot: d.facts.spot[partition]}
}

// offerFor returns the offer of jobs with n GPUs on the nodes of a group. ok is false if they are another accelerator than
// the query's.
func (d *controller) offerFor(g group, p partition, n int, q driver.Query) (o driver.Offer, ok bool) {
	o = d.offer(g.partition, g.kind, n)
	o.Arch = g.arch
	if n > 0 {
		a, known := d.cfg.accelerator(g.partition, g.kind, commonFeatures(g.nodes))
		if !known {
			// The node is examined once it runs.
			if a = q.Accelerator; a.Name == "" {
				return o, false
			}
			o.Warnings = append(o.Warnings, untypedWarning)
		}
		if isShare(a) && n > 1 {
			return o, false // nobody can ask for several parts of a device
		}
		o.Accelerator = withCount(a, n)
	}
	cpus, memoryMiB := d.cfg.amounts(q, n)
	o.VCPUs, o.MemoryGiB = float64(cpus), memoryMiB/1024
	o.HourlyUSD = d.cfg.price(g.partition, n, cpus)
	d.availability(&o, g, p, n, q)
	return o, true
}

// untypedWarning is the first warning of an offer whose GPUs are taken to be what the query asks for.
const untypedWarning = "the cluster does not say what the GPUs of this partition are: a node is refused once it runs if they are others; GPUNames can name them"

// commonFeatures returns the features that all nodes have.
func commonFeatures(nodes []siteNode) []string {
	common := nodes[0].features
	for _, n := range nodes[1:] {
		common = slices.DeleteFunc(slices.Clone(common), func(f string) bool { return !slices.Contains(n.features, f) })
	}
	return common
}
