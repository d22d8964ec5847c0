package vultr

import (
	"fmt"
	"maps"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

// A disk is a snapshot, with the disk that it is made of.
type disk struct {
	row     row
	content string
	pending int // answers that report it as pending
}

func (f *fake) makeSnapshot(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		Instance    string `json:"instance_id"`
		Description string
	}
	c.Decode(&in)
	r, ok := f.machines[Cloud].Get(nil, in.Instance)
	if !ok {
		return failure(404, "Invalid instance ID.")
	}
	f.last++
	id := fmt.Sprintf("5eed1e55-66fd-4dfb-b839-%012x", f.last)
	d := &disk{pending: f.snapDelay, row: row{
		"id": id, "date_created": time.Now().UTC().Format(time.RFC3339), "description": in.Description, "size": 0, "compressed_size": 0, "status": "pending", "os_id": 2284, "app_id": 0,
	}}
	if r.machine != nil {
		content, err := r.machine.CopyDisk()
		if err != nil {
			f.t.Error(err)
		}
		d.content = content
	}
	f.snapshots.Put(c, id, d)
	return fakecloud.Reply(201, row{"snapshot": maps.Clone(d.row)})
}

// reported returns a snapshot as the API describes it. It becomes complete, or fails, after some answers.
func (f *fake) reported(d *disk) row {
	switch {
	case d.row["status"] != "pending":
	case d.pending > 0:
		d.pending--
	case f.snapFails:
		d.row["status"] = "deleted"
	default:
		d.row["status"], d.row["size"] = "complete", 8<<30
	}
	return maps.Clone(d.row)
}

func (f *fake) listSnapshots(c *fakecloud.Call) fakecloud.Answer {
	all := []row{}
	for _, d := range f.snapshots.All(c) {
		all = append(all, f.reported(d))
	}
	return f.paged(c, "snapshots", all)
}

func (f *fake) snapshot(c *fakecloud.Call) fakecloud.Answer {
	d, ok := f.snapshots.Get(c, c.Vars["snapshot-id"])
	if !ok {
		return failure(404, "Invalid snapshot ID.")
	}
	return fakecloud.Reply(200, row{"snapshot": f.reported(d)})
}

func (f *fake) describeSnapshot(c *fakecloud.Call) fakecloud.Answer {
	var in struct{ Description string }
	c.Decode(&in)
	d, ok := f.snapshots.Get(nil, c.Vars["snapshot-id"])
	if !ok {
		return failure(404, "Invalid snapshot ID.")
	}
	d.row["description"] = in.Description
	return fakecloud.Reply(204, nil)
}

func (f *fake) deleteSnapshot(c *fakecloud.Call) fakecloud.Answer {
	if d, ok := f.snapshots.Get(nil, c.Vars["snapshot-id"]); ok && d.row["description"] == "nightly" {
		f.t.Error("another program's snapshot is deleted")
	}
	if !f.snapshots.Delete(c, c.Vars["snapshot-id"]) {
		return failure(404, "Invalid snapshot ID.")
	}
	return fakecloud.Reply(204, nil)
}
