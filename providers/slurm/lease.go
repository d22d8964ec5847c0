package slurm

import (
	"context"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// MarkLease writes into the comments of jobs until when the lease of the pool's program runs.
func (d *slurmDriver) MarkLease(ctx context.Context, pool driver.PoolInfo, until time.Time, ids ...string) error {
	if len(ids) == 0 {
		return ctx.Err()
	}
	q, err := d.askQueue(ctx)
	if err != nil {
		return fail("mark lease", err)
	}
	var updates []command
	for _, id := range ids {
		j, ok := d.find(q, id)
		if !ok || j.comment.Pool != pool.ID || stateOf(j.state).final {
			continue
		}
		j.comment.Until = until
		updates = append(updates, d.scontrol("update", "JobId="+id, "Comment="+j.comment.whole()))
	}
	if len(updates) == 0 {
		return nil
	}
	answers, stderr, err := d.do(ctx, updates...)
	if err != nil {
		return fail("mark lease", err)
	}
	d.polls.forget()
	for _, a := range answers {
		if lower := strings.ToLower(stderr); a.code != 0 && !strings.Contains(lower, "already finished") && !strings.Contains(lower, "invalid job id") {
			return fail("mark lease", failure("scontrol", stderr, a.code))
		}
	}
	return nil
}

// whole writes the comment with what the job has added.
func (c comment) whole() string {
	text := c.String()
	add := func(key, value string) {
		if value != "" {
			text += " " + key + "=" + value
		}
	}
	add("addr", c.addr)
	add("key", strings.Replace(c.key, " ", ",", 1))
	add("dir", c.dir)
	add("failed", c.failed)
	return text
}
