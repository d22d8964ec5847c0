package tensordock

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	gib          = 1 << 30
	minStorageGB = 100
	maxRAM       = 512
	// A node has defaultVCPUs and defaultRAMGB if neither the spec nor Config asks for more, and the location has them.
	defaultVCPUs = 4
	defaultRAMGB = 16
)

// Offers yields each location's GPUs in a machine of the requested size, not of the largest
// possible size. It yields a machine that cannot be had with the reason.
func (d *dock) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		if spec.Allocation == driver.Spot {
			return
		}
		all, err := d.client.locations(ctx)
		if err != nil {
			yield(driver.Offer{}, err)
			return
		}
		for _, l := range all {
			if !spec.Allows(l.region(), isoCode(l.Country)) {
				continue
			}
			for _, g := range l.GPUs {
				if g.Name == "" {
					continue
				}
				counts := spec.Accelerator.Counts(max(g.MaxCount, 1))
				if len(counts) == 0 { // the pool says that these are too few
					counts = []int{max(g.MaxCount, 1)}
				}
				for _, count := range counts {
					s := d.sizeOf(l, g, count, spec)
					o := offerOf(l, g, s, spec)
					o.Rejected = d.reject(l, g, s)
					if !yield(o, nil) {
						return
					}
				}
			}
		}
	}
}

// reject returns why a location has no such machine, or "". A missing limit does not exclude it.
func (d *dock) reject(l location, g gpuStock, s size) string {
	beyond := func(n, most int) bool { return most > 0 && n > most }
	switch {
	case !inCountry(l.Country, d.cfg.Location):
		return fmt.Sprintf("is in %s; Config.Location is %s", cmp.Or(l.Country, "no country that is known"), d.cfg.Location)
	case l.Tier < d.cfg.MinTier:
		return fmt.Sprintf("its location is of tier %d; Config.MinTier is %d", l.Tier, d.cfg.MinTier)
	case d.cfg.DedicatedIP && !g.Network.Dedicated:
		return "has no address of its own; Config.DedicatedIP asks for one"
	case !d.cfg.DedicatedIP && g.Network.Forwards != nil && !*g.Network.Forwards:
		return "its host forwards no ports, so that nothing reaches its SSH server; Config.DedicatedIP takes an address of its own"
	case s.count > g.MaxCount:
		return "is sold out"
	case beyond(s.vcpus, g.Resources.VCPUs):
		return fmt.Sprintf("has at most %d vCPUs; %d are asked for", g.Resources.VCPUs, s.vcpus)
	case beyond(s.ramGB, cmp.Or(g.Resources.RAMGB, maxRAM)) || s.ramGB > maxRAM:
		return fmt.Sprintf("has at most %d GB of memory; %d are asked for", min(cmp.Or(g.Resources.RAMGB, maxRAM), maxRAM), s.ramGB)
	case beyond(s.diskGB, g.Resources.StorageGB):
		return fmt.Sprintf("has a disk of at most %d GB; %d are asked for", g.Resources.StorageGB, s.diskGB)
	}
	return ""
}

// A size is the content of an offer's ID: the location and parts of a machine.
type size struct {
	location, gpu               string
	count, vcpus, ramGB, diskGB int
}

func (d *dock) sizeOf(l location, g gpuStock, count int, spec driver.Query) size {
	s := size{location: l.ID, gpu: g.Name, count: count, diskGB: d.cfg.StorageGB}
	vcpus, ram := max(int(math.Ceil(spec.VCPUs)), d.cfg.MinVCPUs), max(int(math.Ceil(spec.MemoryGiB)), d.cfg.MinRAMGB)
	if vcpus == 0 {
		vcpus = least(defaultVCPUs, g.Resources.VCPUs, int(spec.MaxVCPUs)) / 2 * 2
	}
	if ram == 0 {
		ram = ramStepBelow(least(defaultRAMGB, g.Resources.RAMGB, int(spec.MaxMemoryGiB)))
	}
	s.vcpus, s.ramGB = even(max(vcpus, 1)), ramStep(ram)
	if spec.DiskGiB > 0 {
		s.diskGB = storageStep(int(math.Ceil(spec.DiskGiB * gib / 1e9)))
	}
	return s
}

