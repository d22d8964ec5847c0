package gcp

import (
	"context"
	"errors"
	"iter"
	"slices"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Offers yields what each zone has, zone by zone as it is asked for, the smallest machines
// first. That a machine is offered does not say that it is there: Google tells of what it
// is out of only when it is asked for a machine.
func (d *driver) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		zones, err := d.zones(ctx, spec)
		if err != nil {
			yield(gputrain.Offer{}, fail("offers", err))
			return
		}
		for _, zone := range zones {
			found, err := d.offersIn(ctx, zone, spec)
			if err != nil {
				yield(gputrain.Offer{}, fail("offers", err))
				return
			}
			for _, o := range found {
				if !yield(o, nil) {
					return
				}
			}
		}
	}
}

// zones returns where nodes may be, in the order in which they are tried.
func (d *driver) zones(ctx context.Context, spec gputrain.Spec) ([]string, error) {
	switch {
	case d.cfg.Zone != "" && d.cfg.Region == "":
		return []string{d.cfg.Zone}, nil
	case d.cfg.Region != "":
		all, err := d.api.zones(ctx, d.cfg.Region)
		if i := slices.Index(all, d.cfg.Zone); i > 0 {
			all = slices.Insert(slices.Delete(all, i, i+1), 0, d.cfg.Zone)
		}
		return all, err
	case len(spec.Regions) == 0:
		return []string{defaultZone}, nil
	}
	var zones []string
	for _, name := range spec.Regions {
		if zoneForm.MatchString(name) {
			zones = append(zones, name)
			continue
		}
		if !regionForm.MatchString(name) {
			continue // another provider's
		}
		all, err := d.api.zones(ctx, name)
		if err != nil && !isGone(err) {
			return nil, err
		}
		zones = append(zones, all...)
	}
	slices.Sort(zones)
	return slices.Compact(zones), nil
}

func (d *driver) offersIn(ctx context.Context, zone string, spec gputrain.Spec) ([]gputrain.Offer, error) {
	var types []*computepb.MachineType
	for t, err := range d.api.machineTypes(ctx, zone) {
		if isGone(err) {
			return nil, &gputrain.Error{Kind: gputrain.ErrInvalid, Err: err, Hint: "see that Zone is one of Google's"}
		}
		if err != nil {
			return nil, err
		}
		types = append(types, t)
	}
	var added []*computepb.AcceleratorType
	if !spec.Accelerator.IsZero() {
		var err error
		if added, err = d.api.acceleratorTypes(ctx, zone); err != nil {
			return nil, err
		}
	}
	machines := d.cfg.choose(types, added, spec)
	if len(machines) == 0 {
		return nil, nil
	}
	prices, err := d.prices(ctx)
	if err != nil {
		return nil, err
	}
	var found []gputrain.Offer
	for _, m := range machines {
		a, _ := m.accelerator(spec.Accelerator)
		for _, spot := range cloud.Markets(spec.Allocation) {
			if isSold(m.name, spot) {
				found = append(found, gputrain.Offer{
					Provider: providerName, ID: offerID(zone, m.kind(), spot), InstanceType: m.kind(), Region: zone,
					Accelerator: a, Arch: m.arch, VCPUs: float64(m.vcpus), MemoryGiB: m.memory, DiskGiB: float64(d.cfg.diskGB(spec)),
					HourlyUSD: prices.of(m, regionOf(zone), spot), Spot: spot,
				})
			}
		}
	}
	return found, nil
}

// prices returns what is known of them. That nothing is, is no error: the pool decides
// whether to rent what has no known price.
func (d *driver) prices(ctx context.Context) (prices, error) {
	if d.cfg.NoPrices {
		return nil, nil
	}
	p, err := d.catalogue.prices(ctx, d.api.billing)
	if err != nil && ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	return p, nil
}
