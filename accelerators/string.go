package accelerators

import (
	"math"
	"strconv"
	"strings"
)

// String returns what [Parse] takes: "A100-80GB-SXM:4", "cpu" for none, and
// "any-48GB-cc8.9" for any device with conditions. An exact name is quoted. "2-4"
// is a range of counts, "2+" a count without a limit, "40..80GB" a range of memory,
// "160GBtotal" the memory of all devices, and "cc8.0..8.9" a range of compute
// capabilities.
func (a Accelerator) String() string {
	if a.IsZero() {
		return "cpu"
	}
	var b strings.Builder
	switch {
	case a.Exact:
		b.WriteString(strconv.Quote(a.Name))
	case a.Name == "":
		b.WriteString(anyName)
	default:
		b.WriteString(a.Name)
	}
	word := func(is bool, text string) {
		if is {
			b.WriteString("-" + text)
		}
	}
	word(a.Vendor != "" && a.Name == "", a.Vendor)
	word(a.MemoryGiB != 0 || a.MaxMemoryGiB != 0, span(a.MemoryGiB, a.MaxMemoryGiB)+"GB")
	word(a.TotalMemoryGiB != 0 || a.MaxTotalMemoryGiB != 0, span(a.TotalMemoryGiB, a.MaxTotalMemoryGiB)+"GBtotal")
	word(a.Capability != 0 || a.MaxCapability != 0, "cc"+versions(a.Capability, a.MaxCapability))
	word(a.FormFactor != "", a.FormFactor)
	n := a.count()
	switch {
	case a.MaxCount == Unlimited:
		b.WriteString(":" + decimal(n) + "+")
	case a.MaxCount != 0:
		b.WriteString(":" + decimal(n) + "-" + decimal(a.MaxCount))
	case n != 1:
		b.WriteString(":" + decimal(n))
	}
	return b.String()
}

// anyName stands for the name of any device.
const anyName = "any"

// span returns a minimum, or a minimum and a maximum: "40", "40..80", "..80".
func span(least, most float64) string { return between(decimal, least, most) }

// versions is span for compute capabilities: "8.0..8.9".
func versions(least, most float64) string {
	return between(func(f float64) string {
		if f == math.Trunc(f) {
			return decimal(f) + ".0"
		}
		return decimal(f)
	}, least, most)
}

func between(print func(float64) string, least, most float64) string {
	switch {
	case most == 0:
		return print(least)
	case least == 0:
		return ".." + print(most)
	}
	return print(least) + ".." + print(most)
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
