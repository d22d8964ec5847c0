package slurm

import (
	"fmt"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// timeLimit returns the time limit of a job in a partition, and what a user should know of it. ttl is the pool's, or zero.
// The error is a limit that the partition does not allow: Slurm would take the job, and never start it.
func (c Config) timeLimit(p partition, ttl time.Duration) (limit time.Duration, warning string, err error) {
	most := p.maxTime
	if most <= 0 {
		most = unlimited
	}
	switch {
	case c.TimeLimit > 0 && minutes(c.TimeLimit) > minutes(most):
		return 0, "", fmt.Errorf("TimeLimit is %v; a job in partition %s ends after %v", c.TimeLimit, p.name, most)
	case c.TimeLimit > 0 && ttl > 0:
		limit = min(c.TimeLimit, ttl)
	case c.TimeLimit > 0:
		limit = c.TimeLimit
	case ttl > 0:
		limit = ttl
	case most < unlimited:
		limit = most
	case p.defaultTime > 0 && p.defaultTime < unlimited:
		limit = p.defaultTime
	default:
		limit = defaultTimeLimit
	}
	if limit > most {
		limit, warning = most, fmt.Sprintf("a job in partition %s ends after %v, which is before the pool's TTL: its node is then replaced, if work is left", p.name, most)
	} else if limit < ttl || ttl <= 0 {
		warning = fmt.Sprintf("the job ends after %v (its time limit): its node is then replaced, if work is left", limit)
	}
	return limit, warning, nil
}

// limitFor returns the time limit of the jobs of a launch. A pool that ends sooner than its TTL, as it has lived for a while,
// needs less.
func (d *slurmDriver) limitFor(req driver.Launch) (time.Duration, error) {
	ttl := req.Query.TTL
	if !req.Pool.Expires.IsZero() {
		ttl = max(time.Until(req.Pool.Expires), time.Minute)
	}
	d.mu.Lock()
	p := d.partitions[req.Offer.Region]
	d.mu.Unlock()
	limit, _, err := d.cfg.timeLimit(p, ttl)
	if err != nil {
		return 0, invalid("launch", "set TimeLimit to less", "%w", err)
	}
	return limit, nil
}
