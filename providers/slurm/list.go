package slurm

import (
	"context"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// List lists the jobs of a pool that wait or run, by a new answer of squeue.
func (d *slurmDriver) List(ctx context.Context, poolID string) ([]driver.Resource, error) {
	q, err := d.askQueue(ctx)
	if err != nil {
		return nil, fail("list", err)
	}
	var all []driver.Resource
	for _, j := range q.jobs {
		s := stateOf(j.state)
		if poolID != "" && j.comment.Pool != poolID || s.final {
			continue
		}
		r := j.comment.Resource(providerName, "machine", j.id)
		r.Region, r.State, r.HourlyUSD = j.partition, s.state, d.cfg.price(j.partition, gpusOf(j), j.cpus)
		if s.comesUp && j.comment.addr == "" {
			r.State = driver.InstancePending
		}
		if !j.submitted.IsZero() {
			r.Created = q.local(j.submitted)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b driver.Resource) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Terminate cancels jobs, and does nothing about those that are gone. An ID that is not a pool's job any more is left
// alone: the controller may have given it again.
func (d *slurmDriver) Terminate(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return ctx.Err()
	}
	d.polls.forget()
	q, err := d.queueOf(ctx, ids...)
	if err != nil {
		return fail("terminate", err)
	}
	var alive []string
	for _, id := range ids {
		if j, ok := d.find(q, id); ok && !stateOf(j.state).final {
			alive = append(alive, id)
		}
	}
	if err := d.cancel(ctx, alive...); err != nil {
		return fail("terminate", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		d.remember(id).asked = true
	}
	return nil
}

// cancel cancels jobs that the caller has looked up.
func (d *slurmDriver) cancel(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	defer d.polls.forget()
	_, err := d.read(ctx, command{words: d.slurm("scancel", append([]string{"--quiet"}, ids...)...)})
	if err != nil && isForgotten(err) {
		return nil // one of them: scancel cancels the others
	}
	return err
}
