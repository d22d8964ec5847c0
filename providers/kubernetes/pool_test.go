package kubernetes

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// A pool whose node is preempted replaces it, and leaves nothing.
func TestPoolReplacesPreempted(t *testing.T) {
	standard.Replaced(t, oneA100, func(f *fake, id string) {
		f.Do(func() {
			p := f.podOf(id)
			p.Status.Conditions = append(p.Status.Conditions, condition{Type: disrupted, Status: "True", Reason: "PreemptionByScheduler"})
			f.finish(p, exitTold, "Error")
		})
	})
}

// The own cluster first, a cloud when it is full: with the scheduler's words in an event.
func TestFirstOfWhenFull(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Do(func() { f.addPods(4, "") })
	own := f.config()
	own.PendingTimeout = time.Second
	a100 := accelerators.A100()
	cloud := sim.New(sim.Options{Offers: []gputrain.Offer{{InstanceType: "a100.1", Accelerator: a100, HourlyUSD: driver.USD(2)}}})
	defer cloud.Close()
	var mu sync.Mutex
	var said []string
	pool, err := gputrain.Open(t.Context(), gputrain.FirstOf(own, sim.Config{Cloud: cloud}), oneA100, gputrain.WithStateDir(t.TempDir()), gputrain.WithEvents(func(e gputrain.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Err != nil {
			said = append(said, e.Err.Error())
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if n := pool.Nodes()[0]; n.Provider != "sim" {
		t.Errorf("the node is %+v", n)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(strings.Join(said, "\n"), "Insufficient nvidia.com/gpu") {
		t.Errorf("the events say %q", said)
	}
	if left := f.account(); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// A quota fails a pool that has nothing else at once, with its own words.
func TestPoolOverQuota(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Do(func() { f.quota = 1; f.addPods(1, "") })
	_, err := gputrain.Open(t.Context(), f.config(), oneA100, gputrain.WithStateDir(t.TempDir()))
	if !errors.Is(err, gputrain.ErrQuota) || !strings.Contains(err.Error(), "exceeded quota: gpus") {
		t.Errorf("%v", err)
	}
	if left := f.account(); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// Plan rents nothing.
func TestPlan(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	c := f.config()
	c.Queue = "research"
	plan, err := gputrain.Plan(t.Context(), c, oneA100)
	if err != nil || len(plan) != 1 || !strings.Contains(strings.Join(plan[0].Offer.Warnings, "\n"), "Kueue's queue research") {
		t.Errorf("%+v, %v", plan, err)
	}
	if n := len(f.Records(opMakeJob)); n > 0 {
		t.Errorf("%d Jobs were made", n)
	}
}
