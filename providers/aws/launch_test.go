package aws

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

var a10g = gputrain.Spec{Accelerator: accelerators.A10G()}

// The create call has all that is known of the machine, and the launch template is gone
// after the launch.
func TestLaunchByAFleet(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	req := request(a10g, offer(t, d, a10g, "g5.xlarge"), 1)
	req.Pool.Expires = time.Now().Add(time.Hour).Truncate(time.Second)
	req.Query.DiskGiB = 10 // which the node must have free, beside the image's 75
	got := mustLaunch(t, d, req)[0]
	if got.Name != "p1-0" || got.State != driver.InstancePending || !reflect.DeepEqual(got.Offer, req.Offer) {
		t.Errorf("%+v", got)
	}
	r := f.rental(got.ID)
	tags := rowTags(r.row)
	for key, want := range map[string]string{
		"Name": "p1-0", tagManaged: "true", tagPool: "p1", tagNode: "p1-0", tagRank: "0", tagOwner: "host.12ab34cd/1/2", tagLease: "60",
		tagExpires: req.Pool.Expires.UTC().Format(time.RFC3339), tagHostKey: cloudtest.PoolKey, tagAccelerator: "A10G-22.3515625GB",
	} {
		if v := tagOf(tags, key); v != want {
			t.Errorf("tag %s is %q, want %q", key, v, want)
		}
	}
	if size := r.data.BlockDeviceMappings[0].Ebs.VolumeSize; r.data.ImageId != "ami-00000003" || size != 85 || r.data.KeyName != "" {
		t.Errorf("%+v", r.data)
	}
	if live := f.live(); !slices.Equal(live, []string{"machine p1-0", "security-group gputrain-p1"}) {
		t.Errorf("left: %v", live)
	}
	if n := len(f.Records("RunInstances")); n != 0 {
		t.Errorf("%d calls of RunInstances", n)
	}
	for _, rec := range f.Records("CreateFleet") {
		if strings.Contains(rec.Body, "SpotOptions") || !strings.Contains(rec.Body, "DefaultTargetCapacityType=on-demand") {
			t.Errorf("%s", rec.Body)
		}
	}
}

// A disk is never smaller than the image: EC2 rejects a smaller one.
func TestDiskOfTheImage(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f, func(c *Config) { c.DiskGB = 20 })
	in := mustLaunch(t, d, request(a10g, offer(t, d, a10g, "g5.xlarge"), 1))[0]
	if size := f.rental(in.ID).data.BlockDeviceMappings[0].Ebs.VolumeSize; size != 75 {
		t.Errorf("%d", size)
	}
}

// If a fleet's answer has errors beside the machine that it made, the machine's ID is kept.
func TestFleetWithMachinesAndErrors(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	f.full = []string{"us-east-1a", "us-east-1b"}
	got := mustLaunch(t, d, request(a10g, offer(t, d, a10g, "g5.xlarge"), 3))
	for _, in := range got {
		if zone := cloudtest.Describe(t, d, in.ID).Labels[labelZone]; zone != "us-east-1c" {
			t.Errorf("%s is in %s", in.ID, zone)
		}
	}
	// The other nodes try only the first node's zone.
	for _, r := range f.Records("CreateFleet")[1:] {
		if strings.Contains(r.Body, "Overrides.2") {
			t.Errorf("%s", r.Body)
		}
	}
}

// If the first node's zone is full, another zone is used, and the spot price is that
// zone's.
func TestZoneThatIsFull(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	spec := a10g
	spec.Allocation = driver.Spot
	o := offer(t, d, spec, "g5.xlarge")
	if usd, _ := o.HourlyUSD.USD(); !near(usd, 0.4+100*diskUSD+addressUSD) {
		t.Errorf("offered at %v", o.HourlyUSD)
	}
	first := mustLaunch(t, d, request(spec, o, 1))[0]
	f.Do(func() { f.full = []string{"us-east-1a"} })
	req := request(spec, o, 2)
	req.Nodes, req.Token = req.Nodes[1:], "other"
	second := mustLaunch(t, d, req)[0]
	a, b := cloudtest.Describe(t, d, first.ID), cloudtest.Describe(t, d, second.ID)
	if a.Labels[labelZone] != "us-east-1a" || b.Labels[labelZone] != "us-east-1b" || !b.Offer.Spot || a.Offer.HourlyUSD != o.HourlyUSD {
		t.Errorf("%+v, %+v", a, b)
	}
	if usd, _ := b.Offer.HourlyUSD.USD(); !near(usd, 0.44+100*diskUSD+addressUSD) {
		t.Errorf("in zone b it costs %v", usd)
	}
}

