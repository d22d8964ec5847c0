package gputrain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/accelerators"
)

// A rejection is why an offer does not satisfy a spec. One without reasons does.
type rejection struct {
	reasons     []string
	accelerator int // how far the offer's is from the one that is asked for; 0 is right
}

func (r rejection) String() string { return strings.Join(r.reasons, "; and ") }

// compare orders rejections, the nearest first: with the right accelerator, then with few
// reasons.
func (r rejection) compare(other rejection) int {
	return cmp.Or(cmp.Compare(r.accelerator, other.accelerator), cmp.Compare(len(r.reasons), len(other.reasons)))
}

// A rejectedOffer is an offer with why it does not satisfy the spec.
type rejectedOffer struct {
	offer Offer
	why   rejection
}

// rejections says why no offer satisfies the spec: of the nearest ones.
func (p *pool) rejections(all []rejectedOffer) string {
	const shown = 5
	if len(all) == 0 {
		return "the provider offers nothing now"
	}
	slices.SortStableFunc(all, func(a, b rejectedOffer) int {
		return cmp.Or(a.why.compare(b.why), p.compare(p.spec, a.offer, b.offer))
	})
	var why []string
	for _, r := range all[:min(shown, len(all))] {
		what := strings.TrimSpace(p.memberOf(r.offer).inGroup() + " " + r.offer.InstanceType)
		why = append(why, fmt.Sprintf("%s in %s: %v", what, r.offer.Region, r.why))
	}
	if len(all) > shown {
		why = append(why, fmt.Sprintf("and %d more", len(all)-shown))
	}
	return joinSemicolons(why)
}

// cheaper orders prices, with unknown ones last.
func cheaper(a, b Price) bool {
	x, known := a.USD()
	y, than := b.USD()
	return known && (!than || x < y)
}

// reject says why an offer does not satisfy the spec: all that is against it.
func reject(o Offer, s Spec, caps Capabilities) (r rejection) {
	against := func(is bool, format string, args ...any) {
		if is {
			r.reasons = append(r.reasons, fmt.Sprintf(format, args...))
		}
	}
	if !caps.Adopts {
		r.accelerator = farFrom(s.Accelerator, o.Accelerator)
	}
	switch {
	case r.accelerator == 0:
	case o.Accelerator.IsZero():
		against(true, "has no accelerator; the spec asks for %v", s.Accelerator)
	default:
		against(true, "has accelerator %v; the spec asks for %v", o.Accelerator, s.Accelerator)
	}
	against(!s.allows(o.Region), "is in %s; the spec allows %s", cmp.Or(o.Region, "no region that is known"), strings.Join(s.Regions, ", "))
	against(s.Arch != "" && o.Arch != "" && o.Arch != s.Arch, "is %s; the spec asks for %s", o.Arch, s.Arch)
	against(short(o.VCPUs, s.VCPUs), "has %g vCPUs; the spec asks for %g", o.VCPUs, s.VCPUs)
	against(short(o.MemoryGiB, s.MemoryGiB), "has %.1f GiB of memory; the spec asks for %g", o.MemoryGiB, s.MemoryGiB)
	against(!caps.DiskResizable && short(o.DiskGiB, s.DiskGiB), "has %.1f GiB of disk; the spec asks for %g", o.DiskGiB, s.DiskGiB)
	dear := rejectPrice(o, s)
	against(dear != "", "%s", dear)
	against(o.Spot && s.Allocation == OnDemand, "is spot; the spec asks for on demand")
	against(!o.Spot && s.Allocation == Spot, "is on demand; the spec asks for spot")
	against(s.RequireKnownHostKey && caps.HostKeys == HostKeyFirstContact, "%s", unknownHostKey)
	against(len(s.Mounts) > 0 && !caps.Mounts, "this provider has no mounts")
	return r
}

// farFrom says how far what a machine has is from what is asked for: 0 is that, 1 is another
// number or kind of the same device, 2 another device, and 3 none.
func farFrom(want, has accelerators.Accelerator) int {
	switch {
	case want.IsZero() || want.Matches(has):
		return 0
	case has.IsZero():
		return 3
	case accelerators.Accelerator{Name: want.Name, Exact: want.Exact}.Matches(has), has.Name == want.Name:
		return 1
	}
	return 2
}

// allows reports whether nodes may be in a region, or in a zone of one.
func (s Spec) allows(region string) bool {
	region = strings.ToLower(region)
	return s.Regions == nil || slices.ContainsFunc(s.Regions, func(r string) bool {
		rest, inside := strings.CutPrefix(region, strings.ToLower(r))
		return inside && (rest == "" || rest[0] == '-')
	})
}

// rejectPrice says why a price is not one that the spec allows, or "".
func rejectPrice(o Offer, s Spec) string {
	price, known := o.HourlyUSD.USD()
	switch {
	case known && s.MaxHourlyUSD > 0 && price > s.MaxHourlyUSD:
		return fmt.Sprintf("costs $%.2f an hour; MaxHourlyUSD is $%.2f", price, s.MaxHourlyUSD)
	case known || s.AllowUnknownPrice:
	case s.MaxHourlyUSD > 0:
		return "its price is not known, and the spec has a MaxHourlyUSD (AllowUnknownPrice takes it all the same)"
	case s.BudgetUSD > 0:
		return "its price is not known, and the spec has a BudgetUSD (AllowUnknownPrice takes it all the same)"
	}
	return ""
}

// short reports whether a known amount is less than what is asked for.
func short(has, want float64) bool { return has > 0 && has < want }
