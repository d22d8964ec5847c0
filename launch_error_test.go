package gputrain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// besides opens a pool of one whose launch returns a machine, changed, and an error.
func besides(t *testing.T, c *simCloud, change func(*gputrain.Instance), described func(*gputrain.Instance), kind error) (*gputrain.Compute, error) {
	w := &wrapped{Provider: sim.Config{Cloud: c.Cloud}}
	w.launch = func(ctx context.Context, req gputrain.LaunchRequest, d gputrain.Driver) ([]gputrain.Instance, error) {
		got, err := d.Launch(ctx, req)
		for i := range got {
			change(&got[i])
		}
		return got, errors.Join(err, &gputrain.Error{Provider: "sim", Op: "launch", Kind: kind, Err: errors.New("the start was refused")})
	}
	w.desc = func(got []gputrain.Instance) ([]gputrain.Instance, error) {
		for i := range got {
			if got[i].State != gputrain.InstanceTerminated {
				described(&got[i])
			}
		}
		return got, nil
	}
	return gputrain.Open(t.Context(), w, gputrain.Spec{MaxReplacements: -1}, gputrain.WithStateDir(c.state), gputrain.WithEvents(c.tell))
}

func unchanged(*gputrain.Instance) {}

// says reports whether an event has an error with a text.
func (c *simCloud) says(text string) bool {
	for _, e := range c.events() {
		if e.Err != nil && strings.Contains(e.Err.Error(), text) {
			return true
		}
	}
	return false
}

// A machine that its driver returns as failed, beside the error, is not waited for, nor called want of
// capacity: it is ended, and the error is the launch's, of its kind.
func TestFailedMachineBesideAnError(t *testing.T) {
	inCloud(t, sim.Options{BootTime: time.Second}, func(t *testing.T, c *simCloud) {
		began := time.Now()
		_, err := besides(t, c, func(in *gputrain.Instance) { in.State = gputrain.InstanceFailed }, unchanged, gputrain.ErrAuth)
		if !errors.Is(err, gputrain.ErrAuth) || errors.Is(err, gputrain.ErrNoCapacity) || !strings.Contains(err.Error(), "the start was refused") {
			t.Errorf("%v", err)
		}
		if n := c.launches(); n != 1 {
			t.Errorf("%d machines were launched", n)
		}
		if !c.says("the start was refused") || c.says("no capacity") {
			t.Error("the events do not say what was refused")
		}
		if waited := time.Since(began); waited > time.Minute { // in virtual time
			t.Errorf("Open took %v", waited)
		}
		if live := c.Live(); len(live) > 0 {
			t.Errorf("left: %v", live)
		}
	})
}

// An error that comes with a machine that may well come up is shown by an event.
func TestMachineBesideAnError(t *testing.T) {
	inCloud(t, sim.Options{BootTime: time.Second}, func(t *testing.T, c *simCloud) {
		p, err := besides(t, c, unchanged, unchanged, gputrain.ErrUnavailable)
		if err != nil {
			t.Fatal(err)
		}
		c.pools = append(c.pools, p)
		if !c.says("the start was refused") {
			t.Error("no event says what came beside the machine")
		}
		c.end(t, p)
	})
}

// Should such a machine not come up, its node's error has it.
func TestMachineBesideAnErrorThatFails(t *testing.T) {
	inCloud(t, sim.Options{BootTime: time.Second}, func(t *testing.T, c *simCloud) {
		_, err := besides(t, c, unchanged, func(in *gputrain.Instance) { in.State = gputrain.InstanceFailed }, gputrain.ErrUnavailable)
		if err == nil || !strings.Contains(err.Error(), "the machine is failed") || !strings.Contains(err.Error(), "the start was refused") {
			t.Errorf("%v", err)
		}
		if live := c.Live(); len(live) > 0 {
			t.Errorf("left: %v", live)
		}
	})
}
