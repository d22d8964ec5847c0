package gcp

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestListOfSeveralPagesAndZones(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noMachines, f.pageSize = true, 2
	a, b := f.open(), f.open(func(c *Config) { c.Zone = otherZone })
	for rank := range 3 {
		mustLaunch(t, a, oneL4, rank)
	}
	mustLaunch(t, b, oneL4, 3)
	list, err := a.List(t.Context(), "p1")
	var ids []string
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	if want := []string{testZone + "/p1-0", testZone + "/p1-1", testZone + "/p1-2", otherZone + "/p1-3"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("%v, %v", ids, err)
	}
}

// A list that is not complete is an error, never an empty list.
func TestListThatHasNotSeenAll(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fake){
		"zone warns": func(f *fake) {
			f.warnings["us-east1-b"] = row{"code": "UNREACHABLE", "message": "zone us-east1-b is unreachable"}
		},
		"list warns": func(f *fake) {
			f.Inject(fakecloud.Fault{Op: opRules, Answer: fakecloud.Reply(200, row{"kind": "compute#firewallList", "warning": row{"code": "PARTIAL_SUCCESS"}}), Times: -1})
		},
		"unreachable": func(f *fake) { f.unreachable = []string{"zones/us-east1-b"} },
		"another kind": func(f *fake) {
			f.Inject(fakecloud.Fault{Op: opAll, Answer: fakecloud.Reply(200, row{"kind": "compute#addressList"}), Times: -1})
		},
		"nothing": func(f *fake) { f.Inject(fakecloud.Fault{Op: opAll, Answer: fakecloud.Reply(200, row{}), Times: -1}) },
		"no rules": func(f *fake) {
			f.Inject(fakecloud.Fault{Op: opRules, Answer: fakecloud.Reply(200, row{"data": []int{}}), Times: -1})
		},
		"no disks": func(f *fake) {
			f.Inject(fakecloud.Fault{Op: opDisks, Answer: fakecloud.GoogleError(403, "forbidden", "no"), Times: -1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			change(f)
			list, err := f.open().List(t.Context(), "")
			if err == nil || list != nil {
				t.Errorf("%+v, %v", list, err)
			}
			var kind error = driver.ErrUnavailable
			if name == "no disks" {
				kind = driver.ErrAuth
			}
			is(t, err, kind, "list")
		})
	}
}

// A disk that outlived its machine is billed. It is listed, and removed with the pool.
func TestDiskThatIsLeft(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	disk := func(name, pool string, changed row) {
		d := row{"kind": "compute#disk", "name": name, "zone": "https://x/zones/" + testZone, "status": "READY", "labels": row{labelManaged: "true", labelPool: pool, labelLease: "60"}}
		for k, v := range changed {
			d[k] = v
		}
		f.disks.Put(nil, testZone+"/"+name, d)
	}
	f.Do(func() {
		disk("p1-0", "p1", row{"creationTimestamp": "2026-11-01T10:00:00.000-07:00"})
		disk("p1-1", "p1", row{"users": []string{"https://x/instances/p1-1"}}) // in use
		disk("p1-2", "p1", row{"status": "DELETING"})
		disk("p2-0", "p2", nil)
	})
	d := f.open()
	list, err := d.List(t.Context(), "p1")
	if err != nil || len(list) != 1 || list[0].Kind != "volume" || list[0].ID != testZone+"/p1-0" || list[0].Created.IsZero() || list[0].Lease != time.Minute {
		t.Errorf("%+v, %v", list, err)
	}
	if err := d.Release(t.Context(), info("p1")); err != nil {
		t.Error(err)
	}
	if live := f.live(); !slices.Equal(live, []string{"disk p1-1", "disk p1-2", "disk p2-0"}) {
		t.Errorf("left: %v", live)
	}
}

