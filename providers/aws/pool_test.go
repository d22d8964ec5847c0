//go:build unix

package aws

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func openPool(t *testing.T, f *fake, spec gputrain.Spec) *gputrain.Compute {
	t.Helper()
	pool, err := gputrain.Open(t.Context(), standard.Reached(f.config()), spec, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return pool
}

func closeToNothing(t *testing.T, f *fake, pool *gputrain.Compute) {
	t.Helper()
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) > 0 {
		t.Errorf("left: %v", live)
	}
}

// A node without spot capacity is launched on demand, with its own client token, at the
// on-demand price.
func TestSpotFallsBackToOnDemand(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.spotRoom = 1
	pool := openPool(t, f, gputrain.Spec{Nodes: 2, VCPUs: 2, MemoryGiB: 4, Allocation: driver.SpotIfAvailable})
	cloudtest.Use(t, pool)
	f.Do(func() {
		spot := 0
		for _, r := range f.instances.All(nil) {
			if r.row["InstanceLifecycle"] == "spot" {
				spot++
			}
		}
		if spot != 1 || len(f.instances.All(nil)) != 2 {
			t.Errorf("%d machines on spot", spot)
		}
	})
	nodes := pool.Nodes()
	a, _ := nodes[0].HourlyUSD.USD()
	b, _ := nodes[1].HourlyUSD.USD()
	if extra := 100*diskUSD + addressUSD; !near(min(a, b), 0.0125+extra) || !near(max(a, b), 0.0416+extra) {
		t.Errorf("%v and %v", a, b)
	}
	closeToNothing(t, f, pool)
}

// A node that EC2 takes back is replaced.
func TestPreemptedNodeIsReplaced(t *testing.T) {
	standard.Replaced(t, gputrain.Spec{Allocation: driver.Spot}, func(f *fake, id string) {
		f.Do(func() {
			r, _ := f.instances.Get(nil, id)
			f.end(r, "Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Instance terminated by Spot Service")
		})
	})
}

// A machine that shuts itself down, as it does when its lease ends, is terminated.
func TestSelfDestruct(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	pool := openPool(t, f, gputrain.Spec{MaxReplacements: -1})
	id := pool.Nodes()[0].ID
	r := f.rental(id)
	bin := strings.TrimSuffix(r.machine.Home, "home") + "bin"
	cmd := exec.CommandContext(t.Context(), "sh", "-c", (&awsDriver{}).Scripts(driver.Instance{}).SelfDestruct)
	cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "FAKECLOUD_MACHINE=" + strings.TrimSuffix(r.machine.Home, "home")} // with a slash it is none of the machine's processes
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	select {
	case <-r.machine.Down():
	case <-time.After(eventTimeout):
		t.Fatal("it does not shut down")
	}
	f.Do(func() {
		if s := f.state(r); s != "shutting-down" && s != "terminated" {
			t.Errorf("it is %s", s)
		}
	})
	closeToNothing(t, f, pool)
}

// A pool that finds no capacity leaves nothing.
func TestPoolWithoutRoom(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.room = 1
	_, err := gputrain.Open(t.Context(), standard.Reached(f.config()), gputrain.Spec{Nodes: 2, MaxReplacements: -1}, gputrain.WithStateDir(t.TempDir()))
	if !errors.Is(err, driver.ErrNoCapacity) {
		t.Errorf("%v", err)
	}
	if live := f.live(); len(live) > 0 {
		t.Errorf("left: %v", live)
	}
}

// If a program dies between a create and its answer, Reap finds the machine and the
// launch template by their tags.
func TestListFindsWhatACrashLeaves(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	o := offer(t, d, a10g, "g5.xlarge")
	fault := f.Inject(fakecloud.Fault{Op: "DeleteLaunchTemplate", Times: -1, Cut: true})
	mustLaunch(t, d, request(a10g, o, 1))
	fault.Remove()
	other := f.open()
	list, err := other.List(t.Context(), "")
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, r := range list {
		if r.Pool != "p1" || r.Owner != "host.12ab34cd/1/2" || r.Lease != time.Minute || r.Region != "us-east-1" {
			t.Errorf("%+v", r)
		}
		if r.Kind == kindMachine {
			if err := other.Terminate(t.Context(), r.ID); err != nil {
				t.Error(err)
			}
		}
	}
	if err := other.Release(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}

// After Attach from another network, the security group lets that network in.
func TestAttachFromElsewhere(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	state := gputrain.WithStateDir(t.TempDir())
	first, err := gputrain.Open(t.Context(), standard.Reached(f.config()), gputrain.Spec{Nodes: 2}, gputrain.WithName("train"), state)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	elsewhere := f.config()
	elsewhere.AddressURL = f.URL + "/address"
	pool, err := gputrain.Attach(t.Context(), standard.Reached(elsewhere), "train", state, gputrain.WithTakeover())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	cloudtest.Use(t, pool)
	f.Do(func() {
		if rules := fmt.Sprint(f.groups.All(nil)[0].permissions); !strings.Contains(rules, "192.0.2.7/32") {
			t.Errorf("%s", rules)
		}
	})
	closeToNothing(t, f, pool)
}

// Reap ends what another computer's program left, once its lease is certainly over.
func TestReap(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f, func(c *Config) { c.ImportKeyPair = true })
	ids := mustLaunch(t, d, request(a10g, offer(t, d, a10g, "g5.xlarge"), 2))
	f.foreign()
	state, cfg := gputrain.StateDir(t.TempDir()), f.config()
	if ended, err := state.Reap(t.Context(), cfg); err != nil || len(ended) != 0 {
		t.Errorf("its program may live: %+v, %v", ended, err)
	}
	f.Do(func() {
		for _, in := range ids {
			f.rentalRow(in.ID)["LaunchTime"] = time.Now().Add(-3 * time.Hour).UTC().Format(time.RFC3339)
		}
	})
	if err := d.MarkLease(t.Context(), cloudtest.Info("p1"), time.Now().Add(-time.Hour), ids[0].ID, ids[1].ID); err != nil {
		t.Error(err)
	}
	ended, err := state.Reap(t.Context(), cfg)
	if err != nil || len(ended) != 4 {
		t.Errorf("%+v, %v", ended, err)
	}
	for _, r := range f.account() {
		if r.Pool != "" || strings.HasSuffix(r.Name, "-p1") || strings.HasPrefix(r.Name, "p1-") {
			t.Errorf("left: %+v", r)
		}
	}
	if live := f.live(); len(live) != 9 {
		t.Errorf("other users' things: %v", live)
	}
}
