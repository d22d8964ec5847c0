package slurm

import (
	"context"
	"errors"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// history asks the accounting for jobs that squeue does not show any more. It returns those that it knows, by their IDs: none,
// if the cluster has no accounting.
func (d *controller) history(ctx context.Context, ids []string) (map[string]ending, error) {
	if !d.facts.accounting || len(ids) == 0 {
		return nil, nil
	}
	answers, err := d.read(ctx, command{words: d.slurm("sacct", "--allocations", "--noheader", "--parsable2", "--duplicates", "--starttime=now-30days",
		"--jobs="+strings.Join(ids, ","), "--format=JobID,State,ExitCode,Reason,End")})
	if err != nil {
		var said *commandError
		if errors.As(err, &said) && strings.Contains(strings.ToLower(said.said), "accounting storage is disabled") {
			return nil, nil
		}
		return nil, err
	}
	return parseHistory(answers[0].out)
}

// parseHistory reads the output of sacct. Of a job that was requeued the last line counts.
func parseHistory(out string) (map[string]ending, error) {
	all := map[string]ending{}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "CLUSTER: ") {
			continue
		}
		f := strings.Split(line, "|")
		if len(f) < 5 || !jobID.MatchString(f[0]) {
			return nil, unreadable("sacct", out)
		}
		all[f[0]] = ending{state: f[1], exitCode: f[2], reason: f[3]}
	}
	return all, nil
}

// ending asks the controller how a job ends.
func (d *controller) ending(ctx context.Context, j job) (ending, error) {
	answers, err := d.read(ctx, d.scontrol("--oneliner", "show", "job", j.id))
	if err != nil {
		if isForgotten(err) {
			return ending{state: j.state, reason: j.reason}, nil
		}
		return ending{}, err
	}
	for _, r := range parseRecords(answers[0].out, "JobId") {
		if r["JobId"] == j.id {
			return ending{state: j.state, reason: r.text("Reason"), exitCode: r["ExitCode"], preempted: r.text("PreemptTime") != ""}, nil
		}
	}
	return ending{}, unreadable("scontrol show job", answers[0].out)
}

// isForgotten reports whether the controller does not know a job any more.
func isForgotten(err error) bool {
	var said *commandError
	return errors.As(err, &said) && strings.Contains(strings.ToLower(said.said), "invalid job id")
}

// ended returns the instance of a job that squeue does not show.
func (d *slurmDriver) ended(id string, end ending, known bool) driver.Instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.remember(id)
	in := m.described(id)
	switch {
	case known:
		conclude(&in, end)
	default:
		in.State, in.StateReason = driver.InstanceTerminated, "the cluster does not know it any more"
		if m.reason != "" {
			in.StateReason += "; it was last " + m.reason
		}
	}
	return m.settled(in)
}
