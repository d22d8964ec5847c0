package aws

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestMain(m *testing.M) {
	second = 20 * time.Millisecond
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": testKeyID, "AWS_SECRET_ACCESS_KEY": testSecret, "AWS_SESSION_TOKEN": "",
		// Ignore the AWS settings of the user that runs the tests, and of the machine.
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_PROFILE": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_EC2": "", "AWS_ENDPOINT_URL_STS": "",
		"AWS_ENDPOINT_URL_SSM": "", "AWS_ENDPOINT_URL_SERVICE_QUOTAS": "", "AWS_ENDPOINT_URL_PRICING": "", "AWS_ENDPOINT_URL_IAM": "",
	} {
		os.Unsetenv(name)
		if value != "" {
			os.Setenv(name, value)
		}
	}
	cloudtest.MainAt(m, time.Millisecond)
}

// hostKey belongs to no machine: tests that use it boot none.
var hostKey = driver.HostKey{Private: "-----BEGIN OPENSSH PRIVATE KEY-----\nnotAKey\n-----END OPENSSH PRIVATE KEY-----\n", Public: cloudtest.PoolKey + " host"}

func (f *fake) config() Config { return Config{Endpoint: f.URL} }

func (f *fake) open(change ...func(*Config)) *awsDriver {
	f.t.Helper()
	cfg := f.config()
	for _, c := range change {
		c(&cfg)
	}
	return cloudtest.Open(f.t, cfg).(*awsDriver)
}

// prepared returns a driver of a fake without machines, with pool p1 prepared.
func prepared(t *testing.T, f *fake, change ...func(*Config)) *awsDriver {
	t.Helper()
	f.noMachines = true
	d := f.open(change...)
	if err := d.Prepare(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Fatal(err)
	}
	return d
}

// offer returns the offer of an instance type.
func offer(t *testing.T, d *awsDriver, spec gputrain.Spec, name string) driver.Offer {
	t.Helper()
	for _, o := range cloudtest.AllOffers(t, d, spec.Query()) {
		if o.InstanceType == name && o.Rejected == "" && o.Spot == (spec.Allocation == driver.Spot) {
			return o
		}
	}
	t.Fatalf("there is no offer of %s", name)
	return driver.Offer{}
}

// request asks for n nodes of an offer.
func request(spec gputrain.Spec, o driver.Offer, n int) driver.Launch {
	req := driver.Launch{Pool: cloudtest.Info("p1"), Offer: o, Query: spec.Query(), Token: "token"}
	for rank := range n {
		req.Nodes = append(req.Nodes, driver.NodeRequest{Rank: rank, Name: fmt.Sprintf("p1-%d", rank), HostKey: hostKey})
	}
	return req
}

func mustLaunch(t *testing.T, d *awsDriver, req driver.Launch) []driver.Instance {
	t.Helper()
	got, err := d.Launch(t.Context(), req)
	if err != nil || len(got) != len(req.Nodes) {
		t.Fatalf("%+v, %v", got, err)
	}
	return got
}

// is checks that an error has a kind, and the form that all errors have.
func is(t *testing.T, err, kind error, op string) {
	t.Helper()
	cloudtest.Is(t, err, kind, "aws", op, testSecret)
}

// rental returns the fake's record of an instance.
func (f *fake) rental(id string) (r *rental) {
	f.Do(func() { r, _ = f.instances.Get(nil, id) })
	return r
}

// account returns all resources in the account.
func (f *fake) account() (all []driver.Resource) {
	f.Do(func() {
		add := func(kind string, id, name any) {
			all = append(all, driver.Resource{Kind: kind, ID: fmt.Sprint(id), Name: fmt.Sprint(name)})
		}
		for _, r := range f.instances.All(nil) {
			if s := f.state(r); s != "shutting-down" && s != "terminated" {
				add(kindMachine, r.row["InstanceId"], tagOf(rowTags(r.row), tagNode))
			}
		}
		for _, g := range f.groups.All(nil) {
			add(kindGroup, g.row["GroupId"], g.row["GroupName"])
		}
		for _, k := range f.keys.All(nil) {
			add(kindKey, k["KeyPairId"], k["KeyName"])
		}
		for _, p := range f.placements.All(nil) {
			add(kindPlacement, p["GroupId"], p["GroupName"])
		}
		for _, t := range f.templates.All(nil) {
			add(kindTemplate, t.row["LaunchTemplateId"], t.row["LaunchTemplateName"])
		}
		for _, v := range f.volumes.All(nil) {
			add(kindVolume, v["VolumeId"], "volume")
		}
		for _, a := range f.amis.All(nil) {
			add("image", a.row["ImageId"], a.row["Name"])
		}
		for _, s := range f.snapshots.All(nil) {
			if f.imageWith(s["SnapshotId"]) == nil {
				add(kindSnapshot, s["SnapshotId"], tagOf(rowTags(s), "Name"))
			}
		}
		for name, p := range f.profiles {
			if p.Profile {
				add(kindProfile, "arn:aws:iam::123456789012:instance-profile/gputrain/"+name, name)
			} else {
				add(kindProfile, "the role "+name, name)
			}
		}
	})
	return all
}

// live returns the account as sorted lines of kind and name.
func (f *fake) live() (all []string) {
	for _, r := range f.account() {
		all = append(all, r.Kind+" "+r.Name)
	}
	slices.Sort(all)
	return all
}

// foreign puts resources that are not gputrain's into the account, some with tags and
// names that resemble gputrain's.
func (f *fake) foreign() (ids []string) {
	f.Do(func() {
		tags := []tagRow{{"Name", "gputrain-web"}, {"gputrain", "true"}, {"team", "pool"}}
		ours := []tagRow{{tagPool, "Not A Pool"}, {tagManaged, "true"}}
		unmanaged := []tagRow{{tagPool, "web-1"}}
		for _, tags := range [][]tagRow{tags, ours, unmanaged} {
			id := f.newID("i")
			f.instances.Put(nil, id, &rental{row: row{
				"InstanceId": id, "InstanceType": "t3.medium", "State": row{"Name": "running", "Code": 16}, "LaunchTime": now(), "Tags": tags,
			}, data: launchData{NetworkInterfaces: make([]struct {
				DeviceIndex              int
				SubnetId                 string
				Groups                   []string
				AssociatePublicIpAddress bool
			}, 1)}})
			ids = append(ids, id)
		}
		ids = append(ids, f.foreignImage())
		id := f.newID("sg")
		f.groups.Put(nil, id, &group{row: row{"GroupId": id, "GroupName": "gputrain-web", "VpcId": testVPC, "Tags": tags}})
		ids = append(ids, id)
		id = f.newID("key")
		f.keys.Put(nil, id, row{"KeyPairId": id, "KeyName": "gputrain-me", "Tags": tags})
		ids = append(ids, id)
		id = f.newID("pg")
		f.placements.Put(nil, "gputrain-mine", row{"GroupId": id, "GroupName": "gputrain-mine", "State": "available", "Tags": tags})
		ids = append(ids, id)
		id = f.newID("vol")
		f.volumes.Put(nil, id, row{"VolumeId": id, "Size": 8, "Tags": tags})
		ids = append(ids, id)
		f.profiles["somebody"] = &fakeProfile{Role: true, Profile: true, Added: true}
		ids = append(ids, "arn:aws:iam::123456789012:instance-profile/gputrain/somebody")
	})
	return ids
}

const eventTimeout = 30 * time.Second
