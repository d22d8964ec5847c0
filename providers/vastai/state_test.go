package vastai

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Each state of the API, and some unknown ones, become the right state.
func TestStates(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	stopped := func(in instance) instance {
		in.IntendedStatus, in.CurState, in.NextState = "stopped", "stopped", "stopped"
		return in
	}
	for name, tt := range map[string]struct {
		in   instance
		want driver.InstanceState
	}{
		"placing":                  {instance{}, driver.InstancePending},
		"created":                  {instance{ActualStatus: text("created")}, driver.InstancePending},
		"loading":                  {instance{ActualStatus: text("loading"), StatusMsg: text("Pulling fs layer")}, driver.InstancePending},
		"running":                  {instance{ActualStatus: text("running")}, driver.InstanceRunning},
		"running, old prose":       {instance{ActualStatus: text("running"), StatusMsg: text("Error: pull access denied")}, driver.InstanceRunning},
		"rebooting":                {instance{ActualStatus: text("rebooting")}, driver.InstancePending},
		"exited":                   {instance{ActualStatus: text("exited")}, driver.InstanceFailed},
		"unknown":                  {instance{ActualStatus: text("unknown")}, driver.InstanceFailed},
		"offline":                  {instance{ActualStatus: text("offline")}, driver.InstanceFailed},
		"stopped":                  {instance{ActualStatus: text("stopped")}, driver.InstanceStopped},
		"frozen":                   {instance{ActualStatus: text("frozen")}, driver.InstanceStopped},
		"credit stop":              {stopped(instance{ActualStatus: text("exited")}), driver.InstanceStopped},
		"outbid":                   {stopped(instance{ActualStatus: text("exited"), IsBid: true}), driver.InstancePreempted},
		"outbid before it ran":     {stopped(instance{IsBid: true}), driver.InstancePreempted},
		"stopped bid":              {instance{ActualStatus: text("stopped"), IsBid: true}, driver.InstancePreempted},
		"cannot be made":           {instance{ActualStatus: text("created"), StatusMsg: text("Error response from daemon: OCI runtime create failed: runc")}, driver.InstanceFailed},
		"cannot be pulled":         {instance{ActualStatus: text("loading"), StatusMsg: text("pull access denied for a/b")}, driver.InstanceFailed},
		"disk of the host is full": {instance{ActualStatus: text("loading"), StatusMsg: text("write: no space left on device")}, driver.InstanceFailed},
		"error":                    {instance{ActualStatus: text("created"), StatusMsg: text("Error: no such container")}, driver.InstanceFailed},
		"new word":                 {instance{ActualStatus: text("hibernating")}, driver.InstanceUnknown},
	} {
		state, why := stateOf(tt.in)
		if state != tt.want || why == "" {
			t.Errorf("%s: %v, %q; want %v", name, state, why, tt.want)
		}
	}
	if _, why := stateOf(instance{ActualStatus: text("hibernating")}); why != "hibernating" {
		t.Errorf("the vendor's word is lost: %q", why)
	}
}

