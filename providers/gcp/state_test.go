package gcp

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A machine is running only once it has an address and its host key is published.
func TestRunningIsWhatCanBeReached(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noAddress, f.silent = true, true
	d := f.open()
	in := mustLaunch(t, d, oneL4, 0)
	if s := cloudtest.Describe(t, d, in.ID); s.State != driver.InstancePending || !strings.Contains(s.StateReason, "address") {
		t.Errorf("RUNNING without natIP: %+v", s)
	}
	var machine *fakecloud.Machine
	f.Do(func() {
		v, _ := f.instances.Get(nil, in.ID)
		machine = v.machine
	})
	f.set(in.ID, row{"networkInterfaces": []row{{"networkIP": "10.128.0.2", "accessConfigs": []row{{"natIP": machine.PublicIP}}}}})
	if s := cloudtest.Describe(t, d, in.ID); s.State != driver.InstancePending || !strings.Contains(s.StateReason, "host key") || s.SSH.Addr != "" {
		t.Errorf("guest attributes are 404: %+v", s)
	}
	if s := cloudtest.Describe(t, f.open(func(c *Config) { c.TrustFirstContact, c.SSHPort, c.SSHUser = true, 2222, "me" }), in.ID); s.State != driver.InstanceRunning || s.SSH.Addr != machine.PublicIP+":2222" || s.SSH.User != "me" || s.SSH.HostKeys != nil {
		t.Errorf("with TrustFirstContact: %+v", s)
	}
	f.Do(func() { f.silent = false })
	s := cloudtest.Describe(t, d, in.ID)
	if s.State != driver.InstanceRunning || s.SSH.Addr != machine.PublicIP+":22" || s.SSH.User != "gputrain" || s.PrivateAddr != "10.128.0.2" || len(s.SSH.HostKeys) != 1 || !strings.HasPrefix(machine.HostKey, s.SSH.HostKeys[0]) {
		t.Errorf("with all of it: %+v; its key is %s", s, machine.HostKey)
	}
	asked := len(f.Records(opKeys))
	cloudtest.Describe(t, d, in.ID)
	if n := len(f.Records(opKeys)); n != asked {
		t.Error("a known host key is requested again")
	}
	if s := cloudtest.Describe(t, f.open(func(c *Config) { c.PrivateIP = true }), in.ID); s.SSH.Addr != "10.128.0.2:22" {
		t.Errorf("with PrivateIP: %+v", s)
	}
}

func TestGuestAttributesAreForbidden(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	in := mustLaunch(t, d, oneL4, 0)
	f.Inject(fakecloud.Fault{Op: opKeys, Answer: fakecloud.GoogleError(412, "conditionNotMet", "Constraint constraints/compute.disableGuestAttributesAccess violated"), Times: -1})
	_, err := d.Describe(t.Context(), in.ID)
	is(t, err, driver.ErrUnsupported, "describe")
	if !strings.Contains(err.Error(), "TrustFirstContact") || !strings.Contains(err.Error(), "disableGuestAttributesAccess") {
		t.Error(err)
	}
}

// Another program describes a machine with the offer and price at which it was rented.
func TestDescribeByAnother(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	spec := gputrain.Spec{Accelerator: accelerators.T4(accelerators.Count(2)), Allocation: driver.OnDemand}
	f.skus = append(f.skus, extraSKUs()...)
	o := cloudtest.AllOffers(t, d, spec.Query())[0]
	got, err := d.Launch(t.Context(), request(spec, o, 4))
	o.Warnings, o.EgressUSD = nil, 0 // those are for the choice
	if err != nil {
		t.Fatal(err)
	}
	if s := cloudtest.Describe(t, f.open(), got[0].ID); !reflect.DeepEqual(s.Offer, o) || s.Rank != 4 || s.Name != "p1-4" {
		t.Errorf("%+v\nwant the offer %+v", s, o)
	}
}

