package providertest

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

func offerChecks() []check {
	return []check{
		{"offers are priced in USD per hour", nil, offersPriced},
		{"offers name their country", nil, offersCountry},
		{"offers of no known price", []string{"Unpriced"}, offersUnpriced},
		{"offers are unique", nil, offersUnique},
		{"offers keep what satisfies the spec", nil, offersFiltered},
		{"offers keep what satisfies a spec without names", nil, offersWithoutNames},
		{"offers are lazy", nil, offersLazy},
		{"offers are paged no further than needed", []string{"Calls", "PagedOffers"}, offersPaged},
	}
}

func (c *trial) offers(d driver.Driver, spec driver.Query) []driver.Offer {
	c.Helper()
	var all []driver.Offer
	for o, err := range d.Offers(c.Context(), spec) {
		if err != nil {
			c.Fatalf("Driver.Offers: %v", err)
		}
		if o.Rejected == "" {
			all = append(all, o)
		}
	}
	return all
}

func offersPriced(c *trial) {
	d := c.open()
	caps := d.Capabilities()
	all := c.offers(d, c.h.Spec.Query())
	if len(all) == 0 {
		c.Error("Driver.Offers has nothing for Harness.Spec")
	}
	for _, o := range all {
		usd, known := o.HourlyUSD.USD()
		if known && (usd < 0 || math.IsNaN(usd) || math.IsInf(usd, 0) || usd == 0 && !caps.Free) {
			c.Errorf("%s costs %v: a price is US dollars per hour for one machine, and an unknown price is the zero Price, never 0", o.InstanceType, o.HourlyUSD)
		}
		if !c.names(o.Provider) || o.InstanceType == "" {
			c.Errorf("offer %+v: Provider must be %q, and InstanceType the provider's name for the machine", o, c.name)
		}
		if o.Spot && !caps.Spot {
			c.Errorf("%s is a spot offer, and Capabilities.Spot is false", o.InstanceType)
		}
		if o.Parts != nil {
			sum, names := 0.0, map[string]bool{}
			for _, part := range o.Parts {
				if part.Name == "" || names[part.Name] || part.HourlyUSD < 0 {
					c.Errorf("%s has the price part %+v: each has a name of its own, and costs something or nothing", o.InstanceType, part)
				}
				names[part.Name] = true
				sum += part.HourlyUSD
			}
			if !known || math.Abs(sum-usd) > 1e-6*max(usd, 1) {
				c.Errorf("%s costs %v, and the sum of its parts is $%v", o.InstanceType, o.HourlyUSD, sum)
			}
		}
		if o.VCPUs < 0 || o.MemoryGiB < 0 || o.DiskGiB < 0 || o.Available < 0 {
			c.Errorf("offer %+v: an unknown amount is zero", o)
		}
	}
}

var countryForm = regexp.MustCompile(`^[A-Z]{2}$`)

func offersCountry(c *trial) {
	d, asked := c.open(), false
	for _, o := range c.offers(d, c.h.Spec.Query()) {
		if !countryForm.MatchString(o.Country) {
			c.Errorf("%s in %q is in country %q: Offer.Country is the ISO 3166-1 code of two capital letters", o.InstanceType, o.Region, o.Country)
			continue
		}
		if asked {
			continue
		}
		asked = true
		spec := c.h.Spec.Query()
		spec.Countries = []string{strings.ToLower(o.Country)}
		byRegion := c.h.Spec.Query()
		byRegion.Regions = []string{o.Country}
		for name, q := range map[string]driver.Query{"Countries": spec, "Regions": byRegion} {
			found := false
			for _, again := range c.offers(d, q) {
				found = found || again.InstanceType == o.InstanceType && again.Region == o.Region && again.Spot == o.Spot
			}
			if !found {
				c.Errorf("Driver.Offers leaves out %s in %s for a query whose %s has %q: compare places by Query.Allows", o.InstanceType, o.Region, name, o.Country)
			}
		}
	}
}