// The host's port comes before the proxy. The port is text, the address ends in blanks,
// and both are missing until the container runs.
func TestDirectBeforeProxySSH(t *testing.T) {
	t.Parallel()
	direct := map[string][]hostPort{"22/tcp": {{"0.0.0.0", "41022"}}}
	for name, tt := range map[string]struct {
		in         instance
		directOnly bool
		want       string
	}{
		"direct":                  {instance{PublicIPAddr: "203.0.113.9 \n", Ports: direct, SSHHost: "ssh5.vast.ai", SSHPort: 15678}, false, "203.0.113.9:41022"},
		"proxy":                   {instance{PublicIPAddr: "203.0.113.9", SSHHost: "ssh5.vast.ai", SSHPort: 15678, ImageRunType: "ssh_direc ssh_proxy"}, false, "ssh5.vast.ai:15678"},
		"proxy of jupyter":        {instance{SSHHost: "ssh5.vast.ai", SSHPort: 15678, ImageRunType: "jupyter_proxy"}, false, "ssh5.vast.ai:15679"},
		"no address":              {instance{Ports: direct, SSHHost: "ssh5.vast.ai", SSHPort: 15678}, false, "ssh5.vast.ai:15678"},
		"odd port":                {instance{PublicIPAddr: "203.0.113.9", Ports: map[string][]hostPort{"22/tcp": {{"", "?"}}}, SSHHost: "ssh5.vast.ai", SSHPort: 1}, false, "ssh5.vast.ai:1"},
		"direct only":             {instance{PublicIPAddr: "203.0.113.9", Ports: direct}, true, "203.0.113.9:41022"},
		"direct only, not yet":    {instance{PublicIPAddr: "203.0.113.9", SSHHost: "ssh5.vast.ai", SSHPort: 15678}, true, ""},
		"nothing yet":             {instance{}, false, ""},
		"IPv6":                    {instance{PublicIPAddr: "2001:db8::1", Ports: direct}, false, "[2001:db8::1]:41022"},
		"another port, not SSH's": {instance{PublicIPAddr: "203.0.113.9", Ports: map[string][]hostPort{"8080/tcp": {{"", "41080"}}}}, false, ""},
	} {
		if got := sshAddr(tt.in, tt.directOnly); got != tt.want {
			t.Errorf("%s: %q; want %q", name, got, tt.want)
		}
	}
}

// isFresh has a driver take an instance as launched later, in case this computer is slow.
func isFresh(d *vastaiDriver, id string) {
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	d.p.notes[id].launched = time.Now().Add(time.Hour)
}

// A node's name is known from the start, and its endpoint and price once it runs.
func TestDescribe(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines, f.status = true, nil
	d := prepared(t, f)
	id := mustLaunch(t, d, gputrain.Spec{}, 3).ID
	isFresh(d, id)
	in := cloudtest.Describe(t, d, id)
	if in.State != driver.InstancePending || in.SSH.Addr != "" || in.Name != "p1-3" || in.Rank != 3 {
		t.Errorf("%+v", in)
	}
	f.set(id, row{"actual_status": "running", "public_ipaddr": "203.0.113.9 ", "ports": row{"22/tcp": []row{{"HostIp": "0.0.0.0", "HostPort": "41022"}}}, "dph_total": 0.77})
	other := f.open() // a driver that has launched nothing
	for _, d := range []*vastaiDriver{d, other} {
		in = cloudtest.Describe(t, d, id)
		if in.State != driver.InstanceRunning || in.SSH.Addr != "203.0.113.9:41022" || in.SSH.User != "root" || in.PublicAddr != "203.0.113.9" ||
			in.Name != "p1-3" || in.Rank != 3 || in.Offer.HourlyUSD != driver.USD(0.77) || in.Offer.InstanceType != "1x RTX 4090" ||
			in.Offer.Region != "Washington, US" || in.Offer.Accelerator.Name != "RTX4090" || in.Offer.Provider != "vastai" {
			t.Errorf("%+v", in)
		}
	}
	if in := cloudtest.Describe(t, other, "no number"); in.State != driver.InstanceTerminated {
		t.Errorf("%+v", in)
	}
}

// An instance that the list does not have is not gone right after its launch, and to the program that has made it not later either:
// it may still come.
func TestNotThereRightAfterCreateIsNotGone(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	id := mustLaunch(t, d, gputrain.Spec{}, 0).ID
	f.Do(func() { f.instances.Delete(nil, id) })
	lags := func(d *vastaiDriver, lag time.Duration) *vastaiDriver { // a fixed lag, so that a slow computer does not matter
		d.p.lag = lag
		return d
	}
	if in := cloudtest.Describe(t, lags(d, time.Hour), id); in.State != driver.InstancePending {
		t.Errorf("right after its launch: %+v", in)
	}
	if in := cloudtest.Describe(t, lags(f.open(), time.Hour), id); in.State != driver.InstanceUnknown {
		t.Errorf("to a program that has just begun: %+v", in)
	}
	if in := cloudtest.Describe(t, lags(f.open(), 0), id); in.State != driver.InstanceTerminated {
		t.Errorf("to one that has not: %+v", in)
	}
	if in := cloudtest.Describe(t, lags(d, 0), id); in.State != driver.InstancePending {
		t.Errorf("later, to the program that has made it: %+v", in)
	}
}

