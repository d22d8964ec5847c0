package vastai

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	searchLimit = 200
	// maxRejected bounds the rejected offers of a search that are shown: the cheapest.
	maxRejected = 50
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

// Offers yields the offers of the moment, first those that can be rented, and then the rejected ones
// that the API reported with them. It searches the machines on demand and on spot separately, the
// second only if the caller goes on after the first.
func (p *provider) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		caps := p.Capabilities()
		caps.PrivateNetwork = true
		joined := &caps
		for _, spot := range cloud.Markets(spec.Allocation) {
			finds, err := p.find(ctx, search{configFor(p, spec), spec, spot})
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			for _, f := range finds {
				if spec.Joined() && f.offer.Rejected == "" {
					f.offer.Capabilities = joined
				}
				if !yield(f.offer, nil) {
					return
				}
			}
		}
	}
}

// find searches one market, and remembers the good results for Create.
func (p *provider) find(ctx context.Context, of search) ([]find, error) {
	if of.together() {
		if err := p.network.find(ctx); err != nil {
			return nil, err
		}
	}
	rows, err := p.rows(ctx, of)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var finds, rejected []find
	for _, a := range rows {
		if !of.wants(a) {
			continue
		}
		f := of.toFind(a)
		if p.broken[a.MachineID] && f.offer.Rejected == "" {
			f.offer.Rejected = "is of a machine on which a node has failed"
		}
		switch {
		case f.offer.Rejected == "":
			finds = append(finds, f)
		case len(rejected) < maxRejected:
			rejected = append(rejected, f)
		}
	}
	if of.together() {
		var others []find
		finds, others = p.oneCluster(finds, of.nodes())
		rejected = append(others[:min(len(others), maxRejected)], rejected...)
	}
	for _, f := range finds {
		p.found[f.offer.ID] = f
	}
	return append(finds, rejected...), nil
}

// rows returns the asks of a search. If the search is for an accelerator, those that will be rejected
// are among them. They need no call of their own, unless the API cuts its answer off: then good ones
// may be missing, and are searched for alone.
func (p *provider) rows(ctx context.Context, of search) ([]ask, error) {
	if of.spec.Accelerator.IsZero() {
		return p.client.search(ctx, of.query())
	}
	all, err := p.client.search(ctx, of.device())
	if err != nil || len(all) < searchLimit {
		return all, err
	}
	rows, err := p.client.search(ctx, of.query())
	for _, a := range all {
		if !slices.ContainsFunc(rows, func(b ask) bool { return a.ID == b.ID }) {
			rows = append(rows, a)
		}
	}
	return rows, err
}

// A search looks for machines of one market.
type search struct {
	cfg  Config //secretvet:ignore complete, without the key
	spec driver.Query
	spot bool
}

func (s search) nodes() int { return max(s.spec.Nodes, 1) }

// together reports whether the nodes need an overlay network.
func (s search) together() bool { return s.spec.Joined() || s.cfg.UseOverlay && s.nodes() > 1 }

// diskGB returns the size of a node's disk.
func (s search) diskGB() float64 {
	if s.spec.DiskGiB <= 0 {
		return s.cfg.DiskGB
	}
	return max(math.Ceil(s.spec.DiskGiB*gib/1e9), minDiskGB)
}

// device returns the body of a search for the accelerator and the place alone.
func (s search) device() map[string]any {
	q := map[string]any{}
	is := func(column, op string, value any) { q[column] = map[string]any{op: value} }
	is("external", "eq", false)
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
	if places := s.places(); len(places) > 0 {
		is("geolocation", "in", places)
	}
	q["type"], q["order"] = "on-demand", [][]string{{"dph_total", "asc"}}
	if s.spot {
		q["type"], q["order"] = "bid", [][]string{{"min_bid", "asc"}}
	}
	q["limit"], q["allocated_storage"] = searchLimit, s.diskGB()
	return q
}

