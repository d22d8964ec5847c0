package slurm

import (
	"fmt"

	"github.com/gputrain/gputrain/providers/driver"
)

// availability says how many jobs of an offer can start now, why none ever can, and what waiting means.
func (d *controller) availability(o *driver.Offer, g group, p partition, n int, q driver.Query) {
	cpus, memoryMiB := max(int(o.VCPUs), 1), o.MemoryGiB*1024
	now, ever := 0, false
	for _, node := range g.nodes {
		now += node.room(g.kind, n, cpus, memoryMiB, d.cfg.Exclusive)
		ever = ever || node.fits(g.kind, n, cpus, memoryMiB)
	}
	limit, warning, err := d.cfg.timeLimit(p, q.TTL)
	mounts := d.cfg.checkMounts(q.Mounts)
	switch {
	case !p.up:
		o.Rejected = "partition " + p.name + " is not up"
	case !ever:
		o.Rejected = fmt.Sprintf("no node of partition %s has %s with %d CPUs and %.1f GiB of memory", p.name, o.InstanceType, cpus, memoryMiB/1024)
	case err != nil:
		o.Rejected = err.Error()
	case q.Image != "":
		o.Rejected = "a job has no Docker on its node for Image.Docker: set Config.Container"
	case mounts != nil:
		o.Rejected = mounts.Error()
	}
	// A job for which there is no room waits in the queue. So if there is room for some only, their number is not told:
	// the pool would look for the others elsewhere at once.
	if wanted := max(q.Nodes, 1); now >= wanted {
		o.Available = now
	} else {
		o.Warnings = append(o.Warnings, fmt.Sprintf("there is room for %d now; a job waits in the queue for up to %v (QueueTimeout), which costs nothing", now, d.cfg.QueueTimeout))
	}
	if warning != "" {
		o.Warnings = append(o.Warnings, warning)
	}
	if len(d.cfg.HourlyUSD) > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("the price is that of HourlyUSD; a job is billed from its start to its end, for %v at most", limit))
	}
	if leaks := d.facts.leaks(); leaks != "" {
		o.Warnings = append(o.Warnings, leaks)
	}
}

// room returns how many jobs can start on the node now.
func (n *siteNode) room(kind string, gpus, cpus int, memoryMiB float64, exclusive bool) int {
	if !n.takesJobs() {
		return 0
	}
	if exclusive {
		if n.taken || !n.fits(kind, gpus, cpus, memoryMiB) {
			return 0
		}
		return 1
	}
	jobs := n.freeCPUs / cpus
	if gpus > 0 {
		jobs = min(jobs, n.free(kind)/gpus)
	}
	if memoryMiB > 0 {
		jobs = min(jobs, int(n.freeMiB/memoryMiB))
	}
	return max(jobs, 0)
}

// fits reports whether a job can run on the node if nothing else does.
func (n *siteNode) fits(kind string, gpus, cpus int, memoryMiB float64) bool {
	has, _ := countOf(n.gpus, kind)
	return has >= gpus && n.cpus >= cpus && n.memoryMiB >= memoryMiB
}