// A host that loads an image for too long is dead, and its machine is not offered again.
func TestLoadingForTooLongIsADeadHost(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"machine_id": 7}, row{"machine_id": 7}, row{"machine_id": 8})
	f.noMachines, f.status = true, "loading"
	d := prepared(t, f)
	id := mustLaunch(t, d, gputrain.Spec{}, 0).ID
	isFresh(d, id)
	if in := cloudtest.Describe(t, d, id); in.State != driver.InstancePending {
		t.Errorf("%+v", in)
	}
	if n := len(cloudtest.AllOffers(t, d, driver.Query{})); n != 2 {
		t.Errorf("%d offers", n)
	}
	d.p.mu.Lock()
	d.p.notes[id].launched = time.Now().Add(-2 * loadTimeout())
	d.p.mu.Unlock()
	if in := cloudtest.Describe(t, d, id); in.State != driver.InstanceFailed {
		t.Errorf("%+v", in)
	}
	if all := cloudtest.AllOffers(t, d, driver.Query{}); len(all) != 2 || all[0].ID != "1002" || all[0].Rejected != "" || all[1].Rejected != "is of a machine on which a node has failed" {
		t.Errorf("the machine is offered again: %+v", all)
	}
}

// The nodes of a pool ask one by one, and share lists.
func TestManyNodesShareAList(t *testing.T) {
	t.Parallel()
	rows := make([]row, 12)
	f := startFake(t, rows...)
	f.noMachines = true
	d := prepared(t, f)
	var ids []string
	for i := range rows {
		ids = append(ids, mustLaunch(t, d, gputrain.Spec{}, i).ID)
	}
	before := len(f.Records(opList, opShow))
	hold := make(chan struct{})
	f.Inject(fakecloud.Fault{Op: opList, Hold: hold})
	asking, errs := make(chan bool), make(chan error)
	for _, id := range ids {
		go func() {
			asking <- true
			found, err := d.Describe(t.Context(), id)
			if err == nil && found[0].State != driver.InstanceRunning {
				t.Errorf("%+v", found)
			}
			errs <- err
		}()
	}
	for range ids {
		<-asking
	}
	close(hold)
	for range ids {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := len(f.Records(opList, opShow)) - before; n >= len(ids) {
		t.Errorf("%d calls for %d nodes", n, len(ids))
	}
}

// A shared list runs on for other callers, but no longer than until the driver is
// closed.
func TestCloseGivesUpTheList(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	hold := make(chan struct{})
	defer close(hold)
	fault := f.Inject(fakecloud.Fault{Op: opList, Hold: hold, Times: -1})
	failed := make(chan error)
	go func() {
		_, err := d.Describe(t.Context(), "17")
		failed <- err
	}()
	<-fault.Reached()
	d.Close()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A host that cannot start a container has failed, and is avoided from then on: that is no lack of room.
func TestFailedStartIsTheHosts(t *testing.T) {
	p := &provider{notes: map[string]*note{}, broken: map[int64]bool{}}
	text := func(s string) *string { return &s }
	for message, want := range map[string]error{
		"Error response from daemon: OCI runtime create failed: runc": driver.ErrUnavailable, "write: no space left on device": driver.ErrUnavailable,
		"pull access denied for a/b": nil,
	} {
		m := p.machine(instance{ID: 7, ActualStatus: text("created"), StatusMsg: text(message)})
		if m.State != driver.InstanceFailed || m.FailureKind != want || !strings.Contains(m.StateReason, message) {
			t.Errorf("%s: %v, %v, %q", message, m.State, m.FailureKind, m.StateReason)
		}
	}
}