// least returns n, or the least of the limits below it. A limit of 0 is none.
func least(n int, limits ...int) int {
	for _, limit := range limits {
		if limit > 0 {
			n = min(n, limit)
		}
	}
	return n
}

// ramStepBelow rounds down to a size of memory of at most 16 GB that the API accepts.
func ramStepBelow(gb int) int {
	if gb < 16 {
		return min(gb, 10) / 2 * 2
	}
	return gb
}

// even rounds up to a number of vCPUs that the API accepts.
func even(n int) int { return n + n%2 }

// ramStep rounds up to a size of memory that the API accepts: 2, 4, 6, 8, 10, 16, 32 and so on
// to 256, and 512. There is no more.
func ramStep(gb int) int {
	switch {
	case gb <= 10:
		return max(even(gb), 2)
	case gb <= 256:
		return (gb + 15) / 16 * 16
	}
	return max(gb, maxRAM)
}

// storageStep rounds up to a disk size that the API surely accepts: its own form has steps of
// 50.
func storageStep(gb int) int { return max((gb+49)/50*50, minStorageGB) }

func offerOf(l location, g gpuStock, s size, spec driver.Query) driver.Offer {
	o := driver.Offer{
		ID: s.String(), InstanceType: fmt.Sprintf("%dx %s", s.count, s.gpu), Region: l.region(), Country: isoCode(l.Country), Arch: "amd64",
		Accelerator: accelerator(s.gpu, s.count, spec),
		VCPUs:       float64(s.vcpus), MemoryGiB: float64(s.ramGB), DiskGiB: float64(s.diskGB) * 1e9 / gib,
	}
	if l.Tier == 0 {
		o.Warnings = []string{"its host is in somebody's home (tier 0), and often takes GPUs back; Config.MinTier excludes it"}
	}
	return priced(o, g, s)
}

// priced returns an offer at the sum of the prices of a machine's parts. If one is missing, it is unknown.
func priced(o driver.Offer, g gpuStock, s size) driver.Offer {
	machine, disk := 0.0, 0.0
	for _, term := range []struct {
		per *number
		n   int
		sum *float64
	}{{g.PerHour, s.count, &machine}, {g.Pricing.VCPU, s.vcpus, &machine}, {g.Pricing.RAMGB, s.ramGB, &machine}, {g.Pricing.StorageGB, s.diskGB, &disk}} {
		if term.per == nil || *term.per < 0 {
			return o
		}
		*term.sum += float64(*term.per) * float64(term.n)
	}
	if machine+disk == 0 {
		return o
	}
	return cloud.Priced(o, driver.PricePart{Name: "machine", HourlyUSD: machine}, driver.PricePart{Name: "disk", HourlyUSD: disk})
}

// accelerator translates the API's name. It keeps a name that no table has.
func accelerator(name string, count int, spec driver.Query) accelerators.Accelerator {
	a, err := accelerators.ParseFrom(providerName, name)
	if err != nil || a.IsZero() || spec.Accelerator.Exact && spec.Accelerator.Name == name {
		a = accelerators.Exact(name)
	}
	a.Count = float64(count)
	return a
}

// String returns the ID of the offer, which is all that a launch needs.
func (s size) String() string {
	return fmt.Sprintf("%s/%s/%d/%d/%d/%d", s.location, s.gpu, s.count, s.vcpus, s.ramGB, s.diskGB)
}

func parseSize(id string) (size, error) {
	parts := strings.Split(id, "/")
	if len(parts) != 6 || parts[0] == "" || parts[1] == "" {
		return size{}, fmt.Errorf("%w: %q is not the ID of a TensorDock offer", driver.ErrInvalid, id)
	}
	s := size{location: parts[0], gpu: parts[1]}
	for i, n := range []*int{&s.count, &s.vcpus, &s.ramGB, &s.diskGB} {
		var err error
		if *n, err = strconv.Atoi(parts[2+i]); err != nil || *n < 1 {
			return size{}, fmt.Errorf("%w: %q is not the ID of a TensorDock offer", driver.ErrInvalid, id)
		}
	}
	return s, nil
}
