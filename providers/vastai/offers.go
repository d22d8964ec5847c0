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
)

const (
	searchLimit = 200
	// hoursPerMonth is what the price of a disk, in USD per GB and month, is divided by.
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
		for _, spot := range markets(spec.Allocation) {
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

// markets returns which of the two an allocation can take from: spot is true.
func markets(a gputrain.Allocation) []bool {
	switch a {
	case gputrain.OnDemand:
		return []bool{false}
	case gputrain.Spot:
		return []bool{true}
	}
	return []bool{true, false}
}

// find searches one market, and remembers what it finds for Launch.
func (d *driver) find(ctx context.Context, spec gputrain.Spec, spot bool) ([]find, error) {
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
	if d.cfg.UseOverlay && d.nodes(spec) > 1 {
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
		a.DiskSpace < d.diskGB(spec),
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
// with the disk; a spec's highest price caps the bid, though not below the lowest one.
func (d *driver) toFind(a ask, spec gputrain.Spec, spot bool) find {
	disk := d.diskGB(spec)
	f := find{ask: a.ID, diskGB: disk, machine: a.MachineID, offer: gputrain.Offer{
		Provider: providerName, ID: strconv.FormatInt(a.ID, 10), Available: 1, Spot: spot,
		InstanceType: instanceType(a.GPUName, a.NumGPUs),
		Accelerator:  accelerator(a.GPUName, a.NumGPUs, a.GPURAM),
		VCPUs:        a.CPUCoresEffective,
		DiskGiB:      disk * 1e9 / gib,
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
	switch {
	case !spot && a.DPHTotal != nil && *a.DPHTotal > 0:
		f.offer.HourlyUSD = gputrain.USD(*a.DPHTotal)
	case spot:
		f.offer.ID += "/bid"
		if a.MinBid != nil && *a.MinBid > 0 {
			forDisk := disk * a.StorageCost / hoursPerMonth
			f.bid = *a.MinBid * d.cfg.BidMultiplier
			if spec.MaxHourlyUSD > 0 {
				f.bid = min(f.bid, spec.MaxHourlyUSD-forDisk)
			}
			f.bid = max(math.Floor(f.bid*1e4)/1e4, *a.MinBid)
			f.offer.HourlyUSD = gputrain.USD(f.bid + forDisk)
		}
	}
	return f
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
			used[m.machine] = true
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
	if !ok {
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
