package slurm

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// pendingReasons are reasons of waiting jobs for which waiting is in vain, by their beginnings, the most specific first: the
// list grows with Slurm's versions. All others may pass.
var pendingReasons = []struct {
	prefix string
	kind   error
	hint   string
}{
	{"QOSNotAllowed", driver.ErrInvalid, "check QOS and Partitions"},
	{"AccountNotAllowed", driver.ErrInvalid, "check Account and Partitions"},
	{"InvalidAccount", driver.ErrInvalid, "check Account"},
	{"InvalidQOS", driver.ErrInvalid, "check QOS"},
	{"PartitionTimeLimit", driver.ErrInvalid, "set TimeLimit, or Spec.TTL, to less than the partition's limit"},
	{"PartitionConfig", driver.ErrInvalid, "the job asks for more than its partition allows"},
	{"PartitionNodeLimit", driver.ErrInvalid, "the job asks for more than its partition allows"},
	{"BadConstraints", driver.ErrInvalid, "check Constraint and SbatchArgs"},
	{"DependencyNeverSatisfied", driver.ErrInvalid, "check SbatchArgs"},
	{"QOSMaxWallDuration", driver.ErrQuota, "set TimeLimit, or Spec.TTL, to less"},
	{"AssocMaxWallDuration", driver.ErrQuota, "set TimeLimit, or Spec.TTL, to less"},
	{"QOS", driver.ErrQuota, "end other jobs, ask for less, or choose another QOS"},
	{"Assoc", driver.ErrQuota, "end other jobs, ask for less, or choose another Account"},
	{"MaxTRES", driver.ErrQuota, "end other jobs, or ask for less"},
	{"MaxGRES", driver.ErrQuota, "end other jobs, or ask for less"},
	{"MaxJobsPer", driver.ErrQuota, "end other jobs"},
	{"launch failed requeued held", driver.ErrUnavailable, "the node could not start it: scontrol show job"},
}

// explained are what Slurm's words for some waiting jobs mean.
var explained = map[string]string{
	"JobHeldUser":  "held by the user",
	"JobHeldAdmin": "held by an administrator",
	"Reservation":  "its reservation has not begun, or is full",
	"Dependency":   "it waits for another job",
	"Licenses":     "it waits for licenses",
}

// hopeless returns why a reason keeps a job waiting for ever, or nil.
func hopeless(reason string) *driver.Error {
	for _, r := range pendingReasons {
		if strings.HasPrefix(reason, r.prefix) {
			return &driver.Error{Kind: r.kind, Err: errors.New(reason), Hint: r.hint}
		}
	}
	return nil
}

// waiting describes a job that waits, with the queue's estimate of its start. The text changes only if the reason or
// the estimate does: the estimate is rounded, the more the further it is away.
func (m *memory) waiting(j job, now time.Time) string {
	left, step := j.start.Sub(now), time.Minute
	switch {
	case left > 2*time.Hour:
		step = 15 * time.Minute
	case left > 20*time.Minute:
		step = 5 * time.Minute
	}
	at := j.start.Round(step)
	expected := !j.start.IsZero() && left > 0
	key := j.reason
	if expected {
		key += at.String()
	}
	if m.waitKey == key {
		return m.waitText
	}
	text := "queued"
	if j.reason != "None" {
		text += ": " + j.reason
	}
	if why := explained[j.reason]; why != "" {
		text += " (" + why + ")"
	}
	if expected {
		text += fmt.Sprintf("; the queue expects to start it at %s (in %s)", at.UTC().Format("15:04 MST"), about(left))
	}
	m.waitKey, m.waitText = key, text
	return text
}

// about writes a time in whole minutes: "25m", "3h10m".
func about(d time.Duration) string {
	minutes := int(max(d.Round(time.Minute), time.Minute).Minutes())
	if minutes < 60 {
		return fmt.Sprintf("%dm", minutes)
	}
	return fmt.Sprintf("%dh%dm", minutes/60, minutes%60)
}
