package hyperstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

var h100 = gputrain.Spec{Accelerator: accelerators.H100()}

// created returns the body of the last create, as text and decoded.
func (f *fake) created() (sent string, in createMachine) {
	records := f.Records(opCreate)
	sent = records[len(records)-1].Body
	if err := json.Unmarshal([]byte(sent), &in); err != nil {
		f.t.Error(err)
	}
	return sent, in
}

func TestPortRandomizationIsOffAndSSHIsOpen(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, h100.Query(), 0)
	sent, asked := f.created()
	if !strings.Contains(sent, `"enable_port_randomization":false`) || !asked.AssignFloatingIP || asked.Count != 1 {
		t.Errorf("%s", sent)
	}
	want := []rule{
		{Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", RemoteIPPrefix: "0.0.0.0/0", PortRangeMin: 22, PortRangeMax: 22},
		{Direction: "ingress", EtherType: "IPv4", Protocol: "any", RemoteIPPrefix: "10.0.0.0/16"},
	}
	if fmt.Sprint(asked.SecurityRules) != fmt.Sprint(want) {
		t.Errorf("%+v; want %+v", asked.SecurityRules, want)
	}
	if got := d.Capabilities().Ports; got != driver.PortsOfNetwork {
		t.Errorf("the environment's other machines are let in, and the internet is not: %v", got)
	}
	if strings.Contains(sent, testKey) {
		t.Error("the account's key is on the machine")
	}
	if now := cloudtest.Describe(t, d, in.ID); !strings.HasSuffix(now.SSH.Addr, ":22") || now.SSH.User != "ubuntu" || !strings.HasPrefix(now.PrivateAddr, "10.0.1.") {
		t.Errorf("%+v", now)
	}
}

// If the API does not report the environment's network, nothing is opened to it, and no
// private address is reported.
func TestUnknownSubnet(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.cidr = ""
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, h100.Query(), 0)
	if _, asked := f.created(); len(asked.SecurityRules) != 1 {
		t.Errorf("%+v", asked.SecurityRules)
	}
	if now := cloudtest.Describe(t, d, in.ID); now.PrivateAddr != "" {
		t.Errorf("%+v", now)
	}
	f.Do(func() { f.cidr = "10.0.0.0/16" })
	cloudtest.MustLaunch(t, d, h100.Query(), 1)
	if _, asked := f.created(); len(asked.SecurityRules) != 2 {
		t.Errorf("the environment's addresses are known by now: %+v", asked.SecurityRules)
	}
}

func TestAddressComesLaterThanActive(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noAddress = true
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, h100.Query(), 0)
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstancePending || now.SSH.Addr != "" {
		t.Errorf("%+v", now)
	}
	f.set(in.ID, row{"floating_ip": "198.18.0.1"})
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceRunning || now.SSH.Addr != "198.18.0.1:22" {
		t.Errorf("%+v", now)
	}
}

func TestErrorIsExplainedByEvents(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, h100.Query(), 0)
	f.set(in.ID, row{"status": "ERROR"})
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceFailed || now.StateReason != "ERROR: scheduler No valid host was found" {
		t.Errorf("%+v", now)
	}
}

func TestFailureUnderAGoodStatus(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	f.Inject(fakecloud.Fault{Op: opCreate, Answer: fakecloud.Reply(200, row{"status": false, "message": "Flavor n3-H100x1 is out of stock"})})
	_, err := cloudtest.Launch(t, d, h100.Query(), 0)
	cloudtest.Is(t, err, driver.ErrNoCapacity, providerName, "launch", testKey)
}

// Another client, skyward, reads "virtual_machines" and always gets an empty list. Here a list
// without its field is an error.
func TestListWithoutItsFieldIsNotEmpty(t *testing.T) {
	t.Parallel()
	for op, answer := range map[string]any{
		opMachines: row{"status": true, "virtual_machines": []row{}}, opEnvs: row{"status": true}, opKeys: row{"keypairs": nil},
	} {
		f := startFake(t)
		d := cloudtest.Open(t, f.config())
		f.Inject(fakecloud.Fault{Op: op, Answer: fakecloud.Reply(200, answer), Times: -1})
		_, err := d.List(t.Context(), "")
		cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "list", testKey)
	}
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for _, answer := range []any{row{"instances": []row{{"name": "x"}}}, row{"instances": []row{{"id": 7}}, "count": 2}} {
		f.Inject(fakecloud.Fault{Op: opMachines, Answer: fakecloud.Reply(200, answer), Times: 2})
		if _, err := d.List(t.Context(), ""); err == nil {
			t.Errorf("%v is a list", answer)
		}
		f = startFake(t)
		d = cloudtest.Open(t, f.config())
	}
}

func TestAnotherMachineThanAskedFor(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	f.Inject(fakecloud.Fault{Op: opMachine, Answer: fakecloud.Reply(200, row{"instance": row{"id": 8, "status": "ACTIVE"}})})
	_, err := d.Describe(t.Context(), "7")
	cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "describe", testKey)
}

