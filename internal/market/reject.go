package market

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// UnknownHostKey rejects an offer if Wants.RequireKnownHostKey is true.
const UnknownHostKey = "its host key is known by the first contact alone; the spec has RequireKnownHostKey"

// A rejection lists why an offer does not satisfy the wants. One without reasons satisfies them.
type rejection struct {
	reasons     []string
	accelerator int   // how far the offer's is from the wanted one; 0 is right
	kind        error // the kind of error if no other offer is left, or nil for ErrNoOffers
}

// String returns the reasons. It is empty only without one, whatever a driver's words are.
func (r rejection) String() string {
	told := slices.DeleteFunc(slices.Clone(r.reasons), func(why string) bool { return strings.TrimSpace(why) == "" })
	if len(told) == 0 && len(r.reasons) > 0 {
		return "it is refused without a reason"
	}
	return strings.Join(told, "; and ")
}

// compare orders rejections, the nearest first: by accelerator, then by the number of reasons.
func (r rejection) compare(other rejection) int {
	return cmp.Or(cmp.Compare(r.accelerator, other.accelerator), cmp.Compare(len(r.reasons), len(other.reasons)))
}

// rejections describes why no offer satisfies the wants, by the nearest ones, which come first.
func (m *Market) rejections(all []weighedOffer) string {
	const shown = 5
	if len(all) == 0 {
		if w := m.wants; w.placed() {
			return "the provider offers nothing now in " + strings.Join(slices.Concat(w.Regions, w.Countries), ", ")
		}
		return "the provider offers nothing now"
	}
	var why []string
	for _, r := range all[:min(shown, len(all))] {
		what := r.offer.InstanceType
		if r.offer.Account != "" { // its provider is not the market's
			what = r.offer.Provider + " " + what
		}
		why = append(why, fmt.Sprintf("%s in %s: %v", strings.TrimSpace(what), r.offer.Region, r.why))
	}
	if len(all) > shown {
		why = append(why, fmt.Sprintf("and %d more", len(all)-shown))
	}
	return strings.Join(why, "; ")
}

// reject returns all reasons for which an offer does not satisfy the wants.
func (m *Market) reject(o driver.Offer) (r rejection) {
	w, caps := m.wants, m.caps.Of(o)
	want := w.nearest(o.Accelerator)
	against := func(is bool, format string, args ...any) {
		if is {
			r.reasons = append(r.reasons, fmt.Sprintf(format, args...))
		}
	}
	if !caps.Adopts {
		r.accelerator = distance(want, o.Accelerator)
	}
	switch {
	case r.accelerator == 0:
	case o.Accelerator.IsZero():
		against(true, "has no accelerator; the spec asks for %s", w.wanted())
	default:
		against(true, "has accelerator %v; the spec asks for %s", o.Accelerator, w.wanted())
	}
	against(o.Rejected != "", "%s", o.Rejected)
	anywhere := driver.Query{Regions: w.Regions}
	against(!anywhere.Allows(o.Region, o.Country), "is in %s; the spec allows %s", cmp.Or(o.Region, "no region that is known"), strings.Join(w.Regions, ", "))
	anywhere = driver.Query{Countries: w.Countries}
	against(!anywhere.Allows(o.Region, o.Country), "is in %s; the spec allows the countries %s", cmp.Or(o.Country, "no country that is known"), strings.Join(w.Countries, ", "))
	against(w.Arch != "" && o.Arch != "" && o.Arch != w.Arch, "is %s; the spec asks for %s", o.Arch, w.Arch)
	against(short(o.VCPUs, w.VCPUs), "has %g vCPUs; the spec asks for %g", o.VCPUs, w.VCPUs)
	against(short(o.MemoryGiB, w.MemoryGiB), "has %.1f GiB of memory; the spec asks for %g", o.MemoryGiB, w.MemoryGiB)
	against(!caps.DiskResizable && short(o.DiskGiB, w.DiskGiB), "has %.1f GiB of disk; the spec asks for %g", o.DiskGiB, w.DiskGiB)
	against(beyond(o.VCPUs, w.MaxVCPUs), "has %g vCPUs; the spec allows %g", o.VCPUs, w.MaxVCPUs)
	against(beyond(o.MemoryGiB, w.MaxMemoryGiB), "has %.1f GiB of memory; the spec allows %g", o.MemoryGiB, w.MaxMemoryGiB)
	against(!caps.DiskResizable && beyond(o.DiskGiB, w.MaxDiskGiB), "has %.1f GiB of disk; the spec allows %g", o.DiskGiB, w.MaxDiskGiB)
	against(!w.allowsType(o.InstanceType), "is of instance type %s; the spec allows %s", cmp.Or(o.InstanceType, "unknown"), strings.Join(w.InstanceTypes, ", "))
	price := w.rejectPrice(o)
	against(price != "", "%s", price)
	against(o.Spot && w.Allocation == driver.OnDemand, "is spot; the spec asks for on demand")
	against(!o.Spot && w.Allocation == driver.Spot, "is on demand; the spec asks for spot")
	against(w.RequireKnownHostKey && caps.HostKeys == driver.HostKeyFirstContact, "%s", UnknownHostKey)
	if w.Joined() {
		against(o.Rejected == "" && !caps.PrivateNetwork && !caps.Adopts, "its nodes have no private network, which the spec's Network asks for")
		elsewhere := m.elsewhere(o)
		against(elsewhere != "", "%s", elsewhere)
	}
	against(len(w.Mounts) > 0 && !caps.Mounts, "this provider has no mounts")
	if why, kind := w.rejectImage(caps.Images); why != "" {
		against(true, "%s", why)
		r.kind = cmp.Or(r.kind, kind)
	}
	return r
}

