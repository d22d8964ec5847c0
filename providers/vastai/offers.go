package vastai

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	searchLimit = 200
	// A disk's price in USD per GB and month is divided by hoursPerMonth, which reproduces the
	// examples in the API's description.
	hoursPerMonth = 720
	// A GPU may report memorySlack of the memory in its name.
	memorySlack = 0.9
	gib         = 1 << 30
	// minBid and maxBid are the API's bounds of a bid, in USD an hour.
	minBid, maxBid = 0.001, 128
)

// A find is an offer with what a launch needs beyond it.
type find struct {
	offer   driver.Offer
	ask     int64
	bid     float64 // USD an hour; zero on demand
	diskGB  float64
	machine int64
	cluster int64 // zero if none
}

// Offers yields the offers of the moment. It searches the machines on demand and on spot
// separately, the second only if the caller goes on after the first.
func (p *provider) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		for _, spot := range cloud.Markets(spec.Allocation) {
			finds, err := p.find(ctx, search{p.cfg, spec, spot})
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			for _, f := range finds {
				if !yield(f.offer, nil) {
					return
				}
			}
		}
	}
}

// find searches one market, and remembers the results for Create.
func (p *provider) find(ctx context.Context, of search) ([]find, error) {
	if of.together() {
		if err := p.network.find(ctx); err != nil {
			return nil, err
		}
	}
	rows, err := p.client.search(ctx, of.query())
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var finds []find
	for _, a := range rows {
		if of.fits(a) && !p.broken[a.MachineID] {
			finds = append(finds, of.toFind(a))
		}
	}
	if of.together() {
		if finds = p.oneCluster(finds, of.nodes()); finds == nil {
			return nil, &driver.Error{Kind: driver.ErrNoOffers,
				Err:  fmt.Errorf("no cluster has %d free machines for an overlay network, which UseOverlay requires", of.nodes()),
				Hint: "few machines support that: ask for fewer nodes, another accelerator, or do without UseOverlay"}
		}
	}
	for _, f := range finds {
		p.found[f.offer.ID] = f
	}
	return finds, nil
}

// A search looks for machines of one market.
type search struct {
	cfg  Config //secretvet:ignore complete, without the key
	spec driver.Query
	spot bool
}

func (s search) nodes() int { return max(s.spec.Nodes, 1) }

// together reports whether the nodes need an overlay network.
func (s search) together() bool { return s.cfg.UseOverlay && s.nodes() > 1 }

// diskGB returns the size of a node's disk.
func (s search) diskGB() float64 {
	if s.spec.DiskGiB <= 0 {
		return s.cfg.DiskGB
	}
	return max(math.Ceil(s.spec.DiskGiB*gib/1e9), minDiskGB)
}

// query returns a search's body. fits checks its conditions again: some of them have not always
// had an effect.
func (s search) query() map[string]any {
	q := map[string]any{}
	is := func(column, op string, value any) { q[column] = map[string]any{op: value} }
	is("rentable", "eq", true)
	is("rented", "eq", false)
	is("external", "eq", false)
	if !s.cfg.AllowUnverified {
		is("verified", "eq", true)
	}
	if a := s.spec.Accelerator; !a.IsZero() {
		if names := namesOf(a); names != nil {
			is("gpu_name", "in", names)
		}
		switch counts := a.Counts(maxGPUs); {
		case len(counts) == 1:
			is("num_gpus", "eq", counts[0])
		case len(counts) > 1:
			q["num_gpus"] = map[string]any{"gte": counts[0], "lte": counts[len(counts)-1]}
		}
		if a.MemoryGiB > 0 {
			is("gpu_ram", "gte", math.Floor(a.MemoryGiB*1000*memorySlack))
		}
	}
	least := func(column string, value float64) {
		if value > 0 {
			is(column, "gte", value)
		}
	}
	least("reliability2", s.cfg.MinReliability)
	least("cuda_max_good", s.cfg.MinCUDA)
	least("inet_down", s.cfg.MinInetDown)
	least("inet_up", s.cfg.MinInetUp)
	cores := map[string]any{}
	if s.spec.VCPUs > 0 {
		cores["gte"] = s.spec.VCPUs
	}
	if s.spec.MaxVCPUs > 0 {
		cores["lte"] = s.spec.MaxVCPUs
	}
	if len(cores) > 0 {
		q["cpu_cores_effective"] = cores
	}
	least("disk_space", s.diskGB())
	least("duration", s.spec.TTL.Seconds()) // the host takes the machine back after that
	if most := s.cfg.MaxTrafficUSDPerGB; most > 0 {
		is("inet_down_cost", "lte", most)
		is("inet_up_cost", "lte", most)
	}
	if s.cfg.RequireDirectPort {
		is("direct_port_count", "gte", 1)
	}
	if len(s.cfg.Geolocation) > 0 {
		is("geolocation", "in", s.cfg.Geolocation)
	}
	if s.together() {
		is("cluster_id", "neq", nil)
	}
	q["type"], q["order"] = "on-demand", [][]string{{"dph_total", "asc"}}
	if s.spot {
		q["type"], q["order"] = "bid", [][]string{{"min_bid", "asc"}}
	}
	q["limit"], q["allocated_storage"] = searchLimit, s.diskGB()
	return q
}

