package aws

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

// An ami is an AMI of the account, with the disk that it is made of.
type ami struct {
	row      row
	disk     string // of machines that are launched from it
	pending  int    // describes that report it as pending
	size     int
	snapshot string
}

// imageOf returns an image that machines can be launched from.
func (f *fake) imageOf(id string) (image row, disk string, ok bool) {
	if im, ok := testImages[id]; ok {
		return im, "", true
	}
	a, ok := f.amis.Get(nil, id)
	if !ok || a.row["State"] != "available" {
		return nil, "", false
	}
	return row{"Architecture": a.row["Architecture"], "size": a.size, "root": a.row["RootDeviceName"]}, a.disk, true
}

func (f *fake) createImage(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		tagged
		InstanceId, Name string
		NoReboot         bool
	}
	c.Decode(&in)
	r, ok := f.instances.Get(nil, in.InstanceId)
	switch {
	case !ok || f.state(r) != "running":
		return refused("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", in.InstanceId)
	case len(in.Name) < 3 || len(in.Name) > 128:
		return refused("InvalidAMIName.Malformed", "AMI names must be between 3 and 128 characters long")
	case !in.NoReboot:
		f.t.Error("CreateImage would reboot the machine, which ends the timer that ends it")
	}
	for _, a := range f.amis.All(nil) {
		if a.row["Name"] == in.Name {
			return refused("InvalidAMIName.Duplicate", "AMI name %s is already in use", in.Name)
		}
	}
	if f.amiQuota > 0 && len(f.amis.All(nil)) >= f.amiQuota {
		return refused("SnapshotLimitExceeded", "Maximum allowed active snapshot limit exceeded.")
	}
	tags := f.tagsOf(c, in.TagSpecifications, "image")
	if !slices.Equal(tags, f.tagsOf(c, in.TagSpecifications, "snapshot")) {
		f.t.Error("the snapshots of the image have other tags")
	}
	id := f.newAMI()
	size := r.data.BlockDeviceMappings[0].Ebs.VolumeSize
	snapshot := f.newID("snap")
	f.snapshots.Put(c, snapshot, row{
		"SnapshotId": snapshot, "Description": "Created by CreateImage(" + in.InstanceId + ") for " + id, "VolumeSize": size, "StartTime": now(), "State": "completed", "Tags": tags,
	})
	a := &ami{pending: f.amiDelay, size: size, snapshot: snapshot, row: row{
		"ImageId": id, "Name": in.Name, "Architecture": r.row["Architecture"], "OwnerId": "123456789012", "State": "pending", "CreationDate": now(),
		"RootDeviceName": "/dev/sda1", "RootDeviceType": "ebs", "Tags": tags, "BlockDeviceMappings": []row{{"DeviceName": "/dev/sda1", "Ebs": row{"VolumeSize": size, "SnapshotId": snapshot}}},
	}}
	if r.machine != nil {
		disk, err := r.machine.CopyDisk()
		if err != nil {
			f.t.Error(err)
		}
		a.disk = disk
	}
	f.amis.Put(c, id, a)
	return fakecloud.Reply(200, row{"ImageId": id})
}

// ownImages returns the AMIs of the account as the API describes them. Each becomes available, or fails, after some
// describes.
func (f *fake) ownImages(c *fakecloud.Call) (all []row) {
	for _, a := range f.amis.All(c) {
		switch {
		case a.row["State"] != "pending":
		case a.pending > 0:
			a.pending--
		case f.amiFails:
			a.row["State"], a.row["StateReason"] = "failed", row{"Code": "Client.InternalError", "Message": "the snapshot failed"}
		default:
			a.row["State"] = "available"
		}
		all = append(all, maps.Clone(a.row))
	}
	return all
}

func (f *fake) deregisterImage(c *fakecloud.Call) fakecloud.Answer {
	var in struct{ ImageId string }
	c.Decode(&in)
	if !strings.Contains(string(c.Body), "DeleteAssociatedSnapshots=true") {
		f.t.Error("DeregisterImage leaves snapshots, which are billed")
	}
	a, ok := f.amis.Get(nil, in.ImageId)
	if !ok {
		return refused("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", in.ImageId)
	}
	if tagOf(rowTags(a.row), tagManaged) == "" {
		f.t.Errorf("another program's image %s is deleted", in.ImageId)
	}
	f.amis.Delete(c, in.ImageId)
	if f.snapsStay { // the deletion of one fails, and not the call
		return fakecloud.Reply(200, nil)
	}
	f.snapshots.Delete(c, a.snapshot)
	return fakecloud.Reply(200, nil)
}

// imageWith returns the AMI that has a snapshot, or nil.
func (f *fake) imageWith(snapshot any) *ami {
	for _, a := range f.amis.All(nil) {
		if a.snapshot == snapshot {
			return a
		}
	}
	return nil
}

func (f *fake) describeSnapshots(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		filters
		OwnerIds []string
	}
	c.Decode(&in)
	if !slices.Equal(in.OwnerIds, []string{"self"}) {
		f.t.Error("DescribeSnapshots lists all public ones")
	}
	all := []row{}
	for _, s := range f.snapshots.All(c) {
		if f.passes(c, in.filters, rowTags(s), nil) {
			all = append(all, s)
		}
	}
	return paged(c, "Snapshots", all, f.listPage)
}

func (f *fake) deleteSnapshot(c *fakecloud.Call) fakecloud.Answer {
	var in struct{ SnapshotId string }
	c.Decode(&in)
	if f.imageWith(in.SnapshotId) != nil {
		return refused("InvalidSnapshot.InUse", "The snapshot %s is currently in use", in.SnapshotId)
	}
	if s, ok := f.snapshots.Get(nil, in.SnapshotId); ok && tagOf(rowTags(s), tagManaged) == "" {
		f.t.Errorf("another program's snapshot %s is deleted", in.SnapshotId)
	}
	if !f.snapshots.Delete(c, in.SnapshotId) {
		return refused("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", in.SnapshotId)
	}
	return fakecloud.Reply(200, nil)
}

// newAMI returns an ID that no image of testImages has.
func (f *fake) newAMI() string { return strings.Replace(f.newID("ami"), "ami-0", "ami-9", 1) }

// foreignImage puts an AMI of another program into the account.
func (f *fake) foreignImage() string {
	id := f.newAMI()
	f.amis.Put(nil, id, &ami{size: 8, row: row{
		"ImageId": id, "Name": "nightly", "Architecture": "x86_64", "OwnerId": "123456789012", "State": "available", "CreationDate": time.Now().UTC().Format(time.RFC3339),
		"RootDeviceName": "/dev/sda1", "RootDeviceType": "ebs", "Tags": []tagRow{{"Name", "nightly"}}, "BlockDeviceMappings": []row{{"DeviceName": "/dev/sda1", "Ebs": row{"VolumeSize": 8}}},
	}})
	return id
}