// rejectImage returns why machines that are containers cannot run the wanted image, and the kind of the error, or "".
func (w Wants) rejectImage(images *driver.Images) (string, error) {
	switch {
	case images == nil || w.Image == "":
	case images.Configured != "" && images.Configured != w.Image:
		return fmt.Sprintf("the provider's Config names the image %s, and the spec's Image.Docker %s: leave one of them empty", images.Configured, w.Image), driver.ErrInvalid
	case w.ImageLogin && !images.Logins:
		return "this provider takes no login for the registry of Image.Docker" + cmp.Or(images.NoLogin, "; use a public image"), driver.ErrUnsupported
	}
	return "", nil
}

// distance returns how far the accelerator of a machine is from the wanted one: 0 is that, 1 is
// another number or kind of the same device, 2 another device, and 3 none.
func distance(want, has accelerators.Accelerator) int {
	switch {
	case want.IsZero() || want.Matches(has):
		return 0
	case has.IsZero():
		return 3
	case want.Name != "" && (accelerators.Accelerator{Name: want.Name, Exact: want.Exact}).OrMore().Matches(has), has.Name == want.Name:
		return 1
	}
	return 2
}

// wanted describes the wanted accelerators.
func (w Wants) wanted() string {
	if len(w.AnyOf) == 0 {
		return w.Accelerator.String()
	}
	all := make([]string, len(w.AnyOf))
	for i, a := range w.AnyOf {
		all[i] = a.String()
	}
	return strings.Join(all, " or ")
}

// allowsType reports whether machines may be of an instance type.
func (w Wants) allowsType(name string) bool {
	return w.InstanceTypes == nil || slices.ContainsFunc(w.InstanceTypes, func(t string) bool { return strings.EqualFold(t, name) })
}

// rejectPrice returns why the price of an offer is not allowed, or "" if it is.
func (w Wants) rejectPrice(o driver.Offer) string {
	price, known := o.HourlyUSD.USD()
	switch {
	case known && w.MaxHourlyUSD > 0 && price > w.MaxHourlyUSD:
		return fmt.Sprintf("costs %v an hour; MaxHourlyUSD is %v", driver.USD(price), driver.USD(w.MaxHourlyUSD))
	case known && price < w.MinHourlyUSD:
		return fmt.Sprintf("costs %v an hour; MinHourlyUSD is %v", driver.USD(price), driver.USD(w.MinHourlyUSD))
	case known || w.AllowUnknownPrice:
	case w.MaxHourlyUSD > 0:
		return "its price is not known, and the spec has a MaxHourlyUSD (AllowUnknownPrice takes it all the same)"
	case w.MinHourlyUSD > 0:
		return "its price is not known, and the spec has a MinHourlyUSD (AllowUnknownPrice takes it all the same)"
	case w.BudgetUSD > 0:
		return "its price is not known, and the spec has a BudgetUSD (AllowUnknownPrice takes it all the same)"
	}
	return ""
}

// short reports whether a known amount is less than the wanted one.
func short(has, want float64) bool { return has > 0 && has < want }

// beyond reports whether an amount is more than the largest allowed one, if there is one.
func beyond(has, most float64) bool { return most > 0 && has > most }