// maxGPUs is more than any machine has.
const maxGPUs = 64

// fits reports whether a row satisfies the query.
func (s search) fits(a ask) bool {
	country := ""
	if a.Geolocation != nil {
		country = countryOf(*a.Geolocation)
	}
	switch {
	case a.ID == 0, a.CPUCores == nil, // an incomplete row
		a.Rentable != nil && !*a.Rentable, a.Rented != nil && *a.Rented,
		!s.cfg.AllowUnverified && a.Verification != "" && a.Verification != "verified",
		!s.spec.Accelerator.IsZero() && !slices.Contains(s.spec.Accelerator.Counts(maxGPUs), a.NumGPUs),
		below(a.Reliability, s.cfg.MinReliability), below(a.Reliability2, s.cfg.MinReliability),
		a.CUDAMaxGood < s.cfg.MinCUDA,
		a.InetDown < s.cfg.MinInetDown, a.InetUp < s.cfg.MinInetUp,
		a.DiskSpace < s.diskGB(), below(a.Duration, s.spec.TTL.Seconds()),
		s.cfg.RequireDirectPort && a.DirectPortCount < 1,
		len(s.cfg.Geolocation) > 0 && country != "" && !slices.Contains(s.cfg.Geolocation, country):
		return false
	}
	most := s.cfg.MaxTrafficUSDPerGB
	return most == 0 || a.InetDownCost <= most && a.InetUpCost <= most
}

// below reports whether a value is present and too low.
func below(v *float64, least float64) bool { return v != nil && *v < least }

// toFind turns a row into an offer. A spot price is the bid plus the disk, as Vast charges the
// bid.
func (s search) toFind(a ask) find {
	disk := s.diskGB()
	f := find{ask: a.ID, diskGB: disk, machine: a.MachineID, offer: driver.Offer{
		ID: strconv.FormatInt(a.ID, 10), Available: 1, Spot: s.spot,
		InstanceType: instanceType(a.GPUName, a.NumGPUs),
		Accelerator:  accelerator(a.GPUName, a.NumGPUs, a.GPURAM),
		VCPUs:        a.CPUCoresEffective,
		DiskGiB:      disk * 1e9 / gib,
		IngressUSD:   a.InetDownCost * gib / 1e9, EgressUSD: a.InetUpCost * gib / 1e9, // the API reports them per GB
	}}
	if a.Geolocation != nil {
		f.offer.Region = *a.Geolocation
	}
	if a.ClusterID != nil {
		f.cluster = *a.ClusterID
	}
	if *a.CPUCores > 0 {
		f.offer.MemoryGiB = a.CPURAM / 1024 * min(a.CPUCoresEffective / *a.CPUCores, 1)
	}
	forDisk, known := diskUSD(a, disk)
	if !s.spot {
		f.offer.HourlyUSD = onDemand(a, forDisk, known)
		return f
	}
	f.offer.ID += "/bid"
	if f.bid = s.bid(a, forDisk); f.bid > 0 && known {
		f.offer.HourlyUSD = driver.USD(f.bid + forDisk)
	}
	return f
}

