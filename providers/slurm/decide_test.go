package slurm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestReasons(t *testing.T) {
	for reason, want := range map[string]error{
		"None": nil, "Priority": nil, "Resources": nil, "BeginTime": nil, "Cleaning": nil, "ReqNodeNotAvail, UnavailableNodes:c1": nil, "JobHeldUser": nil, "JobHeldAdmin": nil,
		"Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": nil, "Reservation": nil, "Licenses": nil, "Dependency": nil, "SomethingNew": nil,
		"QOSMaxGRESPerUser": driver.ErrQuota, "QOSGrpGRES": driver.ErrQuota, "QOSMaxWallDurationPerJobLimit": driver.ErrQuota, "AssocGrpGRESMinutes": driver.ErrQuota, "AssocMaxJobsLimit": driver.ErrQuota,
		"PartitionTimeLimit": driver.ErrInvalid, "PartitionConfig": driver.ErrInvalid, "PartitionNodeLimit": driver.ErrInvalid, "BadConstraints": driver.ErrInvalid,
		"InvalidAccount": driver.ErrInvalid, "InvalidQOS": driver.ErrInvalid, "QOSNotAllowed": driver.ErrInvalid, "launch failed requeued held": driver.ErrUnavailable,
	} {
		why := hopeless(reason)
		if want == nil && why != nil || want != nil && (why == nil || why.Kind != want || why.Hint == "") {
			t.Errorf("%s: %v, want %v", reason, why, want)
		}
	}
}

// The words about a waiting job change only with its reason or its estimate.
func TestWaitingText(t *testing.T) {
	now := time.Unix(1795763846, 0)
	j := job{state: "PENDING", reason: "Priority", start: now.Add(25*time.Minute + 10*time.Second)}
	m := &memory{}
	first := m.waiting(j, now)
	if want := "queued: Priority; the queue expects to start it at 07:45 UTC (in 25m)"; first != want {
		t.Errorf("%q, want %q", first, want)
	}
	j.start = j.start.Add(20 * time.Second)
	if again := m.waiting(j, now.Add(5*time.Minute)); again != first {
		t.Errorf("%q follows %q", again, first)
	}
	j.start = now.Add(3 * time.Hour)
	if later := m.waiting(j, now); !strings.HasSuffix(later, "(in 3h0m)") {
		t.Errorf("%q", later)
	}
	if text := (&memory{}).waiting(job{reason: "JobHeldAdmin"}, now); text != "queued: JobHeldAdmin (held by an administrator)" {
		t.Errorf("%q", text)
	}
	if text := (&memory{}).waiting(job{reason: "None", start: now.Add(-time.Second)}, now); text != "queued" {
		t.Errorf("%q", text)
	}
}

func TestStates(t *testing.T) {
	for state, want := range map[string]driver.InstanceState{
		"PENDING": driver.InstancePending, "SUSPENDED": driver.InstanceStopped, "COMPLETING": driver.InstanceStopped, "CANCELLED by 2001": driver.InstanceTerminated, "CANCELLED+": driver.InstanceTerminated,
		"TIMEOUT": driver.InstanceTerminated, "FAILED": driver.InstanceFailed, "OUT_OF_MEMORY": driver.InstanceFailed, "PREEMPTED": driver.InstancePreempted, "NODE_FAIL": driver.InstanceFailed,
		"": driver.InstanceUnknown, "NEW_STATE": driver.InstanceUnknown,
	} {
		if got := stateOf(state); got.state != want {
			t.Errorf("%q is %v, want %v", state, got.state, want)
		}
	}
	for end, want := range map[ending]driver.Instance{
		{state: "FAILED", exitCode: "143:0"}:                            {State: driver.InstanceTerminated},
		{state: "FAILED", exitCode: "0:53", reason: "JobLaunchFailure"}: {State: driver.InstanceFailed},
		{state: "FAILED", exitCode: "1:0", reason: "BadConstraints"}:    {State: driver.InstanceFailed, FailureKind: driver.ErrInvalid},
		{state: "TIMEOUT", exitCode: "0:0"}:                             {State: driver.InstanceTerminated},
	} {
		var in driver.Instance
		conclude(&in, end)
		if in.State != want.State || in.FailureKind != want.FailureKind || in.StateReason == "" {
			t.Errorf("%+v is %+v", end, in)
		}
	}
}

