package cloud_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

func TestLaunchDescribeTerminate(t *testing.T) {
	for name, opts := range map[string]cloud.Options{"by itself": {}, "by the list": {ByList: true}} {
		t.Run(name, func(t *testing.T) {
			m := &memory{caps: injecting(0)}
			d := open(t, m, opts)
			req := request(t, 3)
			got, err := d.Launch(t.Context(), req)
			if err != nil || len(got) != 3 {
				t.Fatalf("%+v, %v", got, err)
			}
			for rank, in := range got {
				if in.Rank != rank || in.Name != req.Nodes[rank].Name || in.State != driver.InstancePending || !reflect.DeepEqual(in.Offer, req.Offer) {
					t.Errorf("%+v", in)
				}
			}
			in := cloudtest.Describe(t, d, got[1].ID)
			key, _, _ := strings.Cut(req.Nodes[1].HostKey.Public, "\n")
			if in.Name != "p1-1" || in.Rank != 1 || in.State != driver.InstanceRunning || in.Offer.HourlyUSD != driver.USD(2) ||
				in.Offer.Provider != "acme" || len(in.SSH.HostKeys) != 1 || !strings.HasPrefix(key, in.SSH.HostKeys[0]) {
				t.Errorf("%+v", in)
			}
			// Another driver knows the host key from the tag, and no offer but the cloud's report.
			other := open(t, m, opts)
			if theirs := cloudtest.Describe(t, other, got[1].ID); theirs.Name != "p1-1" || theirs.SSH.HostKeys[0] != in.SSH.HostKeys[0] || theirs.Offer.InstanceType != "" {
				t.Errorf("%+v", theirs)
			}
			if err := d.Terminate(t.Context(), got[0].ID, got[0].ID, "never"); err != nil {
				t.Error(err)
			}
			all, err := d.Describe(t.Context(), got[0].ID, got[2].ID)
			if err != nil || all[0].State != driver.InstanceTerminated || all[0].Name != "p1-0" || all[1].State != driver.InstanceRunning {
				t.Errorf("%+v, %v", all, err)
			}
			m.err = errors.New("odd")
			if err := d.Terminate(t.Context(), got[2].ID); err == nil || !strings.Contains(err.Error(), got[2].ID) {
				t.Errorf("an end that fails: %v", err)
			}
			if all, err := d.Describe(t.Context(), got[2].ID); err == nil {
				t.Errorf("a read that fails: %+v", all)
			}
		})
	}
}

// A machine whose create answer is lost is found by its name and adopted. No create is repeated.
func TestLaunchIsSettledByTheList(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &memory{caps: injecting(10 * cloud.Second), hidden: 2, create: func(int) (bool, error) { return true, errLost }}
		got, err := open(t, m, cloud.Options{}).Launch(t.Context(), request(t, 1))
		if err != nil || len(got) != 1 || got[0].ID != "m1" || m.creates != 1 {
			t.Errorf("%+v, %v; %d creates", got, err, m.creates)
		}

		m = &memory{caps: injecting(cloud.Second), create: func(int) (bool, error) { return false, errLost }}
		got, err = open(t, m, cloud.Options{}).Launch(t.Context(), request(t, 1))
		if len(got) != 0 || m.creates != 1 || !errors.Is(err, errLost) {
			t.Errorf("nothing was made: %+v, %v; %d creates", got, err, m.creates)
		}
		cloudtest.Is(t, err, driver.ErrUnavailable, "acme", "launch")

		m = &memory{caps: injecting(0), create: func(int) (bool, error) { return true, errLost }}
		req := request(t, 1)
		m.machines = []cloud.Machine{{Instance: driver.Instance{ID: "other"}, Tag: pooltag.Tag{Pool: "p2", Name: "p1-0"}}, {
			Instance: driver.Instance{ID: "ended", State: driver.InstanceTerminated}, Tag: pooltag.Tag{Pool: "p1", Name: "p1-0"}}}
		if got, err := open(t, m, cloud.Options{}).Launch(t.Context(), req); err != nil || len(got) != 1 || got[0].ID != "m1" {
			t.Errorf("among others: %+v, %v", got, err)
		}
	})
}

// A caller that cancels learns at once of a machine that was made.
func TestLaunchThatIsGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := &memory{caps: injecting(time.Hour), create: func(int) (bool, error) {
		cancel()
		return true, errLost
	}}
	got, err := open(t, m, cloud.Options{}).Launch(ctx, request(t, 1))
	if len(got) != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := open(t, m, cloud.Options{}).Launch(ctx, request(t, 1)); len(got) != 0 || !errors.Is(err, context.Canceled) || m.creates != 1 {
		t.Errorf("%+v, %v; %d creates", got, err, m.creates)
	}
}

