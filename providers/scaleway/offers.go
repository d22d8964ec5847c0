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
	leftOut       = "its price is without its volume of %d GB and its public address, which are billed by time too: the API tells no prices of them"
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
		return place{}, notAnOffer(id)
	}
	return place{parts[0], parts[1], parts[2]}, nil
}

func notAnOffer(id string) error {
	return &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("%q is not an offer of this provider", id),
		Hint: "launch an offer as Offers yielded it: its ID is a zone, a type and an image"}
}

// Offers yields the offers zone by zone. There is no spot.
func (a *api) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		if spec.Allocation == driver.Spot {
			return
		}
		for _, zone := range a.zones {
			if !spec.Allows(zone, countryOf(zone)) {
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

// offersIn yields a zone's offers, those that cannot be launched with the reason. It asks for
// stock and images only if a type matches the spec.
func (a *api) offersIn(ctx context.Context, zone string, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		images := imagesOf{a: a, zone: zone, found: map[string][]localImage{}}
		var stock map[string]string
		look := func(p keyed[product]) (o driver.Offer, err error) {
			if stock == nil {
				if stock, err = a.client.stock(ctx, zone); err != nil {
					return o, err
				}
			}
			at, rejected := place{zone: zone, kind: p.key}, ""
			switch {
			case p.value.EndOfService:
				rejected = "is of a type at its end of service"
			case stock[p.key] == shortage:
				rejected = "is sold out"
			case a.public: // the lists of images need a key
			default:
				at.image, rejected, err = images.fitting(ctx, p.key)
			}
			o = a.offer(at, p.value, spec)
			o.Rejected = rejected
			return o, err
		}
		for p, err := range a.client.products(ctx, zone) {
			if err == nil && !spec.Accelerator.IsZero() && p.value.gpus() == 0 {
				continue
			}
			var o driver.Offer
			if err == nil {
				o, err = look(p)
			}
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			if o.Rejected != "" && !spec.Accelerator.IsZero() && !spec.Accelerator.Matches(o.Accelerator) {
				continue // the pool would reject it in any case
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (a *api) offer(p place, t product, spec driver.Query) driver.Offer {
	o := driver.Offer{
		ID: p.String(), InstanceType: p.kind, Region: p.zone, Country: countryOf(p.zone),
		Accelerator: accelerator(p.kind, t, spec.Accelerator),
		Arch:        archs[t.Arch], VCPUs: t.NCPUs, MemoryGiB: t.RAM / gib, DiskGiB: float64(diskBytes(spec)) / gib,
		BillingUnit: time.Minute, // from power-on (fact sheet of Scaleway, section 6)
	}
	if p.kind == "RENDER-S" {
		o.BillingUnit = time.Hour
	}
	if t.HourlyPrice > 0 {
		o.HourlyUSD = driver.USD(t.HourlyPrice * a.rate.USD)
		o.Warnings = []string{a.rate.Warning(), fmt.Sprintf(leftOut, diskBytes(spec)/1e9)}
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

// fitting returns the first image that fits a type of machine, or the reason why there is none.
func (i imagesOf) fitting(ctx context.Context, kind string) (id, rejected string, err error) {
	labels := DefaultImages()
	switch given := i.a.cfg.Image; {
	case uuidForm.MatchString(given):
		in, err := i.a.hasImage(ctx, i.zone, given)
		if err != nil || in {
			return given, "", err
		}
		return "", "is in another zone than Config.Image", nil
	case given != "":
		labels = []string{given}
	}
	for _, label := range labels {
		local, asked := i.found[label]
		if !asked {
			if local, err = i.a.client.images(ctx, i.zone, label); err != nil && !isGone(err) {
				return "", "", err
			}
			i.found[label] = local
		}
		for _, image := range local {
			if slices.Contains(image.Types, kind) && uuidForm.MatchString(image.ID) && (image.Zone == i.zone || image.Zone == "") {
				return image.ID, "", nil
			}
		}
	}
	return "", "is of a type for which its zone has no image " + strings.Join(labels, ", "), nil
}

// hasImage reports whether a zone has the image that Config.Image names by its ID. An ID is of
// one zone, which is remembered. Config.Zone needs no look.
func (a *api) hasImage(ctx context.Context, zone, id string) (bool, error) {
	if a.cfg.Zone != "" {
		return true, nil
	}
	a.imageMu.Lock()
	defer a.imageMu.Unlock()
	if a.imageZone != "" {
		return a.imageZone == zone, nil
	}
	has, err := a.client.hasImage(ctx, zone, id)
	if has {
		a.imageZone = zone
	}
	return has, err
}