func near(a, b float64) bool { return a-b < 1e-5 && b-a < 1e-5 }

// A spot machine's price cannot rise above the spec's limit.
func TestSpotHasAHighestPrice(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	spec := a10g
	spec.Allocation, spec.MaxHourlyUSD = driver.Spot, 0.43
	o := offer(t, d, spec, "g5.xlarge")
	f.full = []string{"us-east-1a"}
	_, err := d.Launch(t.Context(), request(spec, o, 1))
	is(t, err, driver.ErrNoCapacity, "launch") // zone b would cost more
	for _, r := range f.Records("CreateFleet") {
		form, _ := url.ParseQuery(r.Body)
		if form.Get("LaunchTemplateConfigs.1.Overrides.1.MaxPrice") != "0.4140" || form.Get("LaunchTemplateConfigs.1.Overrides.2.SubnetId") != "" ||
			form.Get("SpotOptions.AllocationStrategy") != string(PriceCapacityOptimized) {
			t.Errorf("%v", form)
		}
	}
}

// Without the right to make launch templates, or if the limit of fleets is 0, machines
// are launched one by one.
func TestNoFleets(t *testing.T) {
	t.Parallel()
	for name, break_ := range map[string]func(*fake){
		"no launch templates": func(f *fake) { f.denied["CreateLaunchTemplate"] = true },
		"no fleets":           func(f *fake) { f.denied["CreateFleet"] = true },
		"a limit of none":     func(f *fake) { f.noFleets = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			d := prepared(t, f)
			break_(f)
			f.full = []string{"us-east-1a"}
			spec := a10g
			spec.Allocation = driver.Spot
			got := mustLaunch(t, d, request(spec, offer(t, d, spec, "g5.xlarge"), 2))
			if in := cloudtest.Describe(t, d, got[0].ID); in.Labels[labelZone] != "us-east-1b" || !in.Offer.Spot {
				t.Errorf("%+v", in)
			}
			if n := len(f.Records("CreateFleet")) + len(f.Records("CreateLaunchTemplate")); n > 2 {
				t.Errorf("%d attempts at fleets", n)
			}
			if live := f.live(); len(live) != 3 {
				t.Errorf("left: %v", live)
			}
			// A full zone answers with a status after which the SDK would by itself try again.
			if n := len(f.Records("RunInstances")); n != 3 {
				t.Errorf("%d calls of RunInstances", n)
			}
		})
	}
}

// A launch without the right to tag fails. Nothing is made without tags.
func TestCreateTagsDenied(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	o := offer(t, d, a10g, "g5.xlarge")
	f.denied["CreateLaunchTemplate"], f.denied["RunInstances"] = true, true
	got, err := d.Launch(t.Context(), request(a10g, o, 2))
	is(t, err, driver.ErrAuth, "launch")
	if len(got) != 0 || len(f.Records("RunInstances")) != 1 || !strings.Contains(err.Error(), "not authorized to perform: ec2:RunInstances") {
		t.Errorf("%+v, %v", got, err)
	}
}