func TestPartialLaunch(t *testing.T) {
	m := &memory{caps: injecting(0), create: func(n int) (bool, error) {
		if n == 2 {
			return false, errSoldOut
		}
		return true, nil
	}}
	got, err := open(t, m, cloud.Options{AtOnce: 1}).Launch(t.Context(), request(t, 3))
	if len(got) != 1 || got[0].Rank != 0 || m.creates != 2 {
		t.Errorf("%+v; %d creates", got, m.creates)
	}
	cloudtest.Is(t, err, driver.ErrNoCapacity, "acme", "launch")

	// A machine that exists in spite of an error is returned with the error.
	m = &memory{caps: injecting(0), create: func(int) (bool, error) { return true, errSoldOut }}
	if got, err := open(t, m, cloud.Options{}).Launch(t.Context(), request(t, 1)); len(got) != 1 || !errors.Is(err, driver.ErrNoCapacity) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestOrdersThatAreRefused(t *testing.T) {
	for name, change := range map[string]func(*driver.Launch){
		"a pool":             func(r *driver.Launch) { r.Pool.ID = "P 1" },
		"no key":             func(r *driver.Launch) { r.Pool.AuthorizedKey = "" },
		"two keys":           func(r *driver.Launch) { r.Pool.AuthorizedKey += "\n" + cloudtest.PoolKey },
		"another pool":       func(r *driver.Launch) { r.Nodes[0].Name = "p2-0" },
		"no name":            func(r *driver.Launch) { r.Nodes[0].Name = "p1" },
		"no host key":        func(r *driver.Launch) { r.Nodes[0].HostKey.Private = "" },
		"no public host key": func(r *driver.Launch) { r.Nodes[0].HostKey.Public = " " },
	} {
		m := &memory{caps: injecting(0)}
		req := request(t, 1)
		change(&req)
		got, err := open(t, m, cloud.Options{}).Launch(t.Context(), req)
		if !errors.Is(err, driver.ErrInvalid) || len(got) != 0 || m.creates != 0 {
			t.Errorf("%s: %+v, %v; %d creates", name, got, err, m.creates)
		}
	}
}

// A machine that the cloud does not know may be too new, or just launched by another program.
func TestTooNewIsNotGone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lag := 500 * time.Millisecond
		m := &memory{caps: injecting(lag)}
		d := open(t, m, cloud.Options{})
		opened := time.Now()
		got, err := d.Launch(t.Context(), request(t, 2))
		if err != nil {
			t.Fatal(err)
		}
		m.hidden = 2
		if in := cloudtest.Describe(t, d, got[0].ID); in.State != driver.InstancePending || in.Name != "p1-0" {
			t.Errorf("just launched: %+v", in)
		}
		if in := cloudtest.Describe(t, d, "theirs"); in.State != driver.InstanceUnknown || in.StateReason == "" {
			t.Errorf("another's, just opened: %+v", in)
		}
		if err := d.Terminate(t.Context(), got[1].ID); err != nil {
			t.Error(err)
		}
		if in := cloudtest.Describe(t, d, got[1].ID); in.State != driver.InstanceTerminated {
			t.Errorf("ended: %+v", in)
		}
		time.Sleep(time.Until(opened.Add(lag + 50*time.Millisecond)))
		m.hidden = 3
		for id, want := range map[string]driver.InstanceState{got[0].ID: driver.InstancePending, "theirs": driver.InstanceTerminated} {
			if in := cloudtest.Describe(t, d, id); in.State != want {
				t.Errorf("after the lag: %+v", in)
			}
		}
		time.Sleep(driver.DefaultProvisionTimeout)
		if in := cloudtest.Describe(t, d, got[0].ID); in.State != driver.InstanceTerminated {
			t.Errorf("never shown: %+v", in)
		}
	})
}

