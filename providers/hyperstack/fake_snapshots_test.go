package hyperstack

import (
	"strconv"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

// A disk is a snapshot of a machine, and its image, if there is one.
type disk struct {
	row, image row
	region     any
	content    string
	tries      int // to make an image of it that are still refused
}

func (f *fake) snapshot(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		Name, Description string
		Labels            []string
	}
	c.Decode(&in)
	r, ok := f.machines.Get(nil, c.Vars["vm_id"])
	switch {
	case !ok:
		return missing("Virtual machine")
	case f.snapQuota:
		return refuse(400, "bad_request", "Snapshot quota exceeded")
	}
	for _, d := range f.snapshots.All(nil) {
		if d.row["name"] == in.Name {
			return refuse(400, "bad_request", "Snapshot with this name already exists")
		}
	}
	f.lastID++
	now := time.Now().UTC().Format("2006-01-02T15:04:05")
	d := &disk{tries: f.snapDelay, region: r.row["environment"].(row)["region"], row: row{
		"id": f.lastID, "name": in.Name, "description": in.Description, "labels": in.Labels, "status": "SUCCESS", "is_image": false, "size": 100, "region_id": 1,
		"vm_id": r.row["id"], "has_floating_ip": true, "created_at": now, "updated_at": now,
	}}
	if f.snapFails {
		d.row["status"] = "ERROR"
	}
	if r.machine != nil {
		content, err := r.machine.CopyDisk()
		if err != nil {
			f.t.Error(err)
		}
		d.content = content
	}
	f.snapshots.Put(c, strconv.Itoa(f.lastID), d)
	return fakecloud.Reply(201, row{"status": true, "message": "done", "snapshot": d.row})
}

func (f *fake) listSnapshots(c *fakecloud.Call) fakecloud.Answer {
	all := []row{}
	for _, d := range f.snapshots.All(c) {
		all = append(all, d.row)
	}
	return success(row{"snapshots": page(f, c, "pageSize", all), "count": len(all), "page": 1, "page_size": f.mostPageSize})
}

func (f *fake) makeImage(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		Name   string
		Labels []string
	}
	c.Decode(&in)
	d, ok := f.snapshots.Get(nil, c.Vars["snapshot_id"])
	switch {
	case !ok:
		return missing("Snapshot")
	case d.tries > 0:
		d.tries--
		return refuse(400, "bad_request", "Snapshot is being created")
	case d.image != nil:
		f.t.Error("a second image is made of a snapshot")
	}
	f.lastID++
	labels := []row{}
	for _, l := range in.Labels {
		labels = append(labels, row{"id": 1, "label": l})
	}
	d.row["is_image"] = true
	d.image = row{"id": f.lastID, "name": in.Name, "region_name": d.region, "type": "Custom", "is_public": false, "labels": labels, "size": 100, "flavor_restrictions": nil}
	return success(row{"id": f.lastID})
}

func (f *fake) deleteSnapshot(c *fakecloud.Call) fakecloud.Answer {
	if d, ok := f.snapshots.Get(nil, c.Vars["id"]); ok && d.row["description"] == "nightly" {
		f.t.Errorf("another program's snapshot %s is deleted", c.Vars["id"])
	}
	if !f.snapshots.Delete(c, c.Vars["id"]) {
		return missing("Snapshot")
	}
	return success(nil)
}

// foreignSnapshot puts a snapshot of another program into the account.
func (f *fake) foreignSnapshot() string {
	f.lastID++
	f.snapshots.Put(nil, strconv.Itoa(f.lastID), &disk{row: row{
		"id": f.lastID, "name": "nightly", "description": "nightly", "labels": []string{"gputrain"}, "status": "SUCCESS", "is_image": true, "size": 10, "region_id": 1,
		"vm_id": 1, "has_floating_ip": false, "created_at": "2026-10-01T10:00:00", "updated_at": "2026-10-01T10:00:00",
	}})
	return strconv.Itoa(f.lastID)
}

// diskOf returns the disk of an image that an environment's region has, or nil.
func (f *fake) diskOf(e row, name string) *disk {
	for _, d := range f.snapshots.All(nil) {
		if d.image != nil && d.image["name"] == name && d.region == e["region"] {
			return d
		}
	}
	return nil
}
