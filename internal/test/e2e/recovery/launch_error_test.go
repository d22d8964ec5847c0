package recovery

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// besides opens a pool whose launch returns a machine, modified by change, and an error.
func besides(t *testing.T, c *e2etest.SimCloud, change func(*driver.Instance), described func(*driver.Instance), kind error) (*gputrain.Compute, error) {
	w := &e2etest.Wrapped{Provider: sim.Config{Cloud: c.Cloud}}
	w.OnLaunch = func(ctx context.Context, req driver.Launch, d driver.Driver) ([]driver.Instance, error) {
		got, err := d.Launch(ctx, req)
		for i := range got {
			change(&got[i])
		}
		return got, errors.Join(err, &gputrain.Error{Provider: "sim", Op: "launch", Kind: kind, Err: errors.New("the start was refused")})
	}
	w.OnDescribe = func(got []driver.Instance) ([]driver.Instance, error) {
		for i := range got {
			if got[i].State != driver.InstanceTerminated {
				described(&got[i])
			}
		}
		return got, nil
	}
	return gputrain.Open(t.Context(), w, gputrain.Spec{MaxReplacements: -1}, gputrain.WithStateDir(c.State), gputrain.WithEvents(c.Tell))
}

func unchanged(*driver.Instance) {}

// says reports whether the error of an event contains a text.
func says(c *e2etest.SimCloud, text string) bool {
	for _, e := range c.Events() {
		if e.Err != nil && strings.Contains(e.Err.Error(), text) {
			return true
		}
	}
	return false
}

// A machine that the driver returns as failed together with an error is ended at once. Open's error
// is that of the launch, with its kind, and not ErrNoCapacity.
func TestFailedMachineBesideAnError(t *testing.T) {
	e2etest.InCloud(t, sim.Options{BootTime: time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
		began := time.Now()
		_, err := besides(t, c, func(in *driver.Instance) { in.State = driver.InstanceFailed }, unchanged, gputrain.ErrAuth)
		if !errors.Is(err, gputrain.ErrAuth) || errors.Is(err, gputrain.ErrNoCapacity) || !strings.Contains(err.Error(), "the start was refused") {
			t.Errorf("%v", err)
		}
		if n := c.CountLaunches(); n != 1 {
			t.Errorf("%d machines were launched", n)
		}
		if !says(c, "the start was refused") || says(c, "no capacity") {
			t.Error("no event reports the refusal")
		}
		if waited := time.Since(began); waited > time.Minute { // in virtual time
			t.Errorf("Open took %v", waited)
		}
		if live := c.Live(); len(live) > 0 {
			t.Errorf("these resources are left: %v", live)
		}
	})
}

// An error that is returned together with a machine that comes up is reported in an event.
func TestMachineBesideAnError(t *testing.T) {
	e2etest.InCloud(t, sim.Options{BootTime: time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
		p, err := besides(t, c, unchanged, unchanged, gputrain.ErrUnavailable)
		if err != nil {
			t.Fatal(err)
		}
		c.Pools = append(c.Pools, p)
		if !says(c, "the start was refused") {
			t.Error("no event reports the error beside the machine")
		}
		c.CloseAndCheck(t, p)
	})
}

// If such a machine does not come up, its node's error includes that error.
func TestMachineBesideAnErrorThatFails(t *testing.T) {
	e2etest.InCloud(t, sim.Options{BootTime: time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
		_, err := besides(t, c, unchanged, func(in *driver.Instance) { in.State = driver.InstanceFailed }, gputrain.ErrUnavailable)
		if err == nil || !strings.Contains(err.Error(), "the machine is failed") || !strings.Contains(err.Error(), "the start was refused") {
			t.Errorf("%v", err)
		}
		if live := c.Live(); len(live) > 0 {
			t.Errorf("these resources are left: %v", live)
		}
	})
}
