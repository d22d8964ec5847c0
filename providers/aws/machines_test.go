package aws

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// launched returns a fake, its driver, and the IDs of n launched instances without machines.
func launched(t *testing.T, n int, change ...func(*Config)) (*fake, *awsDriver, []string) {
	t.Helper()
	f := startFake(t)
	d := prepared(t, f, change...)
	var ids []string
	for _, in := range mustLaunch(t, d, request(a10g, offer(t, d, a10g, "g5.xlarge"), n)) {
		ids = append(ids, in.ID)
	}
	return f, d, ids
}

// EC2 may answer for some minutes that it does not know an instance that it just made.
func TestNotFoundRightAfterLaunch(t *testing.T) {
	t.Parallel()
	f, d, ids := launched(t, 2)
	for _, lag := range []bool{true, false} {
		if lag {
			f.Inject(fakecloud.Fault{Op: "DescribeInstances", Lag: fakecloud.Lag{For: time.Hour}})
		}
		got, err := d.Describe(t.Context(), ids...)
		want := map[bool]driver.InstanceState{true: driver.InstancePending, false: driver.InstanceRunning}[lag]
		if err != nil || len(got) != 2 || got[1].State != want || got[1].Name != "p1-1" || got[1].Rank != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	// Another program cannot know at first: the instance may be just launched.
	other := f.open()
	for opened, want := range map[time.Time]driver.InstanceState{
		time.Now().Add(time.Hour): driver.InstanceUnknown, time.Now().Add(-time.Hour): driver.InstanceTerminated,
	} {
		other.instances.opened = opened
		if in := cloudtest.Describe(t, other, "i-0123456789abcdef0"); in.State != want {
			t.Errorf("%+v, want %v", in, want)
		}
	}
	// After a while, an unknown instance is terminated.
	d.instances.remember(ids[0], func(m *machine) { m.sight = cloud.MadeAt(time.Now().Add(-provisionTimeout)) })
	f.Do(func() { f.instances.Delete(nil, ids[0]) })
	if in := cloudtest.Describe(t, d, ids[0]); in.State != driver.InstanceTerminated {
		t.Errorf("%+v", in)
	}
}

// An address can come some seconds after the machine runs.
func TestRunningWithoutAddress(t *testing.T) {
	t.Parallel()
	f, d, ids := launched(t, 1)
	if in := cloudtest.Describe(t, d, ids[0]); in.State != driver.InstanceRunning || in.SSH.Addr != "" || in.PrivateAddr == "" {
		t.Errorf("%+v", in)
	}
	f.Do(func() { f.rentalRow(ids[0])["PublicIpAddress"] = "203.0.113.7" })
	in := cloudtest.Describe(t, d, ids[0])
	if in.SSH.Addr != "203.0.113.7:22" || in.SSH.User != "ubuntu" || !slices.Equal(in.SSH.HostKeys, []string{cloudtest.PoolKey}) {
		t.Errorf("%+v", in.SSH)
	}
	// Another program learns the same from the tags.
	other := cloudtest.Describe(t, f.open(), ids[0])
	if other.SSH.Addr != in.SSH.Addr || !slices.Equal(other.SSH.HostKeys, in.SSH.HostKeys) || other.Offer.HourlyUSD != in.Offer.HourlyUSD ||
		other.Offer.Accelerator.Name != "A10G" || other.Offer.Arch != "amd64" {
		t.Errorf("%+v", other)
	}
}

func (f *fake) rentalRow(id string) row {
	r, _ := f.instances.Get(nil, id)
	return r.row
}

// The login user is the one of the machine's image, unless Config names another.
func TestUserOfTheImage(t *testing.T) {
	t.Parallel()
	f, d, ids := launched(t, 1, func(c *Config) { c.AMI = "ami-00000006" })
	f.Do(func() { f.rentalRow(ids[0])["PublicIpAddress"] = "203.0.113.7" })
	if in := cloudtest.Describe(t, d, ids[0]); in.SSH.User != "ec2-user" || f.rental(ids[0]).data.BlockDeviceMappings[0].DeviceName != "/dev/xvda" {
		t.Errorf("%+v", in.SSH)
	}
	gone := f.open(func(c *Config) { c.AMI = "ami-0badbadbad" }) // as if it was withdrawn
	if in := cloudtest.Describe(t, gone, ids[0]); in.SSH.User != "ec2-user" {
		t.Errorf("%+v", in.SSH)
	}
	named := f.open(func(c *Config) { c.Username = "admin" })
	if in := cloudtest.Describe(t, named, ids[0]); in.SSH.User != "admin" {
		t.Errorf("%+v", in.SSH)
	}
}

// EC2 rejects a call with one bad ID. The other machines are terminated nevertheless.
func TestTerminateWithOneThatIsUnknown(t *testing.T) {
	t.Parallel()
	f, d, ids := launched(t, 3)
	err := d.Terminate(t.Context(), ids[0], "i-0123456789abcdef0", "no ID at all", "", ids[1])
	if err != nil {
		t.Error(err)
	}
	for _, r := range f.Records("TerminateInstances") {
		if !strings.Contains(r.Body, "SkipOsShutdown=true") || strings.Contains(r.Body, "no+ID") {
			t.Errorf("%s", r.Body)
		}
	}
	for i, want := range []driver.InstanceState{driver.InstanceTerminated, driver.InstanceTerminated, driver.InstanceRunning} {
		if in := cloudtest.Describe(t, d, ids[i]); in.State != want {
			t.Errorf("%d: %+v", i, in)
		}
	}
	// If the API does not know SkipOsShutdown, machines are terminated without it.
	f.Inject(fakecloud.Fault{Op: "TerminateInstances", Answer: refused("UnknownParameter", "The parameter SkipOsShutdown is not recognized")})
	if err := d.Terminate(t.Context(), ids[2]); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) != 1 {
		t.Errorf("left: %v", live)
	}
}

