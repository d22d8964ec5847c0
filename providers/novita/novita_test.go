package novita

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

var rtx4090 = gputrain.Spec{Accelerator: accelerators.RTX4090()}

// asked returns the bodies of all creates.
func (f *fake) asked() (all []create) {
	for _, r := range f.Records(opCreate) {
		var in create
		if err := json.Unmarshal([]byte(r.Body), &in); err != nil {
			f.t.Fatal(err)
		}
		all = append(all, in)
	}
	return all
}

const registryPassword = "reg-pass-0123456789"

// A node is reached through the proxy, with a password, once its SSH server runs. That is
// later than the instance runs.
func TestPasswordThroughTheProxy(t *testing.T) {
	t.Parallel()
	for _, quirk := range []func(f *fake){
		func(f *fake) {}, func(f *fake) { f.within = "instance" }, func(f *fake) { f.within = "data" }, func(f *fake) { f.older = true },
	} {
		f := startFake(t)
		f.warm = 1
		quirk(f)
		d := cloudtest.Open(t, f.config())
		in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 0)
		now := cloudtest.Describe(t, d, in.ID)
		if !f.older && (now.State != driver.InstancePending || now.SSH.Addr != "") {
			t.Errorf("before its SSH server runs it is %v at %q", now.State, now.SSH.Addr)
		}
		now = cloudtest.Describe(t, d, in.ID)
		if _, port, err := net.SplitHostPort(now.SSH.Addr); err != nil || port == "22" || now.SSH.User != "root" || string(now.SSH.Password) != testPassword {
			t.Errorf("%v: %+v", now.State, now.SSH)
		}
		if text := fmt.Sprintf("%+v %#v", now, now); strings.Contains(text, testPassword) {
			t.Errorf("the password is printed: %s", text)
		}
	}
}

// No error shows an unreadable answer with a password in it.
func TestPasswordsInAnswers(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for field, body := range map[string]row{
		"password":    {"id": 7, "connectComponentSSH": row{"password": testPassword}},
		"sshPassword": {"id": 7, "sshPassword": testPassword},
	} {
		always := f.Inject(fakecloud.Fault{Op: opInstance, Answer: fakecloud.Reply(500, body), Times: -1})
		if _, err := d.Describe(t.Context(), "29ee"); err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), testPassword) || !strings.Contains(err.Error(), field) {
			t.Errorf("%v", err)
		}
		always.Remove()
	}
}

// A restarted instance has another port and another password.
func TestEndpointIsReadAgain(t *testing.T) {
	in := instance{Status: "running"}
	in.SSH.Command, in.SSH.Password = "ssh -p 1 root@a", "one"
	first := in.endpoint(false)
	in.SSH.Command, in.SSH.Password = "ssh root@b -p 2", "two"
	if second := in.endpoint(false); first.Addr != "a:1" || second.Addr != "b:2" || string(second.Password) != "two" {
		t.Errorf("%+v, %+v", first, second)
	}
}

// A spot instance reports when it will be preempted, and is then stopped: its disk is billed
// until it is deleted.
func TestReclaimed(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	spec := rtx4090
	spec.Allocation = driver.Spot
	in := cloudtest.MustLaunch(t, d, spec.Query(), 0)
	if mode := f.asked()[0].BillingMode; mode != "spot" || !in.Offer.Spot {
		t.Errorf("it is rented %s", mode)
	}
	f.set(in.ID, row{"spotStatus": "notified", "spotReclaimTime": "1763631000"})
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceRunning || !now.PreemptAt.Equal(time.Unix(1763631000, 0)) {
		t.Errorf("%v at %v", now.State, now.PreemptAt)
	}
	f.set(in.ID, row{"status": "exited", "spotStatus": "terminated"})
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstancePreempted {
		t.Errorf("%v: %s", now.State, now.StateReason)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil || len(f.account()) > 0 {
		t.Errorf("%v: %+v", err, f.account())
	}
}

// An instance fails if its image cannot be pulled, or if its container ends.
func TestFailedInstances(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 0)
	for _, status := range []string{"pulling", "exited"} {
		f.set(in.ID, row{"status": status, "statusError": row{"state": "failed", "message": "manifest unknown"}})
		if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceFailed || !strings.Contains(now.StateReason, "manifest unknown") {
			t.Errorf("%s: %v: %s", status, now.State, now.StateReason)
		}
	}
}

