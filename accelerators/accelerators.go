// Package accelerators names GPUs and other devices: what a node must have, and
// what an offer has.
//
//	accelerators.A100(accelerators.Count(4), accelerators.Memory(80))
//	accelerators.Parse("A100-80GB:4") // the same
//
// Clouds spell one device in many ways ("NVIDIA A100-SXM4-80GB", "a100_sxm",
// "nvidia-tesla-a100"). [Parse] knows the spellings, and [ParseFrom] those that
// mean something at one cloud only, so that a spec and an offer can be compared
// with [Accelerator.Matches]; and so can a spec and the devices that a machine
// reports, by [Reported]. [Exact] asks for a device that no table has.
package accelerators

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// An Accelerator is a kind of device and how many of it. The zero value asks
// for none.
type Accelerator struct {
	// Name is the canonical name: "A100". Empty means none.
	Name string
	// Count is the number of devices per node. A fraction is a share of one
	// device. Zero means 1.
	Count float64
	// MemoryGiB is the memory of one device, or of the share of one. Zero means
	// whatever the name implies, or any.
	MemoryGiB float64
	// FormFactor is [PCIe], [SXM], [NVL], [OAM], or "" for any.
	FormFactor string
	// Exact means that Name is a provider's own identifier, not one of this
	// package's names.
	Exact bool
}

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

// count returns Count, or 1 for a device without one.
func (a Accelerator) count() float64 {
	if a.Count == 0 && a.Name != "" {
		return 1
	}
	return a.Count
}

// portion returns the part of one device that each is: 1, or the share.
func (a Accelerator) portion() float64 {
	if a.Count > 0 && a.Count < 1 {
		return a.Count
	}
	return 1
}

// String returns what [Parse] takes: "A100-80GB-SXM:4", "cpu" for none. An
// exact name is quoted.
func (a Accelerator) String() string {
	if a.Name == "" {
		return "cpu"
	}
	var b strings.Builder
	if a.Exact {
		b.WriteString(strconv.Quote(a.Name))
	} else {
		b.WriteString(a.Name)
	}
	if a.MemoryGiB != 0 {
		b.WriteString("-" + decimal(a.MemoryGiB) + "GB")
	}
	if a.FormFactor != "" {
		b.WriteString("-" + a.FormFactor)
	}
	if n := a.count(); n != 1 {
		b.WriteString(":" + decimal(n))
	}
	return b.String()
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Validate reports everything that is wrong with a, in one error.
func (a Accelerator) Validate() error {
	if a.IsZero() {
		return nil
	}
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case a.Name == "":
		fault("the accelerator has no name")
	case !a.Exact:
		m, ok := Lookup(a.Name)
		if !ok {
			return unknown(a.Name)
		}
		if f := canonicalForm(a.FormFactor); a.FormFactor != "" && (f == "" || !m.comesAs(f)) {
			fault("%s does not come as %s", m.Name, a.FormFactor)
		} else if most := m.most(f) * a.portion(); a.MemoryGiB*(1-tolerance) > most {
			fault("%s has at most %s GiB of memory, not %s", Accelerator{Name: m.Name, Count: a.portion()}, decimal(most), decimal(a.MemoryGiB))
		}
	}
	switch {
	case !finite(a.Count) || a.Count < 0:
		fault("count %v is not a number of devices", a.Count)
	case a.Count > 1 && a.Count != math.Trunc(a.Count):
		fault("count %v is neither whole nor a share of one device", a.Count)
	}
	if !finite(a.MemoryGiB) || a.MemoryGiB < 0 {
		fault("memory %v is not an amount", a.MemoryGiB)
	}
	return errors.Join(errs...)
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// Matches reports whether an offer has what a asks for. Count and memory are
// minimums; memory may fall a little short, since devices report less than
// their name says. If the offer omits the memory or the form factor, the
// catalogue completes it: of several possible amounts the smallest counts. An
// exact name must be equal.
func (a Accelerator) Matches(offer Accelerator) bool {
	if a.IsZero() {
		return true
	}
	if a.Exact || offer.Exact {
		if a.Name != offer.Name {
			return false
		}
	} else if m, ok := Lookup(a.Name); !ok || !m.is(offer.Name) {
		return false
	}
	have := offer.implied()
	return have.count() >= a.count() &&
		have.MemoryGiB >= a.MemoryGiB*(1-tolerance) &&
		(a.FormFactor == "" || have.FormFactor == canonicalForm(a.FormFactor))
}

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
