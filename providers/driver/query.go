package driver

import (
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
)

// A Query describes the machines that a pool wants. Amounts are per machine. The zero value asks
// for one machine of any kind.
type Query struct {
	// Accelerator is the accelerator that each machine must have, as Accelerator.Matches compares
	// it with an offer's. It may have no name, and a range of counts (Accelerator.Counts). The
	// zero value asks for none.
	Accelerator accelerators.Accelerator
	// Nodes is the maximum number of machines that the pool wants. Zero means 1.
	Nodes int
	// VCPUs, MemoryGiB and DiskGiB are minimums for each machine. Zero asks for nothing. A
	// container gets exactly the vCPUs and memory.
	VCPUs     float64
	MemoryGiB float64
	DiskGiB   float64
	// MaxVCPUs, MaxMemoryGiB and MaxDiskGiB are maximums for each machine. Zero means no limit. An
	// offer of unknown amount satisfies them. MaxDiskGiB has no effect on an offer whose
	// Capabilities have DiskResizable.
	MaxVCPUs     float64
	MaxMemoryGiB float64
	MaxDiskGiB   float64
	// InstanceTypes are the allowed kinds of machine, by Offer.InstanceType, in any case. None
	// means any.
	InstanceTypes []string
	// Arch is the processors' architecture by Go's name: "amd64", "arm64". Empty means any.
	Arch string
	// Regions are the allowed places of machines: regions or zones in the provider's words
	// (Offer.Region), or countries by their ISO codes (Offer.Country). A zone of a region counts as
	// the region. None means anywhere.
	Regions []string
	// Countries are the allowed countries of machines, by their ISO codes. None means anywhere. An
	// offer of unknown country does not satisfy them.
	Countries []string
	// Allocation chooses between spot and on demand.
	Allocation Allocation
	// MaxHourlyUSD is the maximum price of one machine for an hour. Zero means no limit.
	MaxHourlyUSD float64
	// MinHourlyUSD is the minimum price of one machine for an hour. Zero means no limit.
	MinHourlyUSD float64
	// AllowUnknownPrice permits offers without a price in spite of a limit.
	AllowUnknownPrice bool
	// Image is the container image that each machine is to run, as the docker command names it, if
	// Capabilities.Images is set; other drivers ignore it. Empty means that the driver chooses.
	Image string
	// TTL bounds the life of a machine. Zero means no limit.
	TTL time.Duration
	// Mounts are storage that outlives the pool, attached to each machine.
	Mounts []Mount
	// IngressGiB and EgressGiB are the traffic of a machine from the internet, and to it, in an
	// hour.
	IngressGiB, EgressGiB float64
	// PrivateNetwork asks for machines that reach all ports of each other by Instance.PrivateAddr, if
	// Nodes is more than 1: see [Query.Joined]. A driver that makes a network for a pool only if it is
	// asked does so then, and its offers have Capabilities with PrivateNetwork.
	PrivateNetwork bool
	// Baked identifies the content of an image from which machines may start, by BakedImage.Key, if
	// the driver is a [Baker]. Empty means none.
	Baked string
}

// An Allocation chooses between spot and on demand.
type Allocation int

const (
	// OnDemand rents at the fixed price, without preemption.
	OnDemand Allocation = iota
	// SpotIfAvailable rents spot, or on demand if there is none, or if that costs less.
	SpotIfAvailable
	// Spot rents only spot.
	Spot
	// CheapestAllocation rents the cheapest offer of the moment.
	CheapestAllocation
)

// String returns the allocation in lower case: "spot if available".
func (a Allocation) String() string {
	return nameOf(a, "on demand", "spot if available", "spot", "cheapest")
}

// A Mount attaches storage that outlives the pool.
type Mount struct {
	// Source is the storage, in the provider's words: for containers an absolute path on the
	// engine's machine, or the name of a volume.
	Source string
	// Target is its place on the node: an absolute path.
	Target string
	// ReadOnly forbids writing.
	ReadOnly bool
}

// Joined reports whether the machines must be joined by a private network: one machine needs none.
func (q Query) Joined() bool { return q.PrivateNetwork && q.Nodes > 1 }

// Allows reports whether machines may be in a place, by Regions and Countries. A driver may omit
// offers in other places. Region and country are those of an offer, and case does not matter.
func (q Query) Allows(region, country string) bool {
	return q.inRegions(region, country) && q.inCountries(country)
}

func (q Query) inRegions(region, country string) bool {
	region = strings.ToLower(region)
	return len(q.Regions) == 0 || slices.ContainsFunc(q.Regions, func(r string) bool {
		rest, inside := strings.CutPrefix(region, strings.ToLower(r))
		return inside && (rest == "" || rest[0] == '-' || isZone(rest, r)) || country != "" && strings.EqualFold(r, country)
	})
}

// isZone reports whether a rest of a name is the letter of a zone after a region that ends in a digit: "a" of "us-east-1a".
func isZone(rest, region string) bool {
	return len(rest) == 1 && rest[0] >= 'a' && rest[0] <= 'z' && region[len(region)-1] >= '0' && region[len(region)-1] <= '9'
}

func (q Query) inCountries(country string) bool {
	return len(q.Countries) == 0 || slices.ContainsFunc(q.Countries, func(c string) bool { return strings.EqualFold(c, country) })
}
