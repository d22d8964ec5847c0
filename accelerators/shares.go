package accelerators

import (
	"math"
	"regexp"
	"strconv"
)

// A share of a device has a name of its own, in drivers and in some clouds:
// "NVIDIA H100 80GB HBM3 MIG 1g.10gb" is a partition of the hardware, and
// "NVIDIA A16-2Q" a virtual GPU of 2 GB. "NVIDIA H100XM-1-10C" is both.
var (
	partition  = regexp.MustCompile(`(?i)^(.*?\S)(?:[\s_-]+MIG)?[\s_-]+(?:\d+c\.)?\d+g\.(\d+)gb(?:\+\S+)?$`)
	virtualGPU = regexp.MustCompile(`(?i)^(.+?)(-\d+)?-(\d+)[ABCQ]$`)
)

// slice is the smallest part of a device's memory that a partition has.
const slice = 1.0 / 8

// virtual has the devices that come in several forms, by their names as virtual
// GPUs: D is for double memory, X and XM for SXM, L for NVL. Source: NVIDIA's
// "vGPU Types Reference".
var virtual = map[string]Accelerator{
	"V100":   {Name: "V100", FormFactor: PCIe, MemoryGiB: 16},
	"V100D":  {Name: "V100", FormFactor: PCIe, MemoryGiB: 32},
	"V100X":  {Name: "V100", FormFactor: SXM, MemoryGiB: 16},
	"V100DX": {Name: "V100", FormFactor: SXM, MemoryGiB: 32},
	"A100":   {Name: "A100", FormFactor: PCIe, MemoryGiB: 40},
	"A100D":  {Name: "A100", FormFactor: PCIe, MemoryGiB: 80},
	"A100X":  {Name: "A100", FormFactor: SXM, MemoryGiB: 40},
	"A100DX": {Name: "A100", FormFactor: SXM, MemoryGiB: 80},
	"H100":   {Name: "H100", FormFactor: PCIe, MemoryGiB: 80},
	"H100L":  {Name: "H100", FormFactor: NVL, MemoryGiB: 94},
	"H100XM": {Name: "H100", FormFactor: SXM, MemoryGiB: 80},
	"H200":   {Name: "H200", FormFactor: NVL, MemoryGiB: 141},
	"H200X":  {Name: "H200", FormFactor: SXM, MemoryGiB: 141},
}

// parseShare parses the name of a share. ok is false for any other name.
func parseShare(s string) (a Accelerator, ok bool) {
	if m := partition.FindStringSubmatch(s); m != nil {
		device, err := parseDevice(m[1])
		if err != nil {
			return Accelerator{}, false
		}
		return device.share(m[2], slice)
	}
	m := virtualGPU.FindStringSubmatch(s)
	if m == nil {
		return Accelerator{}, false
	}
	key := withoutNoise(m[1])
	device, ok := virtual[key]
	if !ok {
		model, known := find(key)
		if !known {
			return Accelerator{}, false
		}
		device.Name = model.Name
	}
	step := 0.0
	if m[2] != "" { // on a partition
		step = slice
	}
	return device.share(m[3], step)
}

// share returns the share of a device that has this much memory. If step is not
// zero, the share is rounded to a multiple of it: a partition of a B200 has an
// eighth of the memory, and is called 23 of 180 GB.
func (a Accelerator) share(gib string, step float64) (Accelerator, bool) {
	part, err := strconv.ParseFloat(gib, 64)
	if err != nil || part == 0 {
		return Accelerator{}, false
	}
	of := a.MemoryGiB
	if m, ok := Lookup(a.Name); ok && of == 0 {
		of = m.most(a.FormFactor)
	}
	if part > of {
		return Accelerator{}, false
	}
	a.Count, a.MemoryGiB = part/of, part
	switch {
	case part >= of*(1-tolerance):
		a.Count = 1
	case step > 0:
		a.Count = max(step, math.Round(a.Count/step)*step)
	}
	return a, true
}
