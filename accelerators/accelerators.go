// Package accelerators names GPUs and other devices: what a node must have, and
// what an offer has.
//
//	accelerators.A100(accelerators.Count(4), accelerators.Memory(80))
//	accelerators.Parse("A100-80GB:4") // the same
//	accelerators.Any(accelerators.Memory(48), accelerators.AtLeast(2)) // whatever it is called
//
// Clouds spell one device in many ways ("NVIDIA A100-SXM4-80GB", "a100_sxm",
// "nvidia-tesla-a100"). [Parse] knows the spellings, and [ParseFrom] those that
// mean something at one cloud only, so that a spec and an offer can be compared
// with [Accelerator.Matches]; and so can a spec and the devices that a machine
// reports, by [Reported]. [Exact] asks for a device that no table has.
package accelerators

import (
	"math"
	"strconv"
	"strings"
)

// An Accelerator is a kind of device and how many of it. As an offer it says
// what a machine has; as a part of a spec, what a machine must have. The zero
// value asks for none. In JSON and CBOR the conditions are left out if they are
// not set.
type Accelerator struct {
	// Name is the canonical name: "A100". If it is empty, and anything else is
	// set, any device will do that has the rest: see [Any].
	Name string
	// Count is the number of devices per node: exactly so many, unless MaxCount
	// is set. A fraction is a share of one device: that share or a larger one,
	// up to a whole device. Zero means 1.
	Count float64
	// MaxCount is the largest number of devices per node, if Count is the
	// smallest. Zero means Count, and [Unlimited] any number.
	MaxCount float64 `json:",omitzero"`
	// MemoryGiB is the memory of one device, or of the share of one. Zero means
	// whatever the name implies, or any. In a spec it is a minimum.
	MemoryGiB float64
	// MaxMemoryGiB is the maximum of one device's memory. Zero means no limit.
	MaxMemoryGiB float64 `json:",omitzero"`
	// TotalMemoryGiB and MaxTotalMemoryGiB limit the memory of all of a node's
	// devices. Zero means no limit.
	TotalMemoryGiB, MaxTotalMemoryGiB float64 `json:",omitzero"`
	// FormFactor is [PCIe], [SXM], [NVL], [OAM], or "" for any.
	FormFactor string
	// Vendor is the maker, as in [Model]: "NVIDIA". Empty means any.
	Vendor string `json:",omitzero"`
	// Capability and MaxCapability limit CUDA's compute capability: 8.9. Zero
	// means no limit.
	Capability, MaxCapability float64 `json:",omitzero"`
	// Exact means that Name is a provider's own identifier, not one of this
	// package's names.
	Exact bool
}

// Unlimited, as MaxCount, means any number of devices from Count up.
const Unlimited = -1

// The form factors. They are different things: an H100 on PCIe has less memory
// bandwidth than one on SXM, and slower links to the others.
const (
	PCIe = "PCIe"
	SXM  = "SXM"
	NVL  = "NVL"
	OAM  = "OAM"
)

// A device may report less memory than its nominal amount, by this fraction. Of
// 288 GiB a B300 reports 268, of 24 an A10G on AWS reports 22.4, and of 16 a T4
// reports 14.8 under drivers before 510.
const tolerance = 0.08

// IsZero reports whether a asks for nothing.
func (a Accelerator) IsZero() bool { return a == Accelerator{} }

// OrMore returns a with no limit on the number of devices. A machine that was
// there before has what it has: it is compared with a spec in this way.
func (a Accelerator) OrMore() Accelerator {
	if !a.IsZero() {
		a.MaxCount = Unlimited
	}
	return a
}

// count returns Count, or 1 for a device without one.
func (a Accelerator) count() float64 {
	if a.Count == 0 && !a.IsZero() {
		return 1
	}
	return a.Count
}

// counts reports whether a node may have n devices.
func (a Accelerator) counts(n float64) bool {
	least, most := a.count(), a.MaxCount
	switch {
	case most == Unlimited:
		return n >= least
	case most == 0 && least < 1:
		most = 1 // a larger share will do
	case most == 0:
		most = least
	}
	return n >= least && n <= most
}

// Counts returns the numbers of whole devices per node that a allows, from the
// smallest to at most limit: for clouds that are asked for a number. A share of
// a device becomes a whole one, and so does none.
func (a Accelerator) Counts(limit int) []int {
	var all []int
	for n := int(math.Ceil(max(a.count(), 1))); n <= limit; n++ {
		all = append(all, n)
		if !a.counts(float64(n) + 1) {
			break
		}
	}
	return all
}

// portion returns the part of one device that each is: 1, or the share.
func (a Accelerator) portion() float64 {
	if a.Count > 0 && a.Count < 1 {
		return a.Count
	}
	return 1
}

// Matches reports whether an offer has what a asks for. The offer's memory may
// fall a little short, since devices report less than their name says. If the
// offer omits the memory or the form factor, the catalogue completes it. If
// several amounts are possible, the smallest is compared with a minimum, and the
// largest with a maximum. An exact name must be equal. A device that the
// catalogue lacks satisfies no condition on vendor or compute capability. An
// offer that equals a matches: its provider promises whatever a asks for.
func (a Accelerator) Matches(offer Accelerator) bool {
	if a.IsZero() || a == offer {
		return true
	}
	if offer.Name == "" || !a.named(offer) {
		return false
	}
	model, known := Lookup(offer.Name)
	if offer.Exact {
		model, known = Model{}, false
	}
	have := offer.implied()
	most := have.MemoryGiB
	if offer.MemoryGiB == 0 && known {
		most = model.most(have.FormFactor) * offer.portion()
	}
	n := have.count()
	devices := max(n, 1) // the memory is that of a share, if n is less than 1
	return a.counts(n) &&
		have.MemoryGiB >= a.MemoryGiB*(1-tolerance) && within(most, a.MaxMemoryGiB) &&
		have.MemoryGiB*devices >= a.TotalMemoryGiB*(1-tolerance) && within(most*devices, a.MaxTotalMemoryGiB) &&
		(a.FormFactor == "" || have.FormFactor == canonicalForm(a.FormFactor)) &&
		(a.Vendor == "" || strings.EqualFold(a.Vendor, model.Vendor)) &&
		a.capable(model)
}

// named reports whether the offer's device has the name that a asks for, if
// any.
func (a Accelerator) named(offer Accelerator) bool {
	switch {
	case a.Name == "":
		return true
	case a.Exact || offer.Exact:
		return a.Name == offer.Name
	}
	m, ok := Lookup(a.Name)
	return ok && m.is(offer.Name)
}

// capable reports whether a model has the compute capability that a asks for.
func (a Accelerator) capable(m Model) bool {
	if a.Capability == 0 && a.MaxCapability == 0 {
		return true
	}
	has, err := strconv.ParseFloat(m.ComputeCapability, 64)
	return err == nil && has >= a.Capability && within(has, a.MaxCapability)
}

// within reports whether a known amount is at most a limit, of which 0 is none.
func within(has, limit float64) bool { return limit == 0 || has > 0 && has <= limit }

// implied completes the memory and the form factor that the catalogue knows for
// certain.
func (a Accelerator) implied() Accelerator {
	a.FormFactor = canonicalForm(a.FormFactor)
	m, ok := Lookup(a.Name)
	if a.Exact || !ok {
		return a
	}
	if forms := m.forms(); a.FormFactor == "" && len(forms) == 1 {
		a.FormFactor = forms[0]
	}
	if a.MemoryGiB == 0 {
		a.MemoryGiB = m.least(a.FormFactor) * a.portion()
	}
	return a
}