// A list is read to its end even if its pages are smaller than requested.
func TestPagesThatAreSmallerThanAskedFor(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Do(func() {
		f.mostPageSize = 3
		for i := range 8 {
			f.put(nil, row{"id": 1, "name": "x", "region": "CANADA-1"}, createMachine{Name: fmt.Sprint("gputrain-p1-", i), Labels: []string{"gputrain-pool-p1"}})
		}
	})
	d := cloudtest.Prepared(t, f.config())
	all, err := d.List(t.Context(), "p1")
	if err != nil || len(all) != 8 {
		t.Errorf("%d, %v", len(all), err)
	}
	// The list of images has no count.
	f.Do(func() { f.mostPageSize = 1 })
	cloudtest.MustLaunch(t, d, h100.Query(), 9)
	if _, asked := f.created(); asked.ImageName != newestUbuntu {
		t.Errorf("%+v", asked)
	}
}

// Gateways in front of the API answer 404 too: a machine is gone only if the API itself says
// so.
func TestNotFoundIsTheAPIsOwnWord(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, h100.Query(), 0)
	f.Inject(fakecloud.Fault{Op: opMachine, Answer: fakecloud.Reply(404, "<html>no such page</html>")})
	_, err := d.Describe(t.Context(), in.ID)
	cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "describe", testKey)
}

func TestMachineWithoutItsLabels(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, h100.Query(), 0)
	f.set(in.ID, row{"labels": []string{"mine"}})
	all, err := cloudtest.Open(t, f.config()).List(t.Context(), "p1")
	if err != nil || len(all) != 3 || all[0].ID != in.ID || all[0].Name != "p1-0" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestMarkLeaseKeepsOtherLabels(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, h100.Query(), 0)
	_, asked := f.created()
	f.set(in.ID, row{"labels": append([]string{"team-x"}, asked.Labels...)})
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	if err := d.(driver.LeaseMarker).MarkLease(t.Context(), cloudtest.Info("p1"), until, in.ID, "999999"); err != nil {
		t.Fatal(err)
	}
	f.Do(func() {
		r, _ := f.machines.Get(nil, in.ID)
		labels := r.row["labels"].([]string)
		if tag := pooltag.FromWords(labels); labels[0] != "team-x" || !tag.Until.Equal(until) || tag.Name != "p1-0" || tag.HostKey == "" {
			t.Errorf("%q", labels)
		}
	})
}

func TestCreditIsLookedAtBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.credit = 0
	d := cloudtest.Open(t, f.config())
	err := d.Prepare(t.Context(), cloudtest.Info("p1"))
	cloudtest.Is(t, err, driver.ErrBalance, providerName, "prepare", testKey)
	f.Inject(fakecloud.Fault{Op: opCredit, Answer: refuse(403, "forbidden", "not for this role")})
	if err := d.Prepare(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Errorf("a key that may not see the credit is good enough: %v", err)
	}
	if all := f.everything(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

func TestPoolIDThatLeavesNoRoom(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	err := d.Prepare(t.Context(), cloudtest.Info("p"+strings.Repeat("x", maxPoolID)))
	cloudtest.Is(t, err, driver.ErrInvalid, providerName, "prepare", testKey)
	if !strings.Contains(err.Error(), "WithName") {
		t.Errorf("%v", err)
	}
	if err := d.Prepare(t.Context(), cloudtest.Info("p"+strings.Repeat("x", maxPoolID-1))); err != nil {
		t.Error(err)
	}
}

func TestOfferThatIsNotUnderstood(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	for _, id := range []string{"", "n3-H100x1", "/n3-H100x1", "CANADA-1/"} {
		_, err := d.Launch(t.Context(), cloudtest.Request(t, h100.Query(), driver.Offer{ID: id}, 0))
		cloudtest.Is(t, err, driver.ErrInvalid, providerName, "launch", testKey)
	}
	if all := f.everything(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// A machine that is still being made is ended as soon as possible.
func TestEndThatIsTooEarly(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	d := cloudtest.Prepared(t, cfg)
	in := cloudtest.MustLaunch(t, d, h100.Query(), 0)
	f.Do(func() { f.tooEarly = 3 })
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	if n := len(f.Records(opDelete)); n != 4 {
		t.Errorf("%d deletions", n)
	}
	in = cloudtest.MustLaunch(t, d, h100.Query(), 1)
	f.Do(func() { f.tooEarly = 1 << 20 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := d.Terminate(ctx, in.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	cfg.TeardownTimeout = 20 * time.Millisecond
	err := cloudtest.Open(t, cfg).Terminate(t.Context(), in.ID)
	cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "terminate", testKey)
}

// A deletion takes time: until it is done the machine exists, and ending it again is a
// success.
func TestDeletionThatTakesItsTime(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, h100.Query(), 0)
	f.Do(func() { f.slow = true })
	for range 2 {
		if err := d.Terminate(t.Context(), in.ID); err != nil {
			t.Error(err)
		}
		if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceStopped {
			t.Errorf("%+v", now)
		}
	}
	if all, err := d.List(t.Context(), "p1"); err != nil || len(all) != 3 {
		t.Errorf("%+v, %v", all, err)
	}
	f.Do(func() { f.machines.Delete(nil, in.ID) })
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceTerminated {
		t.Errorf("%+v", now)
	}
}