// If EC2 may not create its service-linked role, the fleet's "no capacity" becomes ErrAuth.
func TestFleetWithoutItsRole(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]error{
		"UnfulfillableCapacity: The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.": driver.ErrAuth,
		"UnfulfillableCapacity: Unable to fulfill capacity due to your request configuration.":                                             driver.ErrNoCapacity,
		"VcpuLimitExceeded: You have requested more vCPU capacity than your current vCPU limit of 0 allows":                                driver.ErrQuota,
		"InternalError: An internal error has occurred":                                                                                    driver.ErrUnavailable, // the result is unknown: this is no refusal
		"InvalidInstanceType: no such type":                                                                                                driver.ErrUnsupported,
		"SomethingNew: nobody has heard of this before":                                                                                    driver.ErrNoCapacity,
	} {
		f := startFake(t)
		d := prepared(t, f)
		o := offer(t, d, a10g, "g5.xlarge")
		f.Handle("CreateFleet", func(*fakecloud.Call) fakecloud.Answer {
			code, message, _ := strings.Cut(code, ": ")
			return fakecloud.Reply(200, row{"FleetId": "fleet-1", "Errors": []row{{"ErrorCode": code, "ErrorMessage": message}}})
		})
		_, err := d.Launch(t.Context(), request(a10g, o, 1))
		is(t, err, want, "launch")
		if !strings.Contains(fmt.Sprint(err), strings.TrimSuffix(strings.Split(code, ": ")[1], ".")) { // a hint may follow
			t.Errorf("AWS's words are lost: %v", err)
		}
	}
}

// A create whose answer is lost is found by the node's tag and adopted. It is never repeated.
func TestCreateIsNeverRepeated(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault fakecloud.Fault
		made  bool
	}{
		"cut before the effect":    {fakecloud.Fault{Cut: true}, false},
		"cut after the effect":     {fakecloud.Fault{Cut: true, After: true}, true},
		"500 before the effect":    {fakecloud.Fault{Answer: refused("InternalError", "An internal error has occurred")}, false},
		"503 after the effect":     {fakecloud.Fault{Answer: fakecloud.Failure(503, "", "1"), After: true}, true},
		"garbage after the effect": {fakecloud.Fault{Answer: fakecloud.Garbage(), After: true}, true},
		"half an answer":           {fakecloud.Fault{Answer: fakecloud.Reply(200, "<CreateFleetResponse><fleetId>fleet-1</fleetId>"), After: true}, true},
		"an answer of nothing":     {fakecloud.Fault{Answer: fakecloud.Reply(200, "<CreateFleetResponse></CreateFleetResponse>"), After: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			d := prepared(t, f)
			o := offer(t, d, a10g, "g5.xlarge")
			tt.fault.Op = "CreateFleet"
			f.Inject(tt.fault)
			f.Inject(fakecloud.Fault{Op: "DescribeInstances", Lag: fakecloud.Lag{Calls: 3}}) // the first look is too early
			got, err := d.Launch(t.Context(), request(a10g, o, 1))
			if tt.made && (err != nil || len(got) != 1 || got[0].Name != "p1-0") {
				t.Errorf("it was made, and is not adopted: %+v, %v", got, err)
			}
			if !tt.made {
				is(t, err, driver.ErrUnavailable, "launch")
			}
			if n := len(f.Records("CreateFleet")); n != 1 {
				t.Errorf("%d creates", n)
			}
			if live := f.live(); slices.ContainsFunc(live, func(s string) bool { return strings.HasPrefix(s, kindTemplate) }) {
				t.Errorf("left: %v", live)
			}
		})
	}
}

// The same token never launches twice: the second launch finds the machine of the first.
func TestSameTokenAgain(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	req := request(a10g, offer(t, d, a10g, "g5.xlarge"), 1)
	first := mustLaunch(t, d, req)[0]
	again := mustLaunch(t, f.open(), req)[0] // by another program
	if first.ID != again.ID {
		t.Errorf("%s and %s", first.ID, again.ID)
	}
	f.noFleets = true
	other := f.open()
	req.Token = "another"
	req.Nodes[0].Name = "p1-0-r1"
	first, again = mustLaunch(t, other, req)[0], mustLaunch(t, f.open(), req)[0]
	if first.ID != again.ID {
		t.Errorf("%s and %s", first.ID, again.ID)
	}
}

