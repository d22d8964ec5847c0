package slurm

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// Describe reports jobs by an answer of squeue that all callers share. A job that the queue will not start, or whose node
// does not come up, is cancelled and reported as failed, with the reason.
func (d *slurmDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	if len(ids) == 0 {
		return nil, ctx.Err()
	}
	q, err := d.queueOf(ctx, ids...)
	if err != nil {
		return nil, fail("describe", err)
	}
	var missing []string
	for _, id := range ids {
		if _, ok := d.find(q, id); !ok {
			missing = append(missing, id)
		}
	}
	past, err := d.history(ctx, missing)
	if err != nil {
		return nil, fail("describe", err)
	}
	all := make([]driver.Instance, len(ids))
	for i, id := range ids {
		j, ok := d.find(q, id)
		if !ok {
			end, known := past[id]
			all[i] = d.ended(id, end, known && isOver(end.state))
			continue
		}
		if all[i], err = d.instance(ctx, j, q); err != nil {
			return nil, fail("describe", err)
		}
	}
	return all, nil
}

func isOver(state string) bool { return stateOf(state).final }

// find returns the job of an ID, unless the ID is another job's by now.
func (d *slurmDriver) find(q queue, id string) (job, bool) {
	j, ok := q.jobs[id]
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.known[id]; m != nil && !m.isOurs(j) {
		return job{}, false
	}
	return j, ok
}

// instance describes a job that squeue shows.
func (d *slurmDriver) instance(ctx context.Context, j job, q queue) (driver.Instance, error) {
	if err := d.lookInto(ctx, j, q); err != nil {
		return driver.Instance{}, err
	}
	if why := d.judge(j, q); why != nil {
		if err := d.cancel(ctx, j.id); err != nil {
			return driver.Instance{}, err
		}
		d.mu.Lock()
		d.remember(j.id).verdict = why
		d.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.remember(j.id)
	in := m.described(j.id)
	d.fillIn(&in, m, j)
	s := stateOf(j.state)
	in.State, in.StateReason = s.state, stateReason(j.state, j.reason)
	switch {
	case s.final:
		end := ending{state: j.state, reason: j.reason}
		if m.over != nil {
			end = *m.over
		}
		conclude(&in, end)
		if why := codeError(j.comment.failed); why != nil && in.State == driver.InstanceFailed {
			in.StateReason, in.FailureKind = why.Error(), why.Kind
		}
	case s.state == driver.InstancePending:
		in.StateReason = m.waiting(j, q.now)
	case s.comesUp && j.comment.addr == "":
		in.State, in.StateReason = driver.InstancePending, "the job has started; its SSH server is not there yet"
	case s.comesUp:
		d.reachable(&in, m, j, q)
	case j.state == "COMPLETING" && m.preempted:
		in.State, in.StateReason = driver.InstancePreempted, stateReason("PREEMPTED", "")
	case j.state == "COMPLETING" && q.now.Sub(j.end) > time.Minute && !j.end.IsZero():
		in.StateReason += fmt.Sprintf("; that takes %v already: one of them may hang (UnkillableStepTimeout)", q.now.Sub(j.end))
	}
	return m.settled(in), nil
}

// described returns what is known of a job without the queue. The driver's mu is held.
func (m *memory) described(id string) driver.Instance {
	in := driver.Instance{ID: id, Name: m.node.Name, Rank: m.node.Rank, Offer: m.offer}
	in.Offer.Provider = providerName
	return in
}

// fillIn adds what the queue has of a job. d.mu is held.
func (d *controller) fillIn(in *driver.Instance, m *memory, j job) {
	if m.node.Name == "" {
		in.Name, in.Rank = j.nodeName(), j.comment.Rank
	}
	if in.Offer.InstanceType == "" {
		in.Offer = d.offerOf(j)
	}
	if j.node != "" {
		in.Offer.Host = j.node
	}
}

// reachable adds the endpoint of a node that is up, and the time of its preemption if that is certain. d.mu is held.
func (d *slurmDriver) reachable(in *driver.Instance, m *memory, j job, q queue) {
	in.StateReason = ""
	in.SSH = driver.Endpoint{Addr: j.comment.addr, User: d.user, HostKeys: []string{j.comment.key}}
	in.PrivateAddr, _, _ = net.SplitHostPort(j.comment.addr)
	if m.preempted && m.checkedEnd.Equal(j.end) {
		in.PreemptAt = q.local(j.end)
		in.StateReason = stateReason("PREEMPTED", "")
	}
}

// settled applies what was decided about a job, and remembers its state. d.mu is held.
func (m *memory) settled(in driver.Instance) driver.Instance {
	final := in.State >= driver.InstancePreempted
	switch {
	case m.asked && final:
		in.State, in.FailureKind = driver.InstanceTerminated, nil
	case m.verdict != nil && (final || in.State == driver.InstancePending || in.State == driver.InstanceStopped):
		in.State, in.FailureKind = driver.InstanceFailed, m.verdict.Kind
		in.StateReason = m.verdict.Error()
	}
	m.last = in.State
	if in.StateReason != "" || in.State == driver.InstanceRunning {
		m.reason = in.State.String() + afterColon(in.StateReason)
	}
	return in
}

// local translates a time of the cluster's clock into one of this computer's, if they differ.
func (q queue) local(at time.Time) time.Time {
	const noticeable = 5 * time.Second
	switch {
	case at.IsZero():
	case q.now.Before(q.asked.Add(-noticeable)):
		return at.Add(q.asked.Sub(q.now))
	case q.now.After(q.answered.Add(noticeable)):
		return at.Add(q.answered.Sub(q.now))
	}
	return at
}
