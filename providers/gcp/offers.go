package gcp

import (
	"cmp"
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
	images *images
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
		r, err := c.api.region(ctx, c.cfg.Region)
		all := zonesOf(r)
		if i := slices.Index(all, c.cfg.Zone); i > 0 {
			all = slices.Insert(slices.Delete(all, i, i+1), 0, c.cfg.Zone)
		}
		return all, err
	case len(spec.Regions) == 0 && len(spec.Countries) == 0:
		return []string{defaultZone}, nil
	}
	regions, err := c.api.listRegions(ctx)
	if err != nil {
		return nil, err
	}
	var zones []string
	for _, r := range regions {
		for _, zone := range zonesOf(r) {
			if spec.Allows(zone, countryOf(r.GetName())) {
				zones = append(zones, zone)
			}
		}
	}
	slices.Sort(zones)
	return zones, nil
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
		image, err := c.images.forNode(ctx, m.gpu != "", m.arch)
		switch {
		case isGone(err) && m.unfit == "":
			m.unfit = "has no image: " + err.Error() + "; set Config.Image"
		case err != nil && !isGone(err):
			return nil, err
		}
		markets := cloud.Markets(spec.Allocation)
		for i, spot := range markets {
			unsold := c.cfg.unsold(m.name, spot)
			if m.unfit != "" && i > 0 || m.unfit == "" && unsold != "" && len(markets) > 1 {
				continue // it is rejected once, and not if the other market sells it
			}
			o := driver.Offer{
				Provider: providerName, ID: offerID(zone, m.kind(), spot), InstanceType: m.kind(), Region: zone, Country: countryOf(regionOf(zone)),
				Accelerator: a, Arch: m.arch, VCPUs: float64(m.vcpus), MemoryGiB: m.memory, DiskGiB: float64(c.cfg.diskGB(spec)), Spot: spot,
				EgressUSD: prices.egress(regionOf(zone)), Rejected: cmp.Or(m.unfit, unsold),
			}
			c.cfg.setPrice(&o, prices, m, max(c.cfg.diskGB(spec), image.diskGB))
			if fabric := fabricOf(m.name); fabric != "" && spec.Nodes > 1 {
				o.Warnings = append(o.Warnings, "nodes reach each other by TCP alone: "+fabric+" is not set up, so that a training on several is slower than where it is")
			}
			found = append(found, o)
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