func offersUnpriced(c *trial) {
	d := c.open()
	c.h.Unpriced()
	all := c.offers(d, c.h.Spec.Query())
	if len(all) == 0 {
		c.Error("Driver.Offers leaves out offers without a known price: the pool decides whether to take them")
	}
	for _, o := range all {
		if usd, known := o.HourlyUSD.USD(); known {
			c.Errorf("%s costs $%v, and the API reports no price: an unknown price is the zero Price, never 0", o.InstanceType, usd)
		}
	}
}

func offersUnique(c *trial) {
	type key struct {
		id, kind, region, accelerator string
		spot                          bool
	}
	seen := map[key]bool{}
	for _, o := range c.offers(c.open(), c.h.Spec.Query()) {
		k := key{o.ID, o.InstanceType, o.Region, o.Accelerator.String(), o.Spot}
		if seen[k] {
			c.Errorf("Driver.Offers yields %s (%s) in %s twice", o.InstanceType, o.ID, o.Region)
		}
		seen[k] = true
	}
}

// The pool checks every offer again, so a driver need not filter. It may only filter out offers
// that the pool would reject.
func offersFiltered(c *trial) {
	d := c.open()
	all := c.offers(d, c.h.Spec.Query())
	for _, o := range all[:min(len(all), 5)] {
		spec := c.h.Spec.Query()
		spec.VCPUs, spec.MemoryGiB, spec.DiskGiB, spec.Accelerator = o.VCPUs, o.MemoryGiB, o.DiskGiB, o.Accelerator
		if o.Spot {
			spec.Allocation = driver.Spot
		}
		found := false
		for _, again := range c.offers(d, spec) {
			found = found || again.InstanceType == o.InstanceType && again.Region == o.Region && again.Spot == o.Spot
		}
		if !found {
			c.Errorf("Driver.Offers leaves out %s in %s for a spec that asks for exactly its amounts: it must yield all offers that could satisfy the spec", o.InstanceType, o.Region)
		}
	}
}

// A spec may ask for any device that has enough memory and the like, and for a range of numbers
// of it.
func offersWithoutNames(c *trial) {
	d := c.open()
	all := c.offers(d, c.h.Spec.Query())
	for _, o := range all[:min(len(all), 5)] {
		has := o.Accelerator
		model, known := accelerators.Lookup(has.Name)
		if has.Exact || !known {
			continue
		}
		spec := c.h.Spec.Query()
		spec.Accelerator = accelerators.Any(accelerators.CountBetween(min(has.Count, 1), max(has.Count, 1)), accelerators.Memory(has.MemoryGiB), accelerators.Vendor(model.Vendor))
		if least, err := strconv.ParseFloat(model.ComputeCapability, 64); err == nil {
			spec.Accelerator.Capability = least
		}
		if !spec.Accelerator.Matches(has) {
			c.Errorf("offer %+v: %v does not match it", o, spec.Accelerator)
		}
		found := false
		for _, again := range c.offers(d, spec) {
			found = found || again.InstanceType == o.InstanceType && again.Region == o.Region && again.Spot == o.Spot && again.Accelerator == has
		}
		if !found {
			c.Errorf("Driver.Offers leaves out %s in %s, with %v, for a spec that asks for %v", o.InstanceType, o.Region, has, spec.Accelerator)
		}
	}
}

func offersLazy(c *trial) {
	d := c.open()
	calls := c.h.Calls
	if calls == nil {
		calls = func(Op) int { return 0 }
	}
	before := calls(OpOffers)
	seq := d.Offers(c.Context(), c.h.Spec.Query())
	if n := calls(OpOffers); n != before {
		c.Errorf("Driver.Offers makes %d calls before a loop ranges over it", n-before)
	}
	for range 2 { // a Seq2 can be ranged over again
		for _, err := range seq {
			if err != nil {
				c.Errorf("Driver.Offers: %v", err)
			}
			break // Go panics if it continues
		}
	}
}

func offersPaged(c *trial) {
	d := c.open()
	before := c.h.Calls(OpOffers)
	c.offers(d, c.h.Spec.Query())
	whole := c.h.Calls(OpOffers) - before
	for range d.Offers(c.Context(), c.h.Spec.Query()) {
		break
	}
	if first := c.h.Calls(OpOffers) - before - whole; first >= whole {
		c.Errorf("the first offer took %d calls, and all of them %d: leaving the loop early stops paging", first, whole)
	}
}