// query returns the body of a search for offers that can be rented. reject checks its conditions
// again: some of them have not always had an effect.
func (s search) query() map[string]any {
	q := s.device()
	is := func(column, op string, value any) { q[column] = map[string]any{op: value} }
	is("rentable", "eq", true)
	is("rented", "eq", false)
	if !s.cfg.AllowUnverified {
		is("verified", "eq", true)
	}
	least := func(column string, value float64) {
		if value > 0 {
			is(column, "gte", value)
		}
	}
	least("reliability2", s.cfg.MinReliability)
	least("cuda_max_good", s.cuda(s.spec.Accelerator))
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
	least("direct_port_count", float64(s.directPorts()))
	if s.together() {
		is("cluster_id", "neq", nil)
	}
	return q
}

// cuda returns the version of CUDA that the driver of an accelerator must support, or 0 for any. AMD's have none.
func (s search) cuda(a accelerators.Accelerator) float64 {
	if model, _ := accelerators.Lookup(a.Name); model.Vendor == "AMD" || strings.EqualFold(a.Vendor, "AMD") {
		return 0
	}
	return s.cfg.MinCUDA
}

// directPorts returns how many ports a machine must map.
func (s search) directPorts() int {
	if s.cfg.AllowProxy && len(s.cfg.Ports) == 0 {
		return 0
	}
	return 1 + len(s.cfg.Ports)
}

// places returns the countries to search: those that both Config and the spec allow, as far as the
// spec names countries. If there are none, they are Config's, and the market rejects the offers.
func (s search) places() []string {
	var wanted []string
	for _, name := range slices.Concat(s.spec.Countries, s.spec.Regions) {
		code := strings.ToUpper(name)
		switch {
		case !isCountry(code): // a region in Vast's words
			return s.cfg.Geolocation
		case s.spec.Allows(code, code) && (len(s.cfg.Geolocation) == 0 || slices.Contains(s.cfg.Geolocation, code)):
			wanted = append(wanted, code)
		}
	}
	if wanted == nil {
		return s.cfg.Geolocation
	}
	slices.Sort(wanted)
	return slices.Compact(wanted)
}

// maxGPUs is more than any machine has.
const maxGPUs = 64

// wants reports whether a row is complete, and has as many GPUs as the spec asks for.
func (s search) wants(a ask) bool {
	return a.ID != 0 && (s.spec.Accelerator.IsZero() || slices.Contains(s.spec.Accelerator.Counts(maxGPUs), a.NumGPUs))
}

// reject returns all reasons why no node is rented by a row, or "" if there are none.
func (s search) reject(a ask) string {
	var reasons []string
	against := func(is bool, format string, args ...any) {
		if is {
			reasons = append(reasons, fmt.Sprintf(format, args...))
		}
	}
	c := s.cfg
	against(a.Rentable != nil && !*a.Rentable || a.Rented != nil && *a.Rented, "is already rented")
	against(a.CPUCores == nil, "its vCPUs are unknown")
	against(!c.AllowUnverified && a.Verification != "verified", "its machine is not verified by Vast; Config.AllowUnverified takes it all the same")
	if has, known := a.reliability(); c.MinReliability > 0 {
		against(!known, "its reliability is unknown; Config.MinReliability is %v", c.MinReliability)
		against(known && has < c.MinReliability, "its reliability is %.4g; Config.MinReliability is %v", has, c.MinReliability)
	}
	cuda := s.cuda(accelerator(a.GPUName, 1, 0))
	against(a.CUDAMaxGood < cuda, "its driver supports CUDA %.1f; %s, or Config.MinCUDA, needs %.1f", a.CUDAMaxGood, c.Image, cuda)
	against(a.InetDown < c.MinInetDown, "downloads at %.0f Mbit/s; Config.MinInetDown is %v", a.InetDown, c.MinInetDown)
	against(a.InetUp < c.MinInetUp, "uploads at %.0f Mbit/s; Config.MinInetUp is %v", a.InetUp, c.MinInetUp)
	against(a.DiskSpace < s.diskGB(), "has %.0f GB of disk left; a node gets %v", a.DiskSpace, s.diskGB())
	now := time.Now()
	ends, known := a.ends(now)
	against(known && s.spec.TTL > 0 && ends.Before(now.Add(s.spec.TTL)), "its host's contract ends at %s, and the spec's TTL is %v", ends.Format(endForm), s.spec.TTL)
	against(!c.AllowProxy && a.DirectPortCount < 1, "its SSH can be reached by Vast's proxy alone; Config.AllowProxy takes it all the same")
	against(len(c.Ports) > 0 && a.DirectPortCount < s.directPorts(), "has %d direct ports; SSH and Config.Ports need %d", a.DirectPortCount, s.directPorts())
	against(s.together() && (a.ClusterID == nil || *a.ClusterID == 0), "is in no cluster, so it cannot be on an overlay network, by which nodes reach each other")
	country := a.country()
	against(len(c.Geolocation) > 0 && country != "" && !slices.Contains(c.Geolocation, country), "is in %s; Config.Geolocation allows %s", country, strings.Join(c.Geolocation, ", "))
	if most := c.MaxTrafficUSDPerGB; most > 0 {
		down, up := or(a.InetDownCost, math.Inf(1)), or(a.InetUpCost, math.Inf(1))
		against(down > most || up > most, "charges %v for a GB in, and %v for a GB out; Config.MaxTrafficUSDPerGB is %v", driver.USD(down), driver.USD(up), driver.USD(most))
	}
	return strings.Join(reasons, "; and ")
}

