package tensordock

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	gib          = 1 << 30
	minStorageGB = 100
	maxRAM       = 512
)

// Offers yields each location's GPUs in a machine of the requested size, not of the largest
// possible size.
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
			if l.Tier < d.cfg.MinTier || !inCountry(l.Country, d.cfg.Location) {
				continue
			}
			for _, g := range l.GPUs {
				for _, count := range spec.Accelerator.Counts(g.MaxCount) {
					s := d.sizeOf(l, g, count, spec)
					if d.fits(g, s) && !yield(offerOf(l, g, s, spec), nil) {
						return
					}
				}
			}
		}
	}
}

// A size is the content of an offer's ID: the location and parts of a machine.
type size struct {
	location, gpu               string
	count, vcpus, ramGB, diskGB int
}

func (d *dock) sizeOf(l location, g gpuStock, count int, spec driver.Query) size {
	s := size{
		location: l.ID, gpu: g.Name, count: count, diskGB: d.cfg.StorageGB,
		vcpus: even(max(int(math.Ceil(spec.VCPUs)), d.cfg.MinVCPUs)), ramGB: ramStep(max(int(math.Ceil(spec.MemoryGiB)), d.cfg.MinRAMGB)),
	}
	if spec.DiskGiB > 0 {
		s.diskGB = storageStep(int(math.Ceil(spec.DiskGiB * gib / 1e9)))
	}
	return s
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

// fits reports whether a location can have such a machine. A missing limit does not exclude it.
func (d *dock) fits(g gpuStock, s size) bool {
	within := func(n, most int) bool { return most == 0 || n <= most }
	if d.cfg.DedicatedIP && !g.Network.Dedicated || !d.cfg.DedicatedIP && g.Network.Forwards != nil && !*g.Network.Forwards {
		return false
	}
	return g.Name != "" && s.count <= g.MaxCount && s.ramGB <= maxRAM &&
		within(s.vcpus, g.Resources.VCPUs) && within(s.ramGB, g.Resources.RAMGB) && within(s.diskGB, g.Resources.StorageGB)
}

func offerOf(l location, g gpuStock, s size, spec driver.Query) driver.Offer {
	return driver.Offer{
		ID: s.String(), InstanceType: fmt.Sprintf("%dx %s", s.count, s.gpu), Region: l.region(), Arch: "amd64",
		Accelerator: accelerator(s.gpu, s.count, spec), HourlyUSD: priceOf(g, s),
		VCPUs: float64(s.vcpus), MemoryGiB: float64(s.ramGB), DiskGiB: float64(s.diskGB) * 1e9 / gib,
	}
}

// priceOf returns the sum of the prices of a machine's parts. If one is missing, it is unknown.
func priceOf(g gpuStock, s size) driver.Price {
	sum := 0.0
	for _, term := range []struct {
		per *number
		n   int
	}{{g.PerHour, s.count}, {g.Pricing.VCPU, s.vcpus}, {g.Pricing.RAMGB, s.ramGB}, {g.Pricing.StorageGB, s.diskGB}} {
		if term.per == nil || *term.per < 0 {
			return driver.Price{}
		}
		sum += float64(*term.per) * float64(term.n)
	}
	if sum == 0 {
		return driver.Price{}
	}
	return driver.USD(sum)
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
