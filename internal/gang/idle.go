package gang

import "time"

const (
	// A device below idlePercent, whose memory does not change, does nothing.
	idlePercent = 5
	// Devices that were not sampled for sampleAge are not judged.
	sampleAge = time.Minute

	defaultStart, defaultIdle = 15 * time.Minute, 30 * time.Minute
)

func (g *gang) startTimeout() time.Duration { return orDefault(g.StartTimeout, defaultStart) }
func (g *gang) idleTimeout() time.Duration  { return orDefault(g.IdleTimeout, defaultIdle) }

// orDefault returns a timeout, or its default for zero. Below zero there is none.
func orDefault(d, normal time.Duration) time.Duration {
	if d == 0 {
		return normal
	}
	return d
}

// A deviceOf names a device of a node of the gang.
type deviceOf struct {
	node int
	name string
}

// idleClocks measure how long each device has done nothing.
type idleClocks struct {
	timeout time.Duration
	devices map[deviceOf]*device
}

type device struct {
	memoryGiB   float64
	since, last time.Time // of its last work, and of its last sample
}

func (c *idleClocks) sample(of deviceOf, utilization, memoryGiB float64, now time.Time) {
	d := c.devices[of]
	if d == nil {
		if c.devices == nil {
			c.devices = map[deviceOf]*device{}
		}
		d = &device{memoryGiB: memoryGiB, since: now}
		c.devices[of] = d
	}
	d.last = now
	// A utilization that is not told, NaN, is not idle.
	if !(utilization < idlePercent) || memoryGiB != d.memoryGiB {
		d.since, d.memoryGiB = now, memoryGiB
	}
}

// reset begins anew: what happened meanwhile is not known.
func (c *idleClocks) reset(now time.Time) {
	for _, d := range c.devices {
		d.since = now
	}
}

// nodes returns how many nodes have a device that has done nothing for half of the timeout.
func (c *idleClocks) nodes(now time.Time) int {
	idle := map[int]bool{}
	for of, d := range c.devices {
		if now.Sub(d.last) < sampleAge && now.Sub(d.since) >= c.timeout/2 {
			idle[of.node] = true
		}
	}
	return len(idle)
}

// due returns a device that has done nothing for the timeout, and since when.
func (c *idleClocks) due(now time.Time) (of deviceOf, since time.Time, ok bool) {
	for name, d := range c.devices {
		if c.timeout > 0 && now.Sub(d.last) < sampleAge && now.Sub(d.since) >= c.timeout && (!ok || d.since.Before(since)) {
			of, since, ok = name, d.since, true
		}
	}
	return of, since, ok
}