// A throttled launch had no effect, and is repeated.
func TestThrottleStorm(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	o := offer(t, d, a10g, "g5.xlarge")
	storm := fakecloud.EC2Error(503, "RequestLimitExceeded", "Request limit exceeded.")
	for _, op := range []string{"CreateLaunchTemplate", "CreateFleet", "DescribeInstances", "TerminateInstances"} {
		f.Inject(fakecloud.Fault{Op: op, Times: maxAttempts - 1, Answer: storm})
	}
	got := mustLaunch(t, d, request(a10g, o, 1))
	cloudtest.Describe(t, d, got[0].ID)
	if err := d.Terminate(t.Context(), got[0].ID); err != nil {
		t.Error(err)
	}
	f.Inject(fakecloud.Fault{Op: "CreateFleet", Times: -1, Answer: storm})
	req := request(a10g, o, 1)
	req.Token = "other"
	_, err := d.Launch(t.Context(), req)
	is(t, err, driver.ErrRateLimited, "launch")
}

// A caller that cancels during a create learns at once what it has made.
func TestLaunchGivenUp(t *testing.T) {
	t.Parallel()
	for _, made := range []bool{true, false} {
		f := startFake(t)
		d := prepared(t, f)
		o := offer(t, d, a10g, "g5.xlarge")
		hold := make(chan struct{})
		defer close(hold)
		fault := f.Inject(fakecloud.Fault{Op: "CreateFleet", After: made, Hold: hold})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-fault.Reached(); cancel() }()
		got, err := d.Launch(ctx, request(a10g, o, 1))
		if (len(got) == 1) != made || !errors.Is(err, context.Canceled) {
			t.Errorf("%+v, %v", got, err)
		}
		if n := len(f.Records("DescribeInstances")); n != 1 {
			t.Errorf("%d looks", n)
		}
		if live := f.live(); len(live) != 1+len(got) {
			t.Errorf("left: %v", live)
		}
	}
}

// If one launch has an unknown outcome, the joined error has an unknown outcome too.
func TestJoined(t *testing.T) {
	t.Parallel()
	full := fail("launch", &driver.Error{Kind: driver.ErrNoCapacity, Err: errors.New("no room")})
	open := fail("launch", &driver.Error{Kind: driver.ErrUnavailable, Err: errors.New("no answer")})
	if err := launches.Join(isAmbiguous, full, open); errors.Is(err, driver.ErrNoCapacity) || !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "no room") {
		t.Errorf("%v", err)
	}
	if err := launches.Join(isAmbiguous, full, full); !errors.Is(err, driver.ErrNoCapacity) {
		t.Errorf("%v", err)
	}
	if err := launches.Join(isAmbiguous); err != nil {
		t.Errorf("%v", err)
	}
}