// The list is complete whatever the number of its first page, and however short its pages.
func TestPagesOfTheList(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 99, 100, 101, 250} {
		for _, first := range []int{0, 1, -1} {
			for _, noTotal := range []bool{false, true} {
				for _, most := range []int{0, 50} {
					f := startFake(t)
					f.firstPage, f.noTotal, f.mostRows = first, noTotal, most
					for i := range n {
						id := fmt.Sprintf("i%d", i)
						f.instances.Put(nil, id, &fakeInstance{row: row{"id": id, "name": fmt.Sprintf("gputrain-p1-%d", i), "status": "running"}})
					}
					c, err := newClient(f.config(), testKey)
					if err != nil {
						t.Fatal(err)
					}
					if all, err := c.instances(t.Context()); err != nil || len(all) != n {
						t.Errorf("%d from page %d, of %d at most: %d, %v", n, first, most, len(all), err)
					}
					c.close()
				}
			}
		}
	}
}

// A list with fewer items than its total is an error.
func TestListThatBreaksOff(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for name, answer := range map[string]fakecloud.Answer{
		"without its list": fakecloud.Reply(200, row{"total": 0}),
		"short":            fakecloud.Reply(200, row{"instances": []row{{"id": "a", "name": "gputrain-p1-0", "status": "running"}}, "total": 2}),
		"without an ID":    fakecloud.Reply(200, row{"instances": []row{{"name": "gputrain-p1-0"}}, "total": 1}),
	} {
		in := f.Inject(fakecloud.Fault{Op: opList, Times: -1, Answer: answer})
		if list, err := d.List(t.Context(), "p1"); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		in.Remove()
	}
}

// An answer about another instance is an error.
func TestAnotherInstance(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	f.Inject(fakecloud.Fault{Op: opInstance, Answer: fakecloud.Reply(200, row{"id": "other", "status": "running"})})
	if got, err := d.Describe(t.Context(), "29ee"); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParseSSH(t *testing.T) {
	for command, want := range map[string]string{
		"ssh -p 32787 root@proxy.us-ca-6.gpu-instance.novita.ai": "root proxy.us-ca-6.gpu-instance.novita.ai:32787",
		"ssh root@proxy.novita.ai -p 32787":                      "root proxy.novita.ai:32787",
		"ssh -p32787 proxy.novita.ai":                            "root proxy.novita.ai:32787",
		"ssh ubuntu@proxy.novita.ai":                             "ubuntu proxy.novita.ai:22",
		"ssh -o StrictHostKeyChecking=no -p 1 a@b":               "a b:1",
		"ssh -oStrictHostKeyChecking=no a@2001:db8::1":           "a [2001:db8::1]:22",
		"": "", "ssh": "", "ssh -p": "", "ssh -p x a@b": "", "ssh -p 0 a@b": "", "ssh -p 65536 a@b": "", "scp a@b": "", "ssh a@b c": "", "ssh -i key a@b": "", "ssh a@": "",
	} {
		addr, user, ok := parseSSH(command)
		if got := strings.TrimSpace(user + " " + addr); got != want || ok != (want != "") {
			t.Errorf("%q is %q, want %q", command, got, want)
		}
	}
}

func FuzzParseSSH(f *testing.F) {
	for _, s := range []string{"ssh -p 32787 root@proxy.novita.ai", "ssh a@b -p 1", "ssh -o x a@::1", "ssh -p", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, command string) {
		addr, user, ok := parseSSH(command)
		host, port, err := net.SplitHostPort(addr)
		if ok && (err != nil || host == "" || port == "" || user == "") || !ok && addr+user != "" {
			t.Errorf("%q is %q at %q", command, user, addr)
		}
	})
}

func FuzzFault(f *testing.F) {
	for _, s := range []string{`{"code":400,"reason":"CONFLICT"}`, `{"code":"UNKNOWN"}`, "FORBIDDEN", `{"id":"a"}`, "[]", ""} {
		f.Add(200, s)
		f.Add(400, s)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if said := fault(status, []byte(body)); said != nil && said.Code+said.Message == "" && said.Status == 0 {
			t.Errorf("%d %q is a failure that says nothing", status, body)
		}
	})
}
