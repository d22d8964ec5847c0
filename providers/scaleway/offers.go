package scaleway

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	gib           = 1 << 30
	defaultDiskGB = 100
	shortage      = "shortage"
)

// diskBytes returns the size of a server's volume: full GB, which are multiples of 512 bytes.
func diskBytes(spec driver.Query) int64 {
	if spec.DiskGiB <= 0 {
		return defaultDiskGB * 1e9
	}
	return int64(math.Ceil(spec.DiskGiB*gib/1e9)) * 1e9
}

// A place is the content of an offer's ID: a zone, a type of machine and an image.
type place struct{ zone, kind, image string }

func (p place) String() string { return p.zone + "/" + p.kind + "/" + p.image }

func readPlace(id string) (place, error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 || !zoneForm.MatchString(parts[0]) || parts[1] == "" || !uuidForm.MatchString(parts[2]) {
		return place{}, &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("%q is not an offer of this provider", id),
			Hint: "launch an offer as Offers yielded it: its ID is a zone, a type and an image"}
	}
	return place{parts[0], parts[1], parts[2]}, nil
}

// Offers yields the offers in stock, zone by zone. There is no spot.
func (a *api) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		if spec.Allocation == driver.Spot {
			return
		}
		for _, zone := range a.zones {
			if !within(zone, spec.Regions) {
				continue
			}
			for o, err := range a.offersIn(ctx, zone, spec) {
				if len(a.zones) > 1 && isGone(err) {
					break // the API does not know the zone
				}
				if !yield(o, err) || err != nil {
					return
				}
			}
		}
	}
}

// offersIn yields a zone's offers. It asks for stock and images only if a type matches the
// spec.
func (a *api) offersIn(ctx context.Context, zone string, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		images := imagesOf{a: a, zone: zone, found: map[string][]localImage{}}
		var stock map[string]string
		page := func(p keyed[product]) (o driver.Offer, fits bool, err error) {
			if !wanted(p.value, spec) {
				return o, false, nil
			}
			if stock == nil {
				if stock, err = a.client.stock(ctx, zone); err != nil {
					return o, false, err
				}
			}
			if stock[p.key] == shortage {
				return o, false, nil
			}
			image, err := images.fitting(ctx, p.key)
			if err != nil || image == "" {
				return o, false, err
			}
			return a.offer(place{zone, p.key, image}, p.value, spec), true, nil
		}
		for p, err := range a.client.products(ctx, zone) {
			var (
				o    driver.Offer
				fits bool
			)
			if err == nil {
				o, fits, err = page(p)
			}
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			if fits && !yield(o, nil) {
				return
			}
		}
	}
}

// wanted reports whether a type of machine may match the spec.
func wanted(p product, spec driver.Query) bool {
	return !p.EndOfService && (spec.Accelerator.IsZero() || p.gpus() > 0)
}

func (a *api) offer(p place, t product, spec driver.Query) driver.Offer {
	o := driver.Offer{
		ID: p.String(), InstanceType: p.kind, Region: p.zone,
		Accelerator: accelerator(p.kind, t, spec.Accelerator),
		Arch:        archs[t.Arch], VCPUs: t.NCPUs, MemoryGiB: t.RAM / gib, DiskGiB: float64(diskBytes(spec)) / gib,
		BillingUnit: time.Hour,
	}
	if t.gpus() > 0 && p.kind != "RENDER-S" {
		o.BillingUnit = time.Minute
	}
	if t.HourlyPrice > 0 {
		o.HourlyUSD = driver.USD(t.HourlyPrice * a.cfg.USDPerEUR)
	}
	return o
}

var archs = map[string]string{"x86_64": "amd64", "arm64": "arm64", "aarch64": "arm64"}

// accelerator reads a type's accelerator: by its own name, which has form and memory, or by
// that of its GPU. A spec with either as its exact name gets that.
func accelerator(kind string, t product, asked accelerators.Accelerator) accelerators.Accelerator {
	if t.gpus() == 0 {
		return accelerators.Accelerator{}
	}
	info := gpuInfo{}
	if t.GPUInfo != nil {
		info = *t.GPUInfo
	}
	a, err := accelerators.ParseFrom(providerName, kind)
	if err != nil || a.IsZero() {
		a, err = accelerators.ParseFrom(providerName, info.Name)
	}
	switch {
	case asked.Exact && (asked.Name == kind || asked.Name == info.Name):
		a = accelerators.Exact(asked.Name)
	case err != nil || a.IsZero():
		a = accelerators.Exact(cmp.Or(info.Name, kind))
	}
	a.Count = float64(t.gpus())
	if info.Memory > 0 {
		a.MemoryGiB = math.Round(info.Memory / gib)
	}
	return a
}

// imagesOf finds images in a zone; their IDs differ between zones.
type imagesOf struct {
	a     *api
	zone  string
	found map[string][]localImage // by label
}

// fitting returns the first image that fits a type of machine, or "".
func (i imagesOf) fitting(ctx context.Context, kind string) (string, error) {
	labels := DefaultImages()
	switch given := i.a.cfg.Image; {
	case uuidForm.MatchString(given):
		return given, nil
	case given != "":
		labels = []string{given}
	}
	for _, label := range labels {
		local, asked := i.found[label]
		if !asked {
			var err error
			if local, err = i.a.client.images(ctx, i.zone, label); err != nil && !isGone(err) {
				return "", err
			}
			i.found[label] = local
		}
		for _, image := range local {
			if slices.Contains(image.Types, kind) && uuidForm.MatchString(image.ID) && (image.Zone == i.zone || image.Zone == "") {
				return image.ID, nil
			}
		}
	}
	return "", nil
}
