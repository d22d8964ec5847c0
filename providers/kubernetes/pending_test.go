package kubernetes

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A machine that will not start is ended by the driver, and reported with the cluster's words.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config func(*Config)
		before func(*fake)
		after  time.Duration // until it is given up
		kind   error
		reason string
	}{
		"no room":      {before: func(f *fake) { f.addPods(4, "") }, after: 5 * time.Minute, kind: driver.ErrNoCapacity, reason: "2 Insufficient nvidia.com/gpu"},
		"no room soon": {config: func(c *Config) { c.PendingTimeout = time.Minute }, before: func(f *fake) { f.addPods(4, "") }, after: time.Minute, kind: driver.ErrNoCapacity, reason: "waited for 1m0s"},
		"Kueue":        {config: func(c *Config) { c.Queue = "research" }, after: 30 * time.Minute, kind: driver.ErrNoCapacity, reason: "queued by Kueue in research"},
		"quota":        {before: func(f *fake) { f.quota = 1; f.addPods(1, "") }, kind: driver.ErrQuota, reason: "exceeded quota: gpus, requested: requests.nvidia.com/gpu=1"},
		"amounts":      {before: func(f *fake) { f.policy = "failed quota: cpu: must specify limits.memory for: node" }, kind: driver.ErrInvalid, reason: "must specify limits.memory"},
		"policy":       {before: func(f *fake) { f.policy = `violates PodSecurity "restricted:latest": runAsNonRoot != true` }, kind: driver.ErrInvalid, reason: "violates PodSecurity"},
		"image":        {before: func(f *fake) { f.badImage = DefaultImage }, after: badImageFor, kind: driver.ErrInvalid, reason: "ErrImagePull: not found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			if tt.before != nil {
				f.Do(func() { tt.before(f) })
			}
			c := f.config()
			if tt.config != nil {
				tt.config(&c)
			}
			d, in := launched(t, f, c)
			if tt.after > 0 {
				for _, shift := range []time.Duration{0, tt.after / 2} {
					f.Do(func() { f.shift = shift })
					if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstancePending || now.FailureKind != nil {
						t.Errorf("after %v: %v, %q", shift, now.State, now.StateReason)
					}
				}
				f.Do(func() { f.shift = tt.after + time.Second })
			}
			other := cloudtest.Open(t, c)
			if now := cloudtest.Describe(t, other, in.ID); now.State != driver.InstancePending {
				t.Errorf("another program, whose machine it is not, reports %v, %q", now.State, now.StateReason)
			}
			now := cloudtest.Describe(t, d, in.ID)
			if now.State != driver.InstanceFailed || !errors.Is(now.FailureKind, tt.kind) || !strings.Contains(now.StateReason, tt.reason) {
				t.Errorf("%v, %v, %q; want %v, %q", now.State, now.FailureKind, now.StateReason, tt.kind, tt.reason)
			}
			if left := f.account(); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
			now = cloudtest.Describe(t, d, in.ID)
			if now.State != driver.InstanceTerminated || !errors.Is(now.FailureKind, tt.kind) || !strings.Contains(now.StateReason, tt.reason) {
				t.Errorf("once it is gone: %v, %v, %q", now.State, now.FailureKind, now.StateReason)
			}
			if err := d.Terminate(t.Context(), in.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// An autoscaler that makes a machine lengthens the wait, and one that cannot ends it.
func TestAutoscaler(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Do(func() { f.stalled = true })
	c := f.config()
	c.Autoscaled, c.Shapes = true, []Shape{{GPU: "A100-80GB", Count: 8}}
	d, in := launched(t, f, c)
	f.Do(func() {
		f.reconcile()
		f.podOf(in.ID).Status.Conditions = []condition{{Type: "PodScheduled", Status: "False", Reason: "Unschedulable", Message: "no room"}}
		f.shift = 29 * time.Minute
		f.event("Pod", f.podOf(in.ID).Metadata.Name, "TriggeredScaleUp", "pod triggered scale-up: [{pool 0->1}]")
		f.shift = 45 * time.Minute
	})
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstancePending || !strings.Contains(now.StateReason, "the autoscaler grows the cluster: pod triggered scale-up") {
		t.Errorf("%v, %q", now.State, now.StateReason)
	}
	f.Do(func() {
		f.event("Pod", f.podOf(in.ID).Metadata.Name, "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached")
	})
	now := cloudtest.Describe(t, d, in.ID)
	if now.State != driver.InstanceFailed || !errors.Is(now.FailureKind, driver.ErrNoCapacity) || !strings.Contains(now.StateReason, "max node group size") {
		t.Errorf("%v, %v, %q", now.State, now.FailureKind, now.StateReason)
	}
}

// A failed end of a machine that waits is tried again at the next look.
func TestGivenUpLater(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Do(func() { f.addPods(4, "") })
	d, in := launched(t, f, f.config())
	f.Do(func() { f.shift = 6 * time.Minute })
	fault := f.Inject(faultOn(opDeleteJob, 500))
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstancePending {
		t.Errorf("%v, %q, and it was not ended", now.State, now.StateReason)
	}
	fault.Remove()
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceFailed {
		t.Errorf("%v, %q", now.State, now.StateReason)
	}
}