func TestMarkLease(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noMachines = true
	d := f.open()
	in := mustLaunch(t, d, oneL4, 0)
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	mark := func(pool string, ids ...string) error { return d.MarkLease(t.Context(), info(pool), until, ids...) }
	if err := mark("p2", in.ID); err != nil {
		t.Error(err)
	}
	if n := len(f.Records(opLabels)); n != 0 {
		t.Error("another pool's machine was marked")
	}
	if err := mark("p1", in.ID, testZone+"/gone", "nonsense"); err != nil {
		t.Error(err)
	}
	list, err := d.List(t.Context(), "p1")
	if err != nil || len(list) != 1 || !list[0].LeaseUntil.Equal(until) || list[0].Owner != "Host.12ab34cd/1/2" || list[0].Lease != time.Minute {
		t.Errorf("%+v, %v", list, err)
	}
	f.Inject(fakecloud.Fault{Op: opLabels, Answer: fakecloud.GoogleError(412, "conditionNotMet", "Labels fingerprint either invalid or resource labels have changed")})
	if err := mark("p1", in.ID); err != nil {
		t.Errorf("another program changed a label at the same time: %v", err)
	}
}

// Existing firewall rules that are not the pool's are neither used nor removed.
func TestFirewallRules(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open(func(c *Config) { c.SourceRanges, c.SSHPort = []string{"203.0.113.0/24"}, 2022 })
	if err := d.Prepare(t.Context(), info("p1")); err != nil {
		t.Fatal(err)
	}
	f.Do(func() {
		ssh, _ := f.rules.Get(nil, "gputrain-ssh-p1")
		within, _ := f.rules.Get(nil, "gputrain-in-p1")
		if at(ssh, "sourceRanges.0") != "203.0.113.0/24" || at(ssh, "allowed.0.ports.0") != "2022" || at(ssh, "allowed.0.IPProtocol") != "tcp" || at(ssh, "targetTags.0") != "gputrain-p1" || ssh["sourceTags"] != nil {
			t.Errorf("%v", ssh)
		}
		if at(within, "sourceTags.0") != "gputrain-p1" || at(within, "targetTags.0") != "gputrain-p1" || within["sourceRanges"] != nil {
			t.Errorf("%v", within)
		}
		f.rules.Put(nil, "gputrain-ssh-p2", row{"kind": "compute#firewall", "name": "gputrain-ssh-p2", "description": "mine"})
	})
	is(t, d.Prepare(t.Context(), info("p2")), driver.ErrInvalid, "prepare")
	pool := info("p2")
	pool.Made = []driver.Resource{{Kind: kindFirewall, ID: "gputrain-ssh-p2", Name: "gputrain-ssh-p2"}}
	if err := d.Release(t.Context(), pool); err != nil {
		t.Error(err)
	}
	if live := f.live(); !slices.Contains(live, "firewall gputrain-ssh-p2") {
		t.Error("another user's rule was removed")
	}
	without := f.open(func(c *Config) { c.NoFirewall = true })
	f.Inject(fakecloud.Fault{Op: "compute.firewalls.*", Answer: fakecloud.GoogleError(403, "forbidden", "no"), Times: -1})
	if err := without.Prepare(t.Context(), info("p3")); err != nil {
		t.Error(err)
	}
	if _, err := without.List(t.Context(), "p3"); err != nil {
		t.Error(err)
	}
	if err := without.Release(t.Context(), info("p3")); err != nil {
		t.Error(err)
	}
}

// A pool's rules let the internet in at SSH's port alone, and its nodes in everywhere. The network may have others, so its
// other machines are not kept out for certain, and without rules of the pool nothing is known.
func TestPortsAreThePools(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	if err := d.Prepare(t.Context(), info("p1")); err != nil {
		t.Fatal(err)
	}
	f.Do(func() {
		all := f.rules.All(nil)
		if len(all) != 2 {
			t.Fatalf("%v", all)
		}
		for _, r := range all {
			fromAnywhere := r["sourceTags"] == nil
			if at(r, "direction") != "INGRESS" || fmt.Sprint(r["targetTags"]) != "[gputrain-p1]" {
				t.Errorf("%v", r)
			}
			if fromAnywhere && fmt.Sprint(r["allowed"]) != "[map[IPProtocol:tcp ports:[22]]]" {
				t.Errorf("it opens more than SSH's port: %v", r)
			}
			if !fromAnywhere && (r["sourceRanges"] != nil || fmt.Sprint(r["sourceTags"]) != "[gputrain-p1]") {
				t.Errorf("it lets in more than the pool's nodes: %v", r)
			}
		}
	})
	if got := d.Capabilities().Ports; got != driver.PortsOfNetwork {
		t.Errorf("with rules: %v", got)
	}
	if got := f.open(func(c *Config) { c.NoFirewall = true }).Capabilities().Ports; got != driver.PortsUnknown {
		t.Errorf("without rules: %v", got)
	}
}