// Release waits for groups in use while a machine shuts down, and removes a launch's leftovers.
func TestReleaseWaitsForWhatIsInUse(t *testing.T) {
	t.Parallel()
	f, d, ids := launched(t, 1, func(c *Config) { c.ClusterPlacement, c.ImportKeyPair = true, true })
	f.Do(func() {
		tags := []tagRow{{tagPool, "p1"}, {tagManaged, "true"}}
		f.volumes.Put(nil, "vol-00000001", row{"VolumeId": "vol-00000001", "Size": 100, "Tags": tags})
		f.templates.Put(nil, "lt-00000001", &template{row: row{"LaunchTemplateId": "lt-00000001", "LaunchTemplateName": "gputrain-p1-0-aa", "Tags": tags}})
	})
	list, err := d.List(t.Context(), "p1")
	if err != nil || len(list) != 6 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, r := range list {
		if usd, known := r.HourlyUSD.USD(); !known || (usd > 0) != (r.Kind == kindMachine || r.Kind == kindVolume) {
			t.Errorf("%+v", r)
		}
	}
	if err := d.Terminate(t.Context(), ids...); err != nil {
		t.Error(err)
	}
	f.Inject(fakecloud.Fault{Op: "DeleteSecurityGroup", Answer: refused("DependencyViolation", "resource sg-1 has a dependent object")})
	f.Inject(fakecloud.Fault{Op: "DeletePlacementGroup", Answer: refused("InvalidPlacementGroup.InUse", "The placement group is in use and may not be deleted.")})
	if err := d.Release(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
	if n := len(f.Records("DeleteSecurityGroup", "DeletePlacementGroup")); n < 4 {
		t.Errorf("what is in use is given up: %d calls", n)
	}
}

// Release reports what stays in use, and leaves it.
func TestReleaseWhileMachinesRun(t *testing.T) {
	t.Parallel()
	f, d, _ := launched(t, 1)
	is(t, d.Release(t.Context(), cloudtest.Info("p1")), driver.ErrUnavailable, "release")
	if live := f.live(); len(live) != 2 {
		t.Errorf("left: %v", live)
	}
}

// A machine that shut itself down, because its lease ended or the user shut it down, is
// terminated. A machine that EC2 took back is preempted until its pool terminates it.
func TestEndsOfMachines(t *testing.T) {
	t.Parallel()
	f, d, ids := launched(t, 2)
	f.Do(func() {
		a, _ := f.instances.Get(nil, ids[0])
		f.end(a, "Client.InstanceInitiatedShutdown", "Client.InstanceInitiatedShutdown: Instance initiated shutdown")
		b, _ := f.instances.Get(nil, ids[1])
		f.end(b, "Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Instance terminated by Spot Service")
	})
	a, b := cloudtest.Describe(t, d, ids[0]), cloudtest.Describe(t, d, ids[1])
	if a.State != driver.InstanceTerminated || !strings.Contains(a.StateReason, "Instance initiated") || b.State != driver.InstancePreempted || !strings.Contains(b.StateReason, "Spot Service") {
		t.Errorf("%+v, %+v", a, b)
	}
	if err := d.Terminate(t.Context(), ids...); err != nil {
		t.Error(err)
	}
	if b := cloudtest.Describe(t, d, ids[1]); b.State != driver.InstanceTerminated {
		t.Errorf("%+v", b)
	}
}

// An invalid answer is an error, never an empty list. The SDK would read it as an empty list.
func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	f, d, ids := launched(t, 1)
	for name, text := range map[string]string{
		"nothing": "", "blank": " \n", "text": "ok", "a page": "<!DOCTYPE html><html><body>Please stand by</body></html>", "JSON": `{"reservationSet":[]}`,
		"no list":             "<DescribeInstancesResponse><requestId>r</requestId></DescribeInstancesResponse>",
		"XML of another kind": "<ErrorResponse/>", "a part": `<?xml version="1.0"?><DescribeInstancesResponse><reservationSet>`, "a declaration": `<?xml version="1.0"?>`,
	} {
		fault := f.Inject(fakecloud.Fault{Op: "DescribeInstances", Times: -1, Answer: fakecloud.Reply(200, text)})
		if list, err := d.List(t.Context(), ""); err == nil || list != nil {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		_, err := d.Describe(t.Context(), ids...)
		is(t, err, driver.ErrUnavailable, "describe")
		fault.Remove()
	}
	cloudtest.Describe(t, d, ids[0])
	f.Inject(fakecloud.Fault{Op: "DescribeVolumes", Answer: fakecloud.Reply(200, "<DescribeVolumesResponse></DescribeVolumesResponse>")})
	if list, err := d.List(t.Context(), ""); err == nil || list != nil {
		t.Errorf("%+v, %v", list, err)
	}
}

// Attaching to a pool lets in the caller's new address.
func TestResumeLetsInAnotherAddress(t *testing.T) {
	t.Parallel()
	f, d, ids := launched(t, 1)
	rules := func() (all []string) {
		f.Do(func() {
			for _, g := range f.groups.All(nil) {
				for _, p := range g.permissions {
					if ranges, ok := p["IpRanges"].([]row); ok {
						all = append(all, ranges[0]["CidrIp"].(string))
					}
				}
			}
		})
		return all
	}
	if got := rules(); !slices.Equal(got, []string{"127.0.0.1/32"}) { // the address from which the fake is called
		t.Errorf("%v", got)
	}
	other := f.open(func(c *Config) { c.AddressURL = f.URL + "/address" })
	for range 2 {
		if err := other.Resume(t.Context(), cloudtest.Info("p1"), ids...); err != nil {
			t.Error(err)
		}
		if err := d.Prepare(t.Context(), cloudtest.Info("p1")); err != nil {
			t.Error(err)
		}
	}
	if got := rules(); !slices.Equal(got, []string{"127.0.0.1/32", "192.0.2.7/32"}) {
		t.Errorf("%v", got)
	}
	named := f.open(func(c *Config) { c.SSHFrom = []string{"198.51.100.77/24"} })
	if err := named.Resume(t.Context(), cloudtest.Info("p1")); err != nil || !slices.Contains(rules(), "198.51.100.0/24") {
		t.Errorf("%v, %v", rules(), err)
	}
	lost := f.open(func(c *Config) { c.AddressURL = f.URL + "/address" })
	f.Inject(fakecloud.Fault{Op: opAddress, Answer: fakecloud.HTML()})
	is(t, lost.Resume(t.Context(), cloudtest.Info("p1")), driver.ErrUnavailable, "resume")
	if err := lost.Resume(t.Context(), cloudtest.Info("never-prepared")); err != nil {
		t.Error(err)
	}
}

// A group with the pool's name but without its tags is not gputrain's, and is not changed.
func TestPrepareWhereTheNameIsTaken(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Do(func() {
		f.groups.Put(nil, "sg-00000009", &group{row: row{"GroupId": "sg-00000009", "GroupName": "gputrain-p1", "VpcId": testVPC, "Tags": []tagRow{}}})
	})
	d := f.open()
	is(t, d.Prepare(t.Context(), cloudtest.Info("p1")), driver.ErrInvalid, "prepare")
	if len(f.Records("AuthorizeSecurityGroupIngress")) > 0 {
		t.Error("it was changed")
	}
	own := f.open(func(c *Config) { c.SecurityGroupID = "sg-00000009" })
	if err := own.Prepare(t.Context(), cloudtest.Info("p1")); err != nil || len(f.live()) != 1 {
		t.Errorf("%v, %v", err, f.live())
	}
	if err := own.Release(t.Context(), cloudtest.Info("p1")); err != nil || len(f.live()) != 1 {
		t.Errorf("%v, %v", err, f.live())
	}
}

// EC2 may not know a new resource everywhere at once: the driver tries again.
func TestEventualConsistency(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Inject(fakecloud.Fault{Op: "DescribeSecurityGroups", Times: 2, Lag: fakecloud.Lag{For: time.Hour}})
	f.Inject(fakecloud.Fault{Op: "AuthorizeSecurityGroupIngress", Answer: refused("InvalidGroup.NotFound", "The security group 'sg-1' does not exist")})
	f.Inject(fakecloud.Fault{Op: "CreateFleet", Answer: refused("InvalidLaunchTemplateId.NotFound", "The launch template lt-1 does not exist")})
	d := prepared(t, f)
	mustLaunch(t, d, request(a10g, offer(t, d, a10g, "g5.xlarge"), 1))
	if n := len(f.Records("CreateSecurityGroup")); n != 1 || len(f.live()) != 2 {
		t.Errorf("%d groups were made: %v", n, f.live())
	}
	// If EC2 never knows it, the driver gives up.
	f.Inject(fakecloud.Fault{Op: "CreateFleet", Times: -1, Answer: refused("InvalidLaunchTemplateId.NotFound", "The launch template lt-1 does not exist")})
	req := request(a10g, offer(t, d, a10g, "g5.xlarge"), 2)
	req.Nodes, req.Token = req.Nodes[1:], "other"
	_, err := d.Launch(t.Context(), req)
	is(t, err, driver.ErrNotFound, "launch")
	f.Inject(fakecloud.Fault{Op: "DescribeSecurityGroups", Times: -1, Lag: fakecloud.Lag{For: time.Hour}})
	is(t, f.open().Prepare(t.Context(), cloudtest.Info("p2")), driver.ErrUnavailable, "prepare")
}

// A pool's security group lets the internet in nowhere, this program in at SSH's port, and its members in everywhere. Each
// machine is in it alone. Whom a group of the user's lets in is not known.
func TestPortsAreThePools(t *testing.T) {
	t.Parallel()
	f, d, _ := launched(t, 2)
	f.Do(func() {
		all := f.groups.All(nil)
		if len(all) != 1 {
			t.Fatalf("%d groups", len(all))
		}
		id := all[0].row["GroupId"].(string)
		want := []row{
			{"IpProtocol": "-1", "UserIdGroupPairs": []row{{"GroupId": id}}},
			{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": []row{{"CidrIp": "127.0.0.1/32"}}}, // from which the fake is called
		}
		if got := all[0].permissions; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v; want %v", got, want)
		}
		if sent := f.Records("CreateLaunchTemplate"); len(sent) == 0 || !strings.Contains(sent[0].Body, id) {
			t.Errorf("the machines are not in the group %s: %+v", id, sent)
		}
	})
	if got := d.Capabilities().Ports; got != driver.PortsOfPool {
		t.Errorf("its own group: %v", got)
	}
	own := f.open(func(c *Config) { c.SecurityGroupID = "sg-00000009" })
	if got := own.Capabilities().Ports; got != driver.PortsUnknown {
		t.Errorf("the user's group: %v", got)
	}
}
