package slurm

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
)

// A job that waits for too long is cancelled, and counts as one for which there is no capacity.
func TestQueueTimeout(t *testing.T) {
	r := newRig(t, func(cfg *Config, c *cluster) { cfg.QueueTimeout, c.stalled = time.Hour, true })
	id := r.submit()
	if in := r.describe(id); in.State != driver.InstancePending || in.StateReason != "queued: Resources" {
		t.Errorf("%v, %q", in.State, in.StateReason)
	}
	r.cluster.set(func() { j := r.cluster.job(id); j.submitted = j.submitted.Add(-2 * time.Hour) })
	in := r.describe(id)
	if in.State != driver.InstanceFailed || in.FailureKind != driver.ErrNoCapacity || !strings.Contains(in.StateReason, "waited in the queue") {
		t.Errorf("%v, %v, %q", in.State, in.FailureKind, in.StateReason)
	}
	if r.state(id) != "CANCELLED" {
		t.Errorf("the job is %s", r.state(id))
	}
	if in := r.describe(id); in.State != driver.InstanceFailed || in.FailureKind != driver.ErrNoCapacity {
		t.Errorf("after that: %v, %v", in.State, in.FailureKind)
	}
	if err := r.driver.Terminate(t.Context(), id); err != nil || r.describe(id).State != driver.InstanceTerminated {
		t.Errorf("after Terminate: %v, %v", r.describe(id).State, err)
	}
}

// A limit of the account counts once it is seen twice; what is never possible, at once. Both are cancelled.
func TestHopeless(t *testing.T) {
	r := newRig(t, func(_ *Config, c *cluster) { c.stalled, c.reason = true, "QOSMaxGRESPerUser" })
	id := r.submit()
	if in := r.describe(id); in.State != driver.InstancePending {
		t.Errorf("at the first look: %v", in.State)
	}
	r.cluster.set(func() { r.cluster.skew = 10 * time.Second })
	if in := r.describe(id); in.State != driver.InstanceFailed || in.FailureKind != driver.ErrQuota || r.state(id) != "CANCELLED" {
		t.Errorf("at the second: %v, %v, and the job is %s", in.State, in.FailureKind, r.state(id))
	}
	r.cluster.set(func() { r.cluster.reason = "PartitionTimeLimit" })
	r.launch.Nodes[0].Name = "p1-1"
	id = r.submit()
	if in := r.describe(id); in.State != driver.InstanceFailed || in.FailureKind != driver.ErrInvalid || r.state(id) != "CANCELLED" {
		t.Errorf("%v, %v, and the job is %s", in.State, in.FailureKind, r.state(id))
	}
}

// A job that an administrator, or a failed start, has put into the queue again is cancelled.
func TestRequeued(t *testing.T) {
	r := newRig(t, nil)
	id := r.submit()
	r.until(id, "node", isRunning)
	r.cluster.set(func() { r.cluster.job(id).state = "REQUEUE_HOLD" })
	if in := r.describe(id); in.State != driver.InstanceFailed || !strings.Contains(in.StateReason, "REQUEUE_HOLD") {
		t.Errorf("%v, %q", in.State, in.StateReason)
	}
	r.until(id, "end", func(driver.Instance) bool { return r.state(id) == "CANCELLED" })
}

// A job's end is known by the accounting once squeue has forgotten it, and without one it is the last that was seen.
func TestForgotten(t *testing.T) {
	for _, accounting := range []bool{false, true} {
		r := newRig(t, func(_ *Config, c *cluster) {
			if accounting {
				c.config = strings.Replace(c.config, "accounting_storage/none", "accounting_storage/slurmdbd", 1)
				c.accounting = map[string]string{}
			}
		})
		id := r.submit()
		r.until(id, "node", isRunning)
		r.cluster.set(func() {
			r.cluster.job(id).kill(r.cluster)
			r.cluster.jobs = nil
			if accounting {
				r.cluster.accounting[id] = id + "|OUT_OF_MEMORY|0:125|None|1795763850\n"
			}
		})
		in := r.describe(id)
		want, words := driver.InstanceTerminated, "it was last running"
		if accounting {
			want, words = driver.InstanceFailed, "OUT_OF_MEMORY"
		}
		if in.State != want || !strings.Contains(in.StateReason, words) || in.Name != "p1-0" {
			t.Errorf("accounting %v: %v, %q", accounting, in.State, in.StateReason)
		}
	}
}

// An ID that the controller gives again is another job, which is left alone.
func TestReusedID(t *testing.T) {
	r := newRig(t, nil)
	id := r.submit()
	r.until(id, "node", isRunning)
	r.cluster.set(func() {
		r.cluster.job(id).kill(r.cluster)
		r.cluster.jobs, r.cluster.lastID = nil, r.cluster.lastID-1
	})
	other := r.launch
	other.Nodes = []driver.NodeRequest{{Name: "p1-7"}}
	elsewhere, err := r.login.config().Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	got, err := elsewhere.Launch(t.Context(), other)
	if err != nil || got[0].ID != id {
		t.Fatalf("%+v, %v", got, err)
	}
	if in := r.describe(id); in.State != driver.InstanceTerminated {
		t.Errorf("another job counts as the node's: %+v", in)
	}
	if err := r.driver.Terminate(t.Context(), id); err != nil || r.state(id) == "CANCELLED" {
		t.Errorf("another job was cancelled: %v", err)
	}
}

// All callers of a moment share one squeue, and one SSH connection serves everything.
func TestOneQuery(t *testing.T) {
	r := newRig(t, func(cfg *Config, _ *cluster) { cfg.PollInterval = time.Hour })
	var ids []string
	for i := range 3 {
		r.launch.Nodes[0] = driver.NodeRequest{Name: fmt.Sprint("p1-", i), Rank: i}
		ids = append(ids, r.submit())
	}
	before := r.cluster.callsOf(providertest.OpDescribe)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			if _, err := r.driver.Describe(t.Context(), ids[i%3]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := r.cluster.callsOf(providertest.OpDescribe) - before; n != 1 {
		t.Errorf("30 calls asked %d times", n)
	}
	if n := r.login.connections(); n != 1 {
		t.Errorf("%d connections to the login node", n)
	}
	if err := r.driver.Terminate(t.Context(), ids[0]); err != nil { // which asks anew
		t.Error(err)
	}
	r.login.cut()
	if _, err := r.driver.List(t.Context(), ""); err != nil {
		t.Errorf("after the connection was cut: %v", err)
	}
}