func TestPreemption(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	spot := gputrain.Spec{Accelerator: accelerators.L4(), Allocation: driver.Spot}
	d := f.open()
	taken, stopping, deleted := mustLaunch(t, d, spot, 0).ID, mustLaunch(t, d, spot, 1).ID, mustLaunch(t, d, spot, 2).ID
	another := f.open()
	cloudtest.Describe(t, another, taken)
	f.preempt(taken)
	for _, d := range []*gcpDriver{d, another} {
		if s := cloudtest.Describe(t, d, taken); s.State != driver.InstancePreempted || !strings.Contains(s.StateReason, "systemevent-1") {
			t.Errorf("a spot machine that was taken back: %+v", s)
		}
		if err := d.Terminate(t.Context(), taken); err != nil {
			t.Error(err)
		}
		if s := cloudtest.Describe(t, d, taken); s.State != driver.InstanceTerminated {
			t.Errorf("and ended: %+v", s)
		}
	}
	f.set(stopping, row{"status": "STOPPING"})
	if s := cloudtest.Describe(t, d, stopping); s.State != driver.InstanceStopped {
		t.Errorf("an instance that was stopped from within: %+v", s)
	}
	f.Do(func() {
		f.preempted = append(f.preempted, row{"kind": "compute#operation", "name": "systemevent-2", "targetLink": "https://x/zones/" + testZone + "/instances/p1-1"})
	})
	if s := cloudtest.Describe(t, d, stopping); s.State != driver.InstancePreempted {
		t.Errorf("an instance that is being preempted: %+v", s)
	}
	f.Do(func() { f.end(nil, deleted) })
	if s := cloudtest.Describe(t, d, deleted); s.State != driver.InstancePending {
		t.Errorf("an instance that was made, and that no answer has shown: %+v", s)
	}
	if s := cloudtest.Describe(t, another, deleted); s.State != driver.InstanceTerminated {
		t.Errorf("a deleted instance: %+v", s)
	}
	f.Inject(fakecloud.Fault{Op: opZoneOps, Answer: fakecloud.GoogleError(403, "forbidden", "no"), Times: -1})
	if s := cloudtest.Describe(t, f.open(), deleted); s.State != driver.InstanceTerminated {
		t.Errorf("where operations may not be listed: %+v", s)
	}
}

// If a preempted instance is not found when it is to be deleted, it is gone, though it
// is still listed.
func TestPreemptedInstanceThatIsNotFound(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	in := mustLaunch(t, d, gputrain.Spec{Accelerator: accelerators.L4(), Allocation: driver.Spot}, 0)
	f.set(in.ID, row{"status": "TERMINATED"})
	f.Do(func() {
		f.preempted = append(f.preempted, row{"kind": "compute#operation", "name": "systemevent-3", "targetLink": "https://x/zones/" + testZone + "/instances/p1-0"})
	})
	f.Inject(fakecloud.Fault{Op: opDelete, Missing: true, Times: -1})
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstancePreempted {
		t.Errorf("before its end it is %v: %s", now.State, now.StateReason)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceTerminated {
		t.Errorf("it is %v: %s", now.State, now.StateReason)
	}
	if listed, err := d.List(t.Context(), "p1"); err != nil || len(listed) != 0 {
		t.Errorf("%+v, %v", listed, err)
	}
}

// If the answer to a rule's insert is lost and the rule does not exist, the outcome is
// unknown: the error is not ErrNotFound. The next Prepare makes the rule.
func TestRuleWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	for name, fault := range map[string]fakecloud.Fault{
		"cut": {Cut: true}, "a page": {Answer: fakecloud.HTML()}, "empty": {Answer: fakecloud.Empty()}, "failed": {Answer: fakecloud.GoogleError(500, "internalError", "oops")},
	} {
		fault.Op, fault.Times = opAddRule, -1
		lost := f.Inject(fault)
		err := d.Prepare(t.Context(), info("p1"))
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		lost.Remove()
		if err := d.Prepare(t.Context(), info("p1")); err != nil {
			t.Errorf("%s, and again: %v", name, err)
		}
		if err := d.Release(t.Context(), info("p1")); err != nil {
			t.Error(err)
		}
	}
}