// If there is no capacity in the placement group, the machine is launched in the same
// zone without it.
func TestClusterPlacement(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f, func(c *Config) { c.ClusterPlacement = true })
	o := offer(t, d, a10g, "g5.xlarge")
	if in := mustLaunch(t, d, request(a10g, o, 1))[0]; f.rental(in.ID).data.Placement.GroupName != "gputrain-p1" {
		t.Errorf("%+v", f.rental(in.ID).data)
	}
	f.Do(func() { f.full = []string{"cluster"} })
	req := request(a10g, o, 2)
	req.Nodes, req.Token = req.Nodes[1:], "other"
	in := mustLaunch(t, d, req)[0]
	if r := f.rental(in.ID); r.data.Placement.GroupName != "" || cloudtest.Describe(t, d, in.ID).Labels[labelZone] != "us-east-1a" {
		t.Errorf("%+v", r.data)
	}
	f.Do(func() { f.full = []string{"cluster", "us-east-1a"} })
	req.Token, req.Nodes[0].Name = "third", "p1-1-r1"
	_, err := d.Launch(t.Context(), req)
	is(t, err, driver.ErrNoCapacity, "launch") // not in another zone
	burstable := offer(t, d, gputrain.Spec{}, "t3.medium")
	req = request(gputrain.Spec{}, burstable, 3)
	req.Nodes, req.Token = req.Nodes[2:], "fourth"
	f.Do(func() { f.full = nil })
	mustLaunch(t, d, req) // outside the group, which does not take this type
	for name, want := range map[string]bool{"m7i.large": true, "m7i-flex.large": false, "t4g.small": false} {
		if canBePlaced(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// EC2 does not know a new instance profile for some seconds.
func TestInstanceProfile(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	policy := func(c *Config) {
		c.InstanceProfileARN, c.InstanceProfilePolicy = "auto", `{"Version":"2012-10-17","Statement":[]}`
	}
	d := prepared(t, f, policy)
	if p := f.profiles["gputrain-p1"]; p == nil || *p != (fakeProfile{Role: true, Policy: true, Profile: true, Added: true, Tries: 2}) {
		t.Fatalf("%+v", p)
	}
	if err := d.Prepare(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Error(err)
	}
	o := offer(t, d, a10g, "g5.xlarge")
	in := mustLaunch(t, d, request(a10g, o, 1))[0]
	if arn := f.rental(in.ID).data.IamInstanceProfile.Arn; arn != "arn:aws:iam::123456789012:instance-profile/gputrain/gputrain-p1" {
		t.Errorf("%q", arn)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	if err := f.open(policy).Release(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
	// If a program dies after it made the role, no profile is listed. The ledger has the name.
	f.denied["CreateInstanceProfile"] = true
	is(t, d.Prepare(t.Context(), cloudtest.Info("p2")), driver.ErrAuth, "prepare")
	p2 := cloudtest.Info("p2")
	p2.Made = []driver.Resource{{Kind: kindProfile, Name: "gputrain-p2"}}
	if err := d.Release(t.Context(), p2); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}

// A launch that cannot work is rejected before anything is made.
func TestLaunchOfNonsense(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	good := request(a10g, offer(t, d, a10g, "g5.xlarge"), 1)
	for name, change := range map[string]func(*driver.Launch){
		"another region":    func(r *driver.Launch) { r.Offer.Region = "eu-west-1" },
		"no type":           func(r *driver.Launch) { r.Offer.InstanceType = "" },
		"no host key":       func(r *driver.Launch) { r.Nodes = []driver.NodeRequest{{Name: "p1-0"}} },
		"two keys":          func(r *driver.Launch) { r.Pool.AuthorizedKey = cloudtest.PoolKey + "\n" + cloudtest.PoolKey },
		"a pool of no ID":   func(r *driver.Launch) { r.Pool.ID = "Pool 1" },
		"a pool unprepared": func(r *driver.Launch) { r.Pool.ID = "p9" },
	} {
		req := good
		change(&req)
		got, err := d.Launch(t.Context(), req)
		is(t, err, driver.ErrInvalid, "launch")
		if len(got) > 0 || len(f.Records("CreateFleet")) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got, err := d.Launch(t.Context(), driver.Launch{}); got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// User data has the form that cloud-init reads, and holds the keys that only the node may have.
func TestUserData(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	req := request(a10g, offer(t, d, a10g, "g5.xlarge"), 1)
	req.Pool.Expires = time.Now().Add(time.Hour)
	in := mustLaunch(t, d, req)[0]
	text, err := base64.StdEncoding.DecodeString(f.rental(in.ID).data.UserData)
	if err != nil {
		t.Fatal(err)
	}
	c := readCloudConfig(t, string(text))
	if !c.SSHDeleteKeys || c.SSHKeys["ed25519_private"] != string(hostKey.Private) || c.SSHKeys["ed25519_public"] != cloudtest.PoolKey ||
		!slices.Equal(c.SSHAuthorizedKeys, []string{cloudtest.PoolKey + " comment"}) || len(c.RunCmd) != 2 {
		t.Fatalf("%+v", c)
	}
	if last := c.RunCmd[1]; last[0] != "systemd-run" || !slices.Contains([]string{"--on-active=4200", "--on-active=4199"}, last[2]) || last[3] != "shutdown" {
		t.Errorf("%q", last)
	}
	if script := c.RunCmd[0][4]; !strings.HasPrefix(script, "node='p1-0' wait=300\n") || strings.Contains(script, "#") {
		t.Errorf("%q", script)
	}
	req.Pool.AuthorizedKey = "ssh-rsa " + strings.Repeat("A", maxUserData)
	if _, err := userData(req, req.Nodes[0], time.Minute, time.Now()); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("%v", err)
	}
}
