package accelerators

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Validate reports everything that is wrong with a, in one error.
func (a Accelerator) Validate() error {
	if a.IsZero() {
		return nil
	}
	f := &faults{}
	if a.Exact {
		f.addIf(a.Name == "", "an exact accelerator has no name")
		f.addIf(a.Vendor != "" || a.Capability != 0 || a.MaxCapability != 0, "vendor and compute capability of a provider's own name are not known")
	} else if a.Name != "" {
		m, ok := Lookup(a.Name)
		if !ok {
			return unknown(a.Name)
		}
		a.validateModel(m, f)
	}
	if a.Vendor != "" && vendorOf(a.Vendor) == "" {
		f.add("no vendor is called %q; there are %s", a.Vendor, strings.Join(vendors, ", "))
	}
	if a.Name == "" && a.FormFactor != "" {
		f.addIf(canonicalForm(a.FormFactor) == "", "no form factor is called %q", a.FormFactor)
	}
	a.validateCount(f)
	f.bounds("memory", a.MemoryGiB, a.MaxMemoryGiB)
	f.bounds("total memory", a.TotalMemoryGiB, a.MaxTotalMemoryGiB)
	f.bounds("compute capability", a.Capability, a.MaxCapability)
	return errors.Join(*f...)
}

// validateModel compares the conditions with what the catalogue knows of the device.
func (a Accelerator) validateModel(m Model, f *faults) {
	form := canonicalForm(a.FormFactor)
	if a.FormFactor != "" && (form == "" || !m.comesAs(form)) {
		f.add("%s does not come as %s", m.Name, a.FormFactor)
	} else if most := m.most(form) * a.portion(); a.MemoryGiB*(1-tolerance) > most {
		f.add("%s has at most %s GiB of memory, not %s", Accelerator{Name: m.Name, Count: a.portion()}, decimal(most), decimal(a.MemoryGiB))
	}
	if a.Vendor != "" && !strings.EqualFold(a.Vendor, m.Vendor) {
		f.add("%s is made by %s, not %s", m.Name, m.Vendor, a.Vendor)
	}
	if !a.capable(m) && finite(a.Capability) && finite(a.MaxCapability) {
		f.add("the compute capability of %s is %s, not %s", m.Name, orNone(m.ComputeCapability), versions(a.Capability, a.MaxCapability))
	}
}

func (a Accelerator) validateCount(f *faults) {
	switch {
	case !finite(a.Count) || a.Count < 0:
		f.add("count %v is not a number of devices", a.Count)
	case a.Count > 1 && a.Count != math.Trunc(a.Count):
		f.add("count %v is neither whole nor a share of one device", a.Count)
	}
	switch {
	case a.MaxCount == 0 || a.MaxCount == Unlimited:
	case !finite(a.MaxCount) || a.MaxCount < 0 || a.MaxCount != math.Trunc(a.MaxCount):
		f.add("the largest count, %v, is not a number of devices", a.MaxCount)
	case a.MaxCount < a.count():
		f.add("the largest count, %v, is less than the smallest, %v", a.MaxCount, a.count())
	}
}

// vendors are the makers of the catalogue's devices.
var vendors = func() (all []string) {
	for _, m := range catalogue {
		if !slices.Contains(all, m.Vendor) {
			all = append(all, m.Vendor)
		}
	}
	return all
}()

// vendorOf returns the vendor that a word names, or "".
func vendorOf(word string) string {
	for _, v := range vendors {
		if strings.EqualFold(v, word) {
			return v
		}
	}
	return ""
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// faults collects everything that is wrong with an Accelerator.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

func (f *faults) addIf(wrong bool, format string, args ...any) {
	if wrong {
		f.add(format, args...)
	}
}

// bounds checks a minimum and a maximum, of which 0 is none.
func (f *faults) bounds(what string, least, most float64) {
	for _, v := range []float64{least, most} {
		f.addIf(!finite(v) || v < 0, "%s %v is not an amount", what, v)
	}
	f.addIf(most > 0 && least > most, "the largest %s, %v, is less than the smallest, %v", what, most, least)
}
