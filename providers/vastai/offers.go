package vastai

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	searchLimit = 200
	// hoursPerMonth is what the price of a disk, in USD per GB and month, is divided by:
	// so the examples of the API's description come out.
	hoursPerMonth = 720
	// memorySlack is how much less memory than its name says a GPU may report.
	memorySlack = 0.9
	gib         = 1 << 30
	// minBid and maxBid are what the API takes for a bid, in USD an hour.
	minBid, maxBid = 0.001, 128
)

// A find is an offer as it was found: with what a launch needs, and an Offer has no
// room for.
type find struct {
	offer   gputrain.Offer
	ask     int64
	bid     float64 // USD an hour; zero on demand
	diskGB  float64
	machine int64
	cluster int64 // zero where it has none
}

// Offers yields what can be rented now. There is a search each for the machines on
// demand and on spot, the second only for who is not content with the first.
func (d *driver) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		for _, spot := range cloud.Markets(spec.Allocation) {
			finds, err := d.find(ctx, spec, spot)
			if err != nil {
				yield(gputrain.Offer{}, fail("offers", err))
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

// find searches one market, and remembers what it finds for Launch.
func (d *driver) find(ctx context.Context, spec gputrain.Spec, spot bool) ([]find, error) {
	together := d.cfg.UseOverlay && d.nodes(spec) > 1
	if together {
		if err := d.findNetwork(ctx); err != nil {
			return nil, err
		}
	}
	rows, err := d.api.search(ctx, d.query(spec, spot))
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var finds []find
	for _, a := range rows {
		if d.fits(a, spec) && !d.broken[a.MachineID] {
			finds = append(finds, d.toFind(a, spec, spot))
		}
	}
	if together {
		if finds = d.oneCluster(finds, d.nodes(spec)); finds == nil {
			return nil, &gputrain.Error{Kind: gputrain.ErrNoOffers,
				Err:  fmt.Errorf("no cluster has %d machines free for an overlay network, which UseOverlay asks for", d.nodes(spec)),
				Hint: "few machines can do that: ask for fewer nodes, another accelerator, or do without UseOverlay"}
		}
	}
	for _, f := range finds {
		d.found[f.offer.ID] = f
	}
	return finds, nil
}

func (d *driver) nodes(spec gputrain.Spec) int { return max(spec.Nodes, spec.MaxNodes, 1) }

// diskGB is the size of the disk that a node gets.
func (d *driver) diskGB(spec gputrain.Spec) float64 {
	if spec.DiskGiB <= 0 {
		return d.cfg.DiskGB
	}
	return max(math.Ceil(spec.DiskGiB*gib/1e9), minDiskGB)
}

// query is a search's body. What it asks for is looked at again in fits: not all of it
// has always had an effect.
func (d *driver) query(spec gputrain.Spec, spot bool) map[string]any {
	q := map[string]any{}
	is := func(column, op string, value any) { q[column] = map[string]any{op: value} }
	is("rentable", "eq", true)
	is("rented", "eq", false)
	is("external", "eq", false)
	if !d.cfg.AllowUnverified {
		is("verified", "eq", true)
	}
	if a := spec.Accelerator; !a.IsZero() {
		if names := namesOf(a); names != nil {
			is("gpu_name", "in", names)
		}
		is("num_gpus", "eq", gpus(spec)) // gte would find larger slices, at larger prices
		if a.MemoryGiB > 0 {
			is("gpu_ram", "gte", math.Floor(a.MemoryGiB*1000*memorySlack))
		}
	}
	least := func(column string, value float64) {
		if value > 0 {
			is(column, "gte", value)
		}
	}
	least("reliability2", d.cfg.MinReliability)
	least("cuda_max_good", d.cfg.MinCUDA)
	least("inet_down", d.cfg.MinInetDown)
	least("inet_up", d.cfg.MinInetUp)
	least("cpu_cores_effective", spec.VCPUs)
	least("disk_space", d.diskGB(spec))
	least("duration", spec.TTL.Seconds()) // its host takes the machine back after that
	if most := d.cfg.MaxTrafficUSDPerGB; most > 0 {
		is("inet_down_cost", "lte", most)
		is("inet_up_cost", "lte", most)
	}
	if d.cfg.RequireDirectPort {
		is("direct_port_count", "gte", 1)
	}
	if len(d.cfg.Geolocation) > 0 {
		is("geolocation", "in", d.cfg.Geolocation)
	}
	if d.cfg.UseOverlay && d.nodes(spec) > 1 {
		is("cluster_id", "neq", nil)
	}
	q["type"], q["order"] = "on-demand", [][]string{{"dph_total", "asc"}}
	if spot {
		q["type"], q["order"] = "bid", [][]string{{"min_bid", "asc"}}
	}
	q["limit"], q["allocated_storage"] = searchLimit, d.diskGB(spec)
	return q
}

// gpus is how many GPUs a spec asks for: a whole number, as there are no parts.
func gpus(spec gputrain.Spec) int { return int(math.Ceil(max(spec.Accelerator.Count, 1))) }

// fits reports whether a row is what the query has asked for.
func (d *driver) fits(a ask, spec gputrain.Spec) bool {
	country := ""
	if a.Geolocation != nil {
		country = countryOf(*a.Geolocation)
	}
	switch {
	case a.ID == 0, a.CPUCores == nil, // a row that is not whole
		a.Rentable != nil && !*a.Rentable, a.Rented != nil && *a.Rented,
		!d.cfg.AllowUnverified && a.Verification != "" && a.Verification != "verified",
		!spec.Accelerator.IsZero() && a.NumGPUs != gpus(spec),
		below(a.Reliability, d.cfg.MinReliability), below(a.Reliability2, d.cfg.MinReliability),
		a.CUDAMaxGood < d.cfg.MinCUDA,
		a.InetDown < d.cfg.MinInetDown, a.InetUp < d.cfg.MinInetUp,
		a.DiskSpace < d.diskGB(spec), below(a.Duration, spec.TTL.Seconds()),
		d.cfg.RequireDirectPort && a.DirectPortCount < 1,
		len(d.cfg.Geolocation) > 0 && country != "" && !slices.Contains(d.cfg.Geolocation, country):
		return false
	}
	most := d.cfg.MaxTrafficUSDPerGB
	return most == 0 || a.InetDownCost <= most && a.InetUpCost <= most
}

// below reports whether a value is there, and too low.
func below(v *float64, least float64) bool { return v != nil && *v < least }

// toFind makes an offer of a row. A spot price is the bid, as that is what is charged,
// with the disk.
func (d *driver) toFind(a ask, spec gputrain.Spec, spot bool) find {
	disk := d.diskGB(spec)
	f := find{ask: a.ID, diskGB: disk, machine: a.MachineID, offer: gputrain.Offer{
		Provider: providerName, ID: strconv.FormatInt(a.ID, 10), Available: 1, Spot: spot,
		InstanceType: instanceType(a.GPUName, a.NumGPUs),
		Accelerator:  accelerator(a.GPUName, a.NumGPUs, a.GPURAM),
		VCPUs:        a.CPUCoresEffective,
		DiskGiB:      disk * 1e9 / gib,
		IngressUSD:   a.InetDownCost * gib / 1e9, EgressUSD: a.InetUpCost * gib / 1e9, // told per GB
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
	if !spot {
		f.offer.HourlyUSD = onDemand(a, forDisk, known)
		return f
	}
	f.offer.ID += "/bid"
	if f.bid = d.bid(a, spec, forDisk); f.bid > 0 && known {
		f.offer.HourlyUSD = gputrain.USD(f.bid + forDisk)
	}
	return f
}

// diskUSD is what a disk of that size costs, in USD an hour, and whether that is known.
func diskUSD(a ask, gb float64) (perHour float64, known bool) {
	if a.StorageCost == nil {
		return 0, false
	}
	return gb * *a.StorageCost / hoursPerMonth, true
}

// onDemand is what a machine costs that is not bid for. The API tells that for the disk
// it was asked about: should it be less than its own prices come to, that was another one.
func onDemand(a ask, forDisk float64, known bool) gputrain.Price {
	usd := 0.0
	if a.DPHTotal != nil {
		usd = *a.DPHTotal
	}
	if a.DPHBase != nil && known {
		usd = max(usd, *a.DPHBase+forDisk)
	}
	if usd <= 0 {
		return gputrain.Price{}
	}
	return gputrain.USD(usd)
}

// bid is what is bid for a machine, in USD an hour without its disk, and 0 where it does
// not say what it takes. A spec's highest price caps it, though not below that.
func (d *driver) bid(a ask, spec gputrain.Spec, forDisk float64) float64 {
	if a.MinBid == nil || *a.MinBid <= 0 {
		return 0
	}
	bid := *a.MinBid * d.cfg.BidMultiplier
	if spec.MaxHourlyUSD > 0 {
		bid = min(bid, spec.MaxHourlyUSD-forDisk)
	}
	return max(math.Floor(bid*1e4)/1e4, *a.MinBid)
}

func instanceType(gpu string, count int) string { return fmt.Sprintf("%dx %s", count, gpu) }

// oneCluster returns the finds of one cluster, each on another machine: of the cluster
// that the pool has its network in, else of the cheapest that has enough. It is nil
// where there is none.
func (d *driver) oneCluster(finds []find, nodes int) []find {
	clusters := map[int64][]find{}
	for _, f := range finds {
		other := func(g find) bool { return g.machine != f.machine }
		if f.cluster != 0 && !slices.ContainsFunc(clusters[f.cluster], func(g find) bool { return !other(g) }) {
			clusters[f.cluster] = append(clusters[f.cluster], f)
		}
	}
	if d.cluster != 0 {
		used := map[int64]bool{}
		for _, m := range d.made {
			used[m.machine] = used[m.machine] || !m.ended && !m.bulk
		}
		return slices.DeleteFunc(clusters[d.cluster], func(f find) bool { return used[f.machine] })
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

// usd is the price of a find, and infinite where it is not known.
func usd(f find) float64 {
	if usd, known := f.offer.HourlyUSD.USD(); known {
		return usd
	}
	return math.Inf(1)
}

// findOf returns what Offers has found of an offer.
func (d *driver) findOf(req gputrain.LaunchRequest) (find, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.found[req.Offer.ID]
	if !ok || f.diskGB != d.diskGB(req.Spec) { // it has another price
		ask, err := strconv.ParseInt(req.Offer.ID, 10, 64)
		if err != nil || ask <= 0 || req.Offer.Spot {
			return find{}, fmt.Errorf("%w: offer %q is not one that this driver's Offers has found", gputrain.ErrInvalid, req.Offer.ID)
		}
		f = find{offer: req.Offer, ask: ask, diskGB: d.diskGB(req.Spec)}
	}
	if f.offer.Spot && (f.bid < minBid || f.bid > maxBid) {
		// Without a bid the rental would be on demand, at another price.
		return find{}, &gputrain.Error{Kind: gputrain.ErrNoCapacity, Err: fmt.Errorf("offer %s: a bid of $%v an hour cannot be made", f.offer.ID, f.bid)}
	}
	return f, nil
}
