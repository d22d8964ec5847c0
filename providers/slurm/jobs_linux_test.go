package slurm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A site that puts its own text into the comments of jobs: the pool is known by the name, and the rest once the job has
// written its comment.
func TestRewrittenComments(t *testing.T) {
	r := newRig(t, func(_ *Config, c *cluster) { c.rewrites, c.stalled = true, true })
	id := r.submit()
	list, err := r.driver.List(t.Context(), "p1")
	if err != nil || len(list) != 1 || list[0].ID != id || list[0].State != driver.InstancePending {
		t.Errorf("%+v, %v", list, err)
	}
	r.cluster.set(func() { r.cluster.stalled = false })
	in := r.until(id, "node", isRunning)
	list, err = r.driver.List(t.Context(), "p1")
	if err != nil || in.SSH.Addr == "" || len(list) != 1 || list[0].Owner != "host/1/2" || list[0].Lease != time.Minute {
		t.Errorf("%+v, %+v, %v", in.SSH, list, err)
	}
}

// The driver may change the comment at the moment at which the job writes its address there.
func TestAddressIsWrittenAgain(t *testing.T) {
	r := newRig(t, func(cfg *Config, _ *cluster) { cfg.Setup = []string{`mkdir "$dir/home/.gputrain"`} }) // as a program that has come
	r.launch.Pool.Lease = time.Second
	id := r.submit()
	r.until(id, "node", isRunning)
	r.cluster.set(func() {
		r.cluster.write("comment."+id, "gputrain/1 pool=p1 owner=host/1/2 rank=0 until=1900000000")
	})
	r.until(id, "node", isRunning)
	list, err := r.driver.List(t.Context(), "p1")
	if err != nil || len(list) != 1 || list[0].LeaseUntil.Unix() != 1900000000 {
		t.Errorf("the driver's change was lost: %+v, %v", list, err)
	}
}

// A preempted job's end comes before its time limit, and the controller says that it is a preemption.
func TestPreemptAt(t *testing.T) {
	r := newRig(t, func(cfg *Config, _ *cluster) { cfg.Partitions = []string{"scavenge"} })
	if !r.launch.Offer.Spot || !r.driver.Capabilities().Spot {
		t.Errorf("%+v is not spot", r.launch.Offer)
	}
	id := r.submit()
	if in := r.until(id, "node", isRunning); !in.PreemptAt.IsZero() {
		t.Errorf("PreemptAt is %v", in.PreemptAt)
	}
	end := time.Now().Add(10 * time.Second).Truncate(time.Second)
	r.cluster.set(func() { r.cluster.job(id).end = end })
	if in := r.describe(id); !in.PreemptAt.IsZero() {
		t.Error("an early end is no preemption if the controller does not say so")
	}
	end = end.Add(time.Second)
	r.cluster.set(func() { j := r.cluster.job(id); j.end, j.preempted = end, true })
	before := r.cluster.callsOf("another")
	for range 2 {
		if in := r.describe(id); !in.PreemptAt.Equal(end) || in.State != driver.InstanceRunning {
			t.Errorf("%v, PreemptAt is %v, want %v", in.State, in.PreemptAt, end)
		}
	}
	if n := r.cluster.callsOf("another") - before; n != 1 {
		t.Errorf("the controller was asked about the end %d times", n)
	}
}

// A refusal of the account is one line for all nodes of a launch, and names none of them.
func TestRefusalOfALaunchIsOneLine(t *testing.T) {
	r := newRig(t, func(_ *Config, c *cluster) { c.room = 0 })
	r.launch.Nodes = []driver.NodeRequest{{Name: "p1-0"}, {Name: "p1-1", Rank: 1}, {Name: "p1-2", Rank: 2}}
	got, err := r.driver.Launch(t.Context(), r.launch)
	if len(got) > 0 || !errors.Is(err, driver.ErrQuota) || strings.Count(err.Error(), "QOSMaxGRESPerUser") != 1 || strings.Contains(err.Error(), "p1-") {
		t.Errorf("%+v, %v", got, err)
	}
}

// A submission that is refused makes nothing, and one that cannot be is not submitted.
func TestRefused(t *testing.T) {
	r := newRig(t, nil)
	mounts := func(m driver.Mount) func(*driver.Launch) {
		return func(l *driver.Launch) { l.Query.Mounts = []driver.Mount{m} }
	}
	for name, tt := range map[string]struct {
		kind   error
		change func(*driver.Launch)
	}{
		"packages":  {driver.ErrUnsupported, func(l *driver.Launch) { l.Packages.Apt = []string{"git"} }},
		"docker":    {driver.ErrUnsupported, func(l *driver.Launch) { l.Query.Image = "pytorch" }},
		"mount":     {driver.ErrUnsupported, mounts(driver.Mount{Source: "/data", Target: "/mnt/data"})},
		"read-only": {driver.ErrUnsupported, mounts(driver.Mount{Source: "/data", Target: "/data", ReadOnly: true})},
		"escape":    {driver.ErrUnsupported, mounts(driver.Mount{Source: "/data", Target: "/tmp/../mnt"})},
		"volume":    {driver.ErrInvalid, mounts(driver.Mount{Source: "data", Target: "/data"})},
		"offer":     {driver.ErrInvalid, func(l *driver.Launch) { l.Offer.InstanceType = "p5.48xlarge" }},
		"key":       {driver.ErrInvalid, func(l *driver.Launch) { l.Pool.AuthorizedKey = "a\nb" }},
		"name":      {driver.ErrInvalid, func(l *driver.Launch) { l.Nodes = []driver.NodeRequest{{Name: "other-0"}} }},
		"partition": {driver.ErrInvalid, func(l *driver.Launch) { l.Offer.Region = "gone" }},
	} {
		l := r.launch
		tt.change(&l)
		if got, err := r.driver.Launch(t.Context(), l); !errors.Is(err, tt.kind) || len(got) > 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if n := len(r.cluster.account()); n > 0 {
		t.Errorf("%d jobs were made", n)
	}
}