func TestFailures(t *testing.T) {
	for said, want := range map[string]struct {
		kind error
		open bool
	}{
		"sbatch: error: invalid partition specified: x\nsbatch: error: Batch job submission failed: Invalid partition name specified":                                         {driver.ErrInvalid, false},
		"sbatch: error: Batch job submission failed: Invalid feature specification":                                                                                           {driver.ErrInvalid, false},
		"sbatch: error: Invalid generic resource (gres) specification":                                                                                                        {driver.ErrInvalid, false},
		"sbatch: error: Invalid --time specification":                                                                                                                         {driver.ErrInvalid, false},
		"sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)":                                                         {driver.ErrInvalid, false},
		"sbatch: error: Batch job submission failed: Requested node configuration is not available":                                                                           {driver.ErrNoOffers, false},
		"sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified":                                                              {driver.ErrAuth, false},
		"sbatch: error: Batch job submission failed: Invalid qos specification":                                                                                               {driver.ErrAuth, false},
		"sbatch: error: QOSMaxGRESPerUser\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)": {driver.ErrQuota, false},
		"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation":                                                                                 {driver.ErrUnavailable, true},
		"slurm_load_jobs error: Unable to contact slurm controller (connect failure)":                                                                                         {driver.ErrUnavailable, true},
		"sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received":                                                                                 {driver.ErrUnavailable, true},
		"sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying":                                                                                        {driver.ErrRateLimited, false},
		"slurm_load_jobs error: RPC rate limit reached":                                                                                                                       {driver.ErrRateLimited, false},
		"sbatch: fatal: Unable to process configuration file":                                                                                                                 {driver.ErrUnavailable, false},
		"bash: line 4: sbatch: command not found":                                                                                                                             {driver.ErrUnavailable, false},
		"sbatch: error: Batch job submission failed: Something that no version says":                                                                                          {driver.ErrUnavailable, true},
		"": {driver.ErrUnavailable, true},
	} {
		err := failure("sbatch", said, 1)
		if !errors.Is(err, want.kind) || isOpen(err) != want.open {
			t.Errorf("%q is %v, which may have made something: %v", said, err, isOpen(err))
		}
		if formed := fail("launch", err); strings.Count(formed.Error(), "\n") > 0 || !strings.HasPrefix(formed.Error(), "slurm: launch: ") {
			t.Errorf("%q", formed)
		}
	}
	for code := range failures {
		if why := codeError(code + ":2"); why == nil || why.Hint == "" || why.Kind == nil {
			t.Errorf("%s: %v", code, why)
		}
	}
	if why := codeError("new code"); why == nil || codeError("") != nil {
		t.Error(why)
	}
}

// A limit of the account is told by its name, with its own remedy, and once for all nodes.
func TestRefusalOfAnAccountIsToldOnce(t *testing.T) {
	const policy = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
	for name, hint := range map[string]string{
		"QOSMaxGRESPerUser": "another QOS", "QOSGrpGRES": "another QOS", "AssocMaxSubmitJobLimit": "another Account", "AssocGrpGRESMinutes": "another Account",
		"AssocMaxWallDurationPerJobLimit": "TimeLimit", "QOSMaxWallDurationPerJobLimit": "TimeLimit", "QOSMaxSubmitJobPerUserLimit": "another QOS", "MaxJobsPerAccount": "end other jobs",
	} {
		said := "sbatch: error: " + name + "\nsbatch: error: Batch job submission failed: " + policy + "\n"
		refused := func() error { return fail("launch", failure("sbatch", said, 1)) }
		err := launches.Join(isOpen, refused(), nil, refused())
		if want := "slurm: launch: quota exceeded: sbatch: " + name + ": " + policy; err == nil || strings.Count(err.Error(), name) != 1 || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), "\n") || !errors.Is(err, driver.ErrQuota) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for said, want := range map[string]string{
		"sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified": "sbatch: Invalid account or account/partition combination specified",
		"sbatch: error: Invalid account\nsbatch: error: Invalid account\n":                                       "sbatch: Invalid account",
		"slurm_load_jobs error: Unable to contact slurm controller":                                              "sbatch: slurm_load_jobs error: Unable to contact slurm controller",
	} {
		if got := failure("sbatch", said, 1); !strings.Contains(got.Error(), want) || strings.Count(got.Error(), "sbatch") != 1 {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

func TestTimeLimits(t *testing.T) {
	day, hour := 24*time.Hour, time.Hour
	for _, tt := range []struct {
		config, ttl, most, usual, want time.Duration
		warns                          bool
	}{
		{0, 8 * hour, day, hour, 8 * hour, false},
		{0, 0, day, hour, day, true},
		{0, 0, unlimited, hour, hour, true},
		{0, 0, unlimited, 0, day, true},
		{0, 0, unlimited, unlimited, day, true},
		{2 * hour, 8 * hour, day, hour, 2 * hour, true},
		{8 * hour, 2 * hour, day, hour, 2 * hour, false},
		{2 * hour, 0, day, 0, 2 * hour, true},
		{0, 2 * day, day, hour, day, true}, // the cluster's limit is before the TTL
		{2 * day, 0, day, hour, -1, false}, // more than the cluster allows
	} {
		p := partition{name: "gpu", maxTime: tt.most, defaultTime: tt.usual}
		got, warning, err := Config{TimeLimit: tt.config}.timeLimit(p, tt.ttl)
		if tt.want < 0 && err == nil || tt.want >= 0 && (err != nil || got != tt.want || (warning != "") != tt.warns) {
			t.Errorf("%+v: %v, %q, %v", tt, got, warning, err)
		}
	}
	if minutes(61*time.Second) != 2 || minutes(0) != 1 || minutes(time.Hour) != 60 {
		t.Error("a time limit is not rounded up")
	}
}
