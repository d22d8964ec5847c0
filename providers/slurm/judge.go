package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// lookInto asks for what squeue does not show: how a job has ended, and whether an early end is a preemption.
func (d *slurmDriver) lookInto(ctx context.Context, j job, q queue) error {
	d.mu.Lock()
	m := d.remember(j.id)
	failed := j.state == "FAILED" && m.over == nil
	completing := j.state == "COMPLETING" && !m.asked && m.verdict == nil
	early := (completing || stateOf(j.state).comesUp && j.endsEarly()) && !m.checkedEnd.Equal(j.end)
	d.mu.Unlock()
	if !failed && !early {
		return nil
	}
	end, err := d.ending(ctx, j)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if early {
		m.checkedEnd, m.preempted = j.end, end.preempted
		return nil
	}
	m.over = &end
	return nil
}

// endsEarly reports whether a job is to end before its time limit. That is so once it was selected for preemption.
func (j job) endsEarly() bool {
	const slack = 2 * time.Second
	return j.limit > 0 && j.limit < unlimited && !j.start.IsZero() && !j.end.IsZero() && j.end.Before(j.start.Add(j.limit-slack))
}

// judge returns why a job must be given up, or nil: the queue will not start it, or has not in time, or its node has no
// SSH server.
func (d *slurmDriver) judge(j job, q queue) *driver.Error {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, s := d.remember(j.id), stateOf(j.state)
	if m.verdict != nil || s.final {
		return nil
	}
	if s.unwanted {
		return &driver.Error{Kind: driver.ErrUnavailable, Err: errors.New(stateReason(j.state, j.reason)), Hint: "an administrator, or a failed start, has put it into the queue again"}
	}
	if why := codeError(j.comment.failed); why != nil && j.comment.addr == "" {
		return why
	}
	if s.state == driver.InstancePending {
		return m.judgeWaiting(d.cfg.QueueTimeout, j, q)
	}
	if limit := upTimeout(d.cfg); s.comesUp && j.comment.addr == "" && !j.start.IsZero() && q.now.Sub(j.start) > limit {
		return &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("it has no address after %v", limit),
			Hint: "Setup or the Container may take too long, or the site does not let a job change its comment"}
	}
	return nil
}

// judgeWaiting is judge for a job that waits. A limit of the account counts only if it holds in two answers: a GPU that the
// pool has just given back may lift it. d.mu is held.
func (m *memory) judgeWaiting(timeout time.Duration, j job, q queue) *driver.Error {
	why := hopeless(j.reason)
	limited := why != nil && why.Kind == driver.ErrQuota
	twice := limited && m.limited && q.now.Sub(m.limitedAt) >= secondLook
	if limited && !m.limited {
		m.limitedAt = q.now
	}
	m.limited = limited
	switch waited := q.now.Sub(j.submitted); {
	case why != nil && (!limited || twice):
		return why
	case !j.submitted.IsZero() && waited > timeout:
		return &driver.Error{Kind: driver.ErrNoCapacity, Err: fmt.Errorf("it has waited in the queue for %v: %s", waited, j.reason), Hint: "set QueueTimeout to wait longer"}
	}
	return nil
}

// secondLook is the least time, on the cluster's clock, between two answers that show a limit.
const secondLook = 2 * time.Second

// failures are the codes of job.sh.
var failures = map[string]struct {
	kind error
	text string
	hint string
}{
	"workdir":   {driver.ErrInvalid, "the job cannot make a folder in WorkDir", "set WorkDir to a folder of the compute nodes that you may write to: yours or root's, or a project's, and not in one that everybody may write to"},
	"setup":     {driver.ErrBootstrap, "a line of Setup has failed", "run it in a job of your own"},
	"mount":     {driver.ErrNotFound, "a path of Spec.Mounts does not exist on the node, or its Target cannot be made", "check Source on a compute node"},
	"sshd":      {driver.ErrUnsupported, "there is no SSH server on the node", "set SSHD to the path of sshd there; a Container needs one in its image"},
	"keygen":    {driver.ErrUnsupported, "there is no ssh-keygen on the node", "OpenSSH must be whole: ssh-keygen is beside sshd"},
	"listen":    {driver.ErrUnavailable, "the SSH server did not start", "set Ports to others, or SSHD to an OpenSSH of version 7.8 or later"},
	"container": {driver.ErrBootstrap, "the Container did not start", "run its image in a job of your own"},
}

// codeError returns the error of a job whose script has given up, with the code in its comment, or nil.
func codeError(code string) *driver.Error {
	word, detail, _ := strings.Cut(code, ":")
	f, ok := failures[word]
	switch {
	case code == "":
		return nil
	case !ok:
		return &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("the job's script has given up: %.40q", code)}
	case detail != "":
		return &driver.Error{Kind: f.kind, Err: fmt.Errorf("%s: number %.20s", f.text, detail), Hint: f.hint}
	}
	return &driver.Error{Kind: f.kind, Err: errors.New(f.text), Hint: f.hint}
}

// conclude describes a job that has ended.
func conclude(in *driver.Instance, end ending) {
	in.State, in.StateReason = stateOf(end.state).state, stateReason(end.state, end.reason)
	if end.exitCode != "" && end.exitCode != "0:0" {
		in.StateReason += ", exit status " + end.exitCode
	}
	if in.State != driver.InstanceFailed {
		return
	}
	if end.exitCode == byWatcher {
		in.State, in.StateReason = driver.InstanceTerminated, "its lease has run out, or it was told to end"
		return
	}
	if why := hopeless(end.reason); why != nil {
		in.FailureKind = why.Kind
	}
}