func TestList(t *testing.T) {
	m := &memory{caps: injecting(0), shared: []driver.Resource{{Kind: "key", ID: "k1", Pool: "p1"}, {Kind: "key", ID: "k2", Pool: "p2"}}}
	d := open(t, m, cloud.Options{})
	if _, err := d.Launch(t.Context(), request(t, 1)); err != nil {
		t.Fatal(err)
	}
	m.machines = append(m.machines, cloud.Machine{Instance: driver.Instance{ID: "theirs"}},
		cloud.Machine{Instance: driver.Instance{ID: "p2's"}, Tag: pooltag.Tag{Pool: "p2", Name: "p2-0"}},
		cloud.Machine{Instance: driver.Instance{ID: "gone", State: driver.InstanceTerminated}, Tag: pooltag.Tag{Pool: "p1"}})
	for pool, want := range map[string]string{"p1": "m1 k1", "p2": "p2's k2", "": "m1 p2's k1 k2", "p": ""} {
		all, err := d.List(t.Context(), pool)
		var ids []string
		for _, r := range all {
			ids = append(ids, r.ID)
			if r.Provider != "acme" || r.Kind == "machine" && r.ID == "m1" && (r.Name != "p1-0" || r.HourlyUSD != driver.USD(2) || r.Lease != time.Minute || r.Owner == "") {
				t.Errorf("%+v", r)
			}
		}
		if got := strings.Join(ids, " "); got != want || err != nil {
			t.Errorf("of %q: %s, %v", pool, got, err)
		}
	}
	m.err = errors.New("odd")
	if all, err := d.List(t.Context(), "p1"); err == nil || all != nil {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := d.List(t.Context(), "P1"); !errors.Is(err, driver.ErrInvalid) {
		t.Error(err)
	}
}

func TestDriverPassesOn(t *testing.T) {
	m := &memory{caps: injecting(0)}
	d := cloud.New("acme", m, cloud.Options{})
	var all []driver.Offer
	for o, err := range d.Offers(t.Context(), driver.Query{}) {
		if err != nil {
			cloudtest.Is(t, err, driver.ErrNoCapacity, "acme", "offers")
			break
		}
		all = append(all, o)
	}
	if len(all) != 1 || all[0].Provider != "acme" {
		t.Errorf("%+v", all)
	}
	bad := cloudtest.Info("p1")
	bad.ID = "P1"
	noKey := cloudtest.Info("p1")
	noKey.AuthorizedKey = "none"
	for name, err := range map[string]error{"prepare": d.Prepare(t.Context(), bad), "release": d.Release(t.Context(), bad)} {
		cloudtest.Is(t, err, driver.ErrInvalid, "acme", name)
	}
	cloudtest.Is(t, d.Prepare(t.Context(), noKey), driver.ErrInvalid, "acme", "prepare")
	if err := errors.Join(d.Prepare(t.Context(), cloudtest.Info("p1")), d.Release(t.Context(), cloudtest.Info("p1")), d.Close()); err != nil || !m.closed {
		t.Errorf("%v; closed: %v", err, m.closed)
	}
}

// A preempted or failed machine that an end does not find is gone once it is older than
// the lag, even if lists show it. A machine in any other state is as lists show it.
func TestEndThatFindsNothing(t *testing.T) {
	const lag = 10 * time.Second
	for state, want := range map[driver.InstanceState]driver.InstanceState{
		driver.InstancePreempted: driver.InstanceTerminated, driver.InstanceFailed: driver.InstanceTerminated,
		driver.InstanceRunning: driver.InstanceRunning, driver.InstancePending: driver.InstancePending,
		driver.InstanceStopped: driver.InstanceStopped, driver.InstanceUnknown: driver.InstanceUnknown,
	} {
		for name, opts := range map[string]cloud.Options{"by itself": {}, "by the list": {ByList: true}} {
			t.Run(state.String()+" "+name, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					m := &memory{caps: injecting(lag)}
					d := open(t, m, opts)
					got, err := d.Launch(t.Context(), request(t, 1))
					in := cloudtest.One(t, got, err)
					m.machines[0].State = state
					time.Sleep(lag)
					if now := cloudtest.Describe(t, d, in.ID); now.State != state {
						t.Errorf("before it was to be ended it is %v", now.State)
					}
					m.shown = true
					if err := d.Terminate(t.Context(), in.ID); err != nil {
						t.Error(err)
					}
					now := cloudtest.Describe(t, d, in.ID)
					if now.State != want || want != state && !strings.Contains(now.StateReason, "nothing there to end") {
						t.Errorf("it is %v: %s; want %v", now.State, now.StateReason, want)
					}
					listed, err := d.List(t.Context(), "p1")
					if err != nil || (len(listed) == 0) != (want == driver.InstanceTerminated) {
						t.Errorf("List has %+v, %v", listed, err)
					}
					// A driver that was just opened does not know how old the machine is.
					other := open(t, m, opts)
					if err := other.Terminate(t.Context(), in.ID); err != nil {
						t.Error(err)
					}
					if now := cloudtest.Describe(t, other, in.ID); now.State != state {
						t.Errorf("to another program it is %v at once", now.State)
					}
					time.Sleep(lag)
					if now := cloudtest.Describe(t, other, in.ID); now.State != want {
						t.Errorf("to another program it is %v; want %v", now.State, want)
					}
				})
			})
		}
	}
}
