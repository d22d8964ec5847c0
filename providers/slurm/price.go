package slurm

import (
	"strings"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// price returns the price of a job for an hour, by HourlyUSD. The price of CPUs counts only for a job without GPUs.
func (c Config) price(partition string, gpus, cpus int) driver.Price {
	if len(c.HourlyUSD) == 0 {
		return driver.USD(0)
	}
	key, n := partition, gpus
	if gpus == 0 {
		key, n = cpuType, max(cpus, 1)
	}
	usd, known := c.HourlyUSD[key]
	if !known {
		return driver.Price{}
	}
	return driver.USD(usd * float64(n))
}

// untypedKey begins the keys of GPUNames for partitions whose GPUs have no type.
const untypedKey = "partition:"

// accelerator returns the accelerator that a type of GPU is, by GPUNames, by its name, or by a feature of its nodes. ok is
// false if none of them says what it is.
func (c Config) accelerator(partition, kind string, features []string) (a accelerators.Accelerator, ok bool) {
	key := kind
	if kind == "" {
		key = untypedKey + partition
	}
	if name := c.GPUNames[key]; name != "" {
		a, err := accelerators.Parse(name)
		return a, err == nil
	}
	if kind != "" {
		if a, err := accelerators.ParseFrom(providerName, kind); err == nil && !a.IsZero() {
			return a, true
		}
		return accelerators.Exact(kind), true
	}
	for _, f := range features {
		if a, err := accelerators.ParseFrom(providerName, f); err == nil && !a.IsZero() && a.Name != "" && !strings.HasPrefix(f, `"`) {
			a.Count, a.MaxCount = 0, 0
			return a, true
		}
	}
	return accelerators.Accelerator{}, false
}

func gpusOf(j job) int {
	n := 0
	for _, g := range j.gpus {
		n += g.count
	}
	return n
}

// offerOf returns the offer of a job that this driver has not submitted.
func (d *controller) offerOf(j job) driver.Offer {
	kind, n := "", 0
	if len(j.gpus) > 0 {
		kind, n = j.gpus[0].kind, j.gpus[0].count
	}
	o := d.offer(j.partition, kind, n)
	o.VCPUs, o.MemoryGiB = float64(j.cpus), j.memoryMiB/1024
	o.HourlyUSD = d.cfg.price(j.partition, n, j.cpus)
	if a, ok := d.cfg.accelerator(j.partition, kind, nil); ok && n > 0 {
		o.Accelerator = withCount(a, n)
	}
	return o
}

func isShare(a accelerators.Accelerator) bool { return a.Count > 0 && a.Count < 1 }

func withCount(a accelerators.Accelerator, n int) accelerators.Accelerator {
	if !isShare(a) { // what is one part of a device, by MIG, stays that
		a.Count = float64(n)
	}
	a.MaxCount = 0
	return a
}