// diskUSD returns the price of a disk of that size, in USD an hour. known is false if it is
// missing.
func diskUSD(a ask, gb float64) (perHour float64, known bool) {
	if a.StorageCost == nil {
		return 0, false
	}
	return gb * *a.StorageCost / hoursPerMonth, true
}

// onDemand returns the price of a machine on demand. The API reports it with the disk of the
// query: if it is lower than the API's own prices add up to, it was for another disk.
func onDemand(a ask, forDisk float64, known bool) driver.Price {
	usd := 0.0
	if a.DPHTotal != nil {
		usd = *a.DPHTotal
	}
	if a.DPHBase != nil && known {
		usd = max(usd, *a.DPHBase+forDisk)
	}
	if usd <= 0 {
		return driver.Price{}
	}
	return driver.USD(usd)
}

// bid returns the bid for a machine, in USD an hour without its disk, or 0 if the machine's
// lowest bid is unknown. A spec's highest price caps it, but not below that lowest bid.
func (s search) bid(a ask, forDisk float64) float64 {
	if a.MinBid == nil || *a.MinBid <= 0 {
		return 0
	}
	bid := *a.MinBid * s.cfg.BidMultiplier
	if s.spec.MaxHourlyUSD > 0 {
		bid = min(bid, s.spec.MaxHourlyUSD-forDisk)
	}
	return max(math.Floor(bid*1e4)/1e4, *a.MinBid)
}

func instanceType(gpu string, count int) string { return fmt.Sprintf("%dx %s", count, gpu) }

// oneCluster returns the finds of one cluster, each on another machine: of the cluster of the
// pool's network, else of the cheapest cluster with enough machines. It returns nil if there is
// none.
func (p *provider) oneCluster(finds []find, nodes int) []find {
	clusters := map[int64][]find{}
	for _, f := range finds {
		other := func(g find) bool { return g.machine != f.machine }
		if f.cluster != 0 && !slices.ContainsFunc(clusters[f.cluster], func(g find) bool { return !other(g) }) {
			clusters[f.cluster] = append(clusters[f.cluster], f)
		}
	}
	if cluster := p.network.inCluster(); cluster != 0 {
		used := map[int64]bool{}
		for _, r := range p.notes {
			used[r.machine] = used[r.machine] || !r.ended && !r.bulk
		}
		return slices.DeleteFunc(clusters[cluster], func(f find) bool { return used[f.machine] })
	}
	var best []find
	cost := math.Inf(1)
	for _, fs := range clusters {
		slices.SortStableFunc(fs, func(a, b find) int { return cmp.Compare(usd(a), usd(b)) })
		if len(fs) < nodes {
			continue
		}
		sum := 0.0
		for _, f := range fs[:nodes] {
			sum += usd(f)
		}
		if best == nil || sum < cost || sum == cost && fs[0].cluster < best[0].cluster {
			best, cost = fs, sum
		}
	}
	return best
}

// usd returns the price of a find, infinite if unknown.
func usd(f find) float64 {
	if usd, known := f.offer.HourlyUSD.USD(); known {
		return usd
	}
	return math.Inf(1)
}

// findOf returns the find that Offers has remembered for an offer.
func (p *provider) findOf(order cloud.Order) (find, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o, disk := order.Offer, search{p.cfg, order.Spec, order.Offer.Spot}.diskGB()
	f, ok := p.found[o.ID]
	if !ok || f.diskGB != disk { // it has another price
		ask, err := strconv.ParseInt(o.ID, 10, 64)
		if err != nil || ask <= 0 || o.Spot {
			return find{}, fmt.Errorf("%w: this driver's Offers did not yield offer %q", driver.ErrInvalid, o.ID)
		}
		f = find{offer: o, ask: ask, diskGB: disk}
	}
	if f.offer.Spot && (f.bid < minBid || f.bid > maxBid) {
		// Without a bid the rental would be on demand, at another price.
		return find{}, &driver.Error{Kind: driver.ErrNoCapacity, Err: fmt.Errorf("offer %s: cannot bid $%v an hour", f.offer.ID, f.bid)}
	}
	return f, nil
}