// An instance made between the look for it and the look for its operation is not gone.
func TestMadeWhileItWasLookedFor(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noMachines, f.status = true, "STAGING"
	d := f.open()
	f.Inject(fakecloud.Fault{Op: opZoneOp, Answer: fakecloud.GoogleError(403, "forbidden", "no")}) // so that Launch does not wait
	in := mustLaunch(t, d, oneL4, 0)
	f.Inject(fakecloud.Fault{Op: opGet, Answer: notFound("instances/p1-0"), Times: 2})
	f.Inject(fakecloud.Fault{Op: opZoneOp, Answer: notFound("operations/operation-1")})
	d.instances.note(in.ID, func(n *node) { n.launched = time.Now().Add(time.Hour) })
	if s := cloudtest.Describe(t, d, in.ID); s.State != driver.InstancePending {
		t.Errorf("neither it nor its operation are known yet: %+v", s)
	}
	d.instances.note(in.ID, func(n *node) { n.launched = time.Now().Add(-time.Hour) })
	if s := cloudtest.Describe(t, d, in.ID); s.State != driver.InstancePending {
		t.Errorf("it was not there when its operation was not done: %+v", s)
	}
	f.Do(func() { f.end(nil, in.ID) })
	for until := time.Now().Add(time.Minute); ; time.Sleep(createLag() / 10) {
		if s := cloudtest.Describe(t, d, in.ID); s.State == driver.InstanceTerminated {
			break
		} else if time.Now().After(until) {
			t.Fatalf("a deleted instance: %+v", s)
		}
	}
}

// If a user edits a machine's metadata, its price does not change.
func TestTagThatIsGone(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noMachines = true
	d := f.open()
	in := mustLaunch(t, d, oneL4, 0)
	f.set(in.ID, row{"metadata": row{"items": []row{}}})
	if s := cloudtest.Describe(t, d, in.ID); !reflect.DeepEqual(s.Offer, in.Offer) {
		t.Errorf("%+v\nwant the offer %+v", s, in.Offer)
	}
}

// Google's TERMINATED means stopped: the disk still exists and is billed.
func TestStoppedIsNotGone(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	in := mustLaunch(t, d, oneL4, 0)
	f.set(in.ID, row{"status": "TERMINATED"})
	if s := cloudtest.Describe(t, d, in.ID); s.State != driver.InstanceStopped {
		t.Errorf("%+v", s)
	}
	if list, err := d.List(t.Context(), "p1"); err != nil || len(list) != 1 || list[0].State != driver.InstanceStopped {
		t.Errorf("%+v, %v", list, err)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil || len(f.live()) != 0 {
		t.Errorf("%v; there is %v", err, f.live())
	}
}

// A 404 about something else does not mean that the machine is gone.
func TestNotEveryNotFoundIsGone(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	in := mustLaunch(t, d, oneL4, 0)
	for name, answer := range map[string]fakecloud.Answer{
		"proxy":      fakecloud.Reply(404, "<html>no such host</html>"),
		"gateway":    fakecloud.Reply(404, row{"error": row{"code": 404, "message": "no route matched with those values"}}),
		"project":    fakecloud.GoogleError(404, "notFound", "The resource 'projects/nobody' was not found"),
		"no project": fakecloud.GoogleError(404, "notFound", "Failed to find project nobody"),
	} {
		fault := f.Inject(fakecloud.Fault{Answer: answer, Times: -1})
		if s, err := d.Describe(t.Context(), in.ID); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
		if err := d.Terminate(t.Context(), in.ID); err == nil {
			t.Errorf("%s: Terminate is a success", name)
		}
		if err := d.Release(t.Context(), info("p1")); err == nil {
			t.Errorf("%s: Release is a success", name)
		}
		fault.Remove()
	}
	if err := d.Terminate(t.Context(), "no-zone", "us-central1-a/Nobody"); err != nil {
		t.Errorf("IDs that nothing can have: %v", err)
	}
}

// Right after an insert without an answer, a 404 does not mean that the instance is gone.
func TestNotThereYet(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noMachines = true
	d := f.open()
	o := cloudtest.AllOffers(t, d, oneL4.Query())[0]
	f.Inject(fakecloud.Fault{Op: opInsert, Cut: true, Times: -1})
	_, err := d.Launch(t.Context(), request(oneL4, o, 0))
	is(t, err, driver.ErrUnavailable, "launch")
	id := testZone + "/p1-0"
	if err := d.Terminate(t.Context(), id); err != nil {
		t.Error(err)
	}
	d.instances.note(id, func(n *node) { n.launched = time.Now().Add(time.Hour) }) // in case this computer is slow
	if s := cloudtest.Describe(t, d, id); s.State != driver.InstancePending {
		t.Errorf("%+v", s)
	}
	d.instances.note(id, func(n *node) { n.launched = time.Now().Add(-createLag()) })
	if s := cloudtest.Describe(t, d, id); s.State != driver.InstanceTerminated {
		t.Errorf("%+v", s)
	}
}