// endForm is the form of times in texts for users.
const endForm = "2006-01-02 15:04 MST"

// warnings returns what a user should know of a row beyond its price.
func (s search) warnings(a ask) (all []string) {
	if ends, known := a.ends(time.Now()); known {
		all = append(all, "the host's contract ends at "+ends.Format(endForm))
	}
	if a.DirectPortCount < 1 {
		all = append(all, "its SSH goes through Vast's proxy, which is slow: take a machine with a direct port for more than a GB")
	}
	if a.StorageCost == nil {
		all = append(all, "the price of its disk is unknown")
	}
	if a.InetDownCost == nil || a.InetUpCost == nil {
		all = append(all, "the price of its traffic is unknown")
	}
	return all
}

// ends returns when the host's contract ends, to the minute.
func (a ask) ends(now time.Time) (end time.Time, known bool) {
	if a.Duration != nil {
		end, known = now.Add(time.Duration(min(*a.Duration, maxSeconds)*float64(time.Second))), true
	}
	if a.EndDate != nil && *a.EndDate > 0 {
		if date := time.Unix(int64(min(*a.EndDate, maxSeconds)), 0); !known || date.Before(end) {
			end, known = date, true
		}
	}
	return end.UTC().Truncate(time.Minute), known
}

// maxSeconds is more than any contract has, and than any of their ends.
const maxSeconds = 8e9

// reliability returns the machine's reliability by either of its names.
func (a ask) reliability() (has float64, known bool) {
	if a.Reliability == nil && a.Reliability2 == nil {
		return 0, false
	}
	return min(or(a.Reliability, 1), or(a.Reliability2, 1)), true
}

func (a ask) country() string {
	if a.Geolocation == nil {
		return ""
	}
	return countryOf(*a.Geolocation)
}

// or returns a value, or another one if it is missing.
func or(v *float64, other float64) float64 {
	if v == nil {
		return other
	}
	return *v
}

// toFind turns a row into an offer. A spot price is the bid plus the disk, as Vast charges the
// bid.
func (s search) toFind(a ask) find {
	disk := s.diskGB()
	f := find{ask: a.ID, diskGB: disk, machine: a.MachineID, offer: driver.Offer{
		ID: strconv.FormatInt(a.ID, 10), Available: 1, Spot: s.spot,
		InstanceType: instanceType(a.GPUName, a.NumGPUs),
		Country:      a.country(),
		Host:         hostOf(a.MachineID),
		Billing:      billing,
		Accelerator:  accelerator(a.GPUName, a.NumGPUs, a.GPURAM),
		VCPUs:        a.CPUCoresEffective,
		DiskGiB:      disk * 1e9 / gib,
		IngressUSD:   or(a.InetDownCost, 0) * gib / 1e9, EgressUSD: or(a.InetUpCost, 0) * gib / 1e9, // the API reports them per GB
		Rejected: s.reject(a), Warnings: s.warnings(a),
	}}
	if a.Geolocation != nil {
		f.offer.Region = *a.Geolocation
	}
	if a.ClusterID != nil {
		f.cluster = *a.ClusterID
	}
	if cores := or(a.CPUCores, 0); cores > 0 {
		f.offer.MemoryGiB = a.CPURAM / 1024 * min(a.CPUCoresEffective/cores, 1)
	}
	forDisk, known := diskUSD(a, disk)
	if s.spot {
		f.offer.ID += "/bid"
		if f.bid = s.bid(a, forDisk); f.bid > 0 && known {
			f.offer.HourlyUSD = driver.USD(f.bid + forDisk)
		}
	} else {
		f.offer.HourlyUSD = onDemand(a, forDisk, known)
	}
	f.offer.Parts = partsOf(f.offer.HourlyUSD, forDisk)
	return f
}

