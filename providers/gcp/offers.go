package gcp

import (
	"context"
	"errors"
	"iter"
	"slices"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A catalogue looks up the machine types of zones, and their prices.
type catalogue struct {
	cfg    Config //secretvet:ignore complete, without credentials
	api    *client
	priced *priceList
}

// offers yields what each zone has, zone by zone. It asks a zone only when the caller gets
// there.
func (c *catalogue) offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		zones, err := c.zones(ctx, spec)
		if err != nil {
			yield(driver.Offer{}, err)
			return
		}
		for _, zone := range zones {
			found, err := c.offersIn(ctx, zone, spec)
			if err != nil {
				yield(driver.Offer{}, err)
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

// zones returns the zones that nodes may be in, in the order in which they are tried.
func (c *catalogue) zones(ctx context.Context, spec driver.Query) ([]string, error) {
	switch {
	case c.cfg.Zone != "" && c.cfg.Region == "":
		return []string{c.cfg.Zone}, nil
	case c.cfg.Region != "":
		all, err := c.api.zones(ctx, c.cfg.Region)
		if i := slices.Index(all, c.cfg.Zone); i > 0 {
			all = slices.Insert(slices.Delete(all, i, i+1), 0, c.cfg.Zone)
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
		all, err := c.api.zones(ctx, name)
		if err != nil && !isGone(err) {
			return nil, err
		}
		zones = append(zones, all...)
	}
	slices.Sort(zones)
	return slices.Compact(zones), nil
}

func (c *catalogue) offersIn(ctx context.Context, zone string, spec driver.Query) ([]driver.Offer, error) {
	types, err := c.api.machineTypes(ctx, zone)
	if isGone(err) {
		return nil, &driver.Error{Kind: driver.ErrInvalid, Err: err, Hint: "check that Zone is a zone of Google's"}
	}
	if err != nil {
		return nil, err
	}
	var added []*computepb.AcceleratorType
	if !spec.Accelerator.IsZero() {
		if added, err = c.api.acceleratorTypes(ctx, zone); err != nil {
			return nil, err
		}
	}
	machines := c.cfg.choose(types, added, spec)
	if len(machines) == 0 {
		return nil, nil
	}
	prices, err := c.prices(ctx)
	if err != nil {
		return nil, err
	}
	var found []driver.Offer
	for _, m := range machines {
		a, _ := m.accelerator(spec.Accelerator)
		for _, spot := range cloud.Markets(spec.Allocation) {
			if isSold(m.name, spot) {
				found = append(found, driver.Offer{
					Provider: providerName, ID: offerID(zone, m.kind(), spot), InstanceType: m.kind(), Region: zone,
					Accelerator: a, Arch: m.arch, VCPUs: float64(m.vcpus), MemoryGiB: m.memory, DiskGiB: float64(c.cfg.diskGB(spec)),
					HourlyUSD: prices.machine(m, regionOf(zone), spot), Spot: spot,
				})
			}
		}
	}
	return found, nil
}

// prices returns the known prices. It is no error if none is known: the pool decides whether to
// rent at an unknown price.
func (c *catalogue) prices(ctx context.Context) (prices, error) {
	if c.cfg.NoPrices {
		return nil, nil
	}
	p, err := c.priced.prices(ctx, c.api.billing)
	if err != nil && ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	return p, nil
}