// partsOf returns the parts of a price, one of which is the disk's.
const diskPart = "disk"

func partsOf(price driver.Price, forDisk float64) []driver.PricePart {
	usd, known := price.USD()
	if !known || forDisk <= 0 || forDisk > usd {
		return nil
	}
	return []driver.PricePart{{Name: "machine", HourlyUSD: usd - forDisk}, {Name: diskPart, HourlyUSD: forDisk}}
}

// hostOf returns the name of a machine, or "" if it is unknown. A machine has several offers, one for
// each slice of it, which come and go, but keeps its number.
func hostOf(machine int64) string {
	if machine == 0 {
		return ""
	}
	return strconv.FormatInt(machine, 10)
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

// oneCluster divides finds into those of one cluster, each on another machine, and the others, which are then rejected. The
// cluster is that of the pool's network, else the cheapest one with enough machines.
func (p *provider) oneCluster(finds []find, nodes int) (in, others []find) {
	cluster := p.network.inCluster()
	used := map[int64]bool{}
	for _, r := range p.notes {
		used[r.machine] = used[r.machine] || cluster != 0 && !r.ended && !r.bulk
	}
	clusters := map[int64][]find{}
	for _, f := range finds {
		same := func(g find) bool { return g.machine == f.machine }
		if !slices.ContainsFunc(clusters[f.cluster], same) && !used[f.machine] {
			clusters[f.cluster] = append(clusters[f.cluster], f)
		}
	}
	if cluster == 0 {
		cluster = cheapestCluster(clusters, nodes)
	}
	for _, f := range finds {
		chosen := func(g find) bool { return g.offer.ID == f.offer.ID }
		switch free := clusters[f.cluster]; {
		case f.cluster == cluster && slices.ContainsFunc(free, chosen):
			continue
		case f.cluster == cluster:
			f.offer.Rejected = "is of a machine that the pool's overlay network has, or would have by another offer: a node needs one of its own"
		case cluster == 0 || len(free) < nodes:
			f.offer.Rejected = fmt.Sprintf("is in a cluster with %d free machines; an overlay network, by which nodes reach each other, needs %d", len(free), nodes)
		default:
			f.offer.Rejected = fmt.Sprintf("is in cluster %d; the pool's overlay network is in cluster %d, or would be", f.cluster, cluster)
		}
		others = append(others, f)
	}
	return clusters[cluster], others
}

// cheapestCluster returns the cluster whose cheapest machines, as many as there are nodes, cost the least, or 0 if none has
// as many. It sorts the finds of each by price.
func cheapestCluster(clusters map[int64][]find, nodes int) (best int64) {
	cost := math.Inf(1)
	for cluster, fs := range clusters {
		slices.SortStableFunc(fs, func(a, b find) int { return cmp.Compare(usd(a), usd(b)) })
		if len(fs) < nodes {
			continue
		}
		sum := 0.0
		for _, f := range fs[:nodes] {
			sum += usd(f)
		}
		if best == 0 || sum < cost || sum == cost && cluster < best {
			best, cost = cluster, sum
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
	o, disk := order.Offer, search{configFor(p, order.Spec), order.Spec, order.Offer.Spot}.diskGB()
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
		return find{}, &driver.Error{Kind: driver.ErrNoCapacity, Err: fmt.Errorf("offer %s: cannot bid %v an hour", f.offer.ID, driver.USD(f.bid))}
	}
	return f, nil
}
