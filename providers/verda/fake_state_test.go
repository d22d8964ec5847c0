package verda

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// volumesIn returns the volumes in the trash, or all others.
func (f *fake) volumesIn(c *fakecloud.Call, trash bool) []row {
	return slices.DeleteFunc(f.volumes.All(c), func(v row) bool { return (v["status"] == "deleted") != trash })
}

func (f *fake) deleteVolume(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		Permanent bool `json:"is_permanent"`
	}
	c.Decode(&in)
	v, ok := f.volumes.Get(nil, c.Vars["id"])
	switch {
	case !ok:
		return failure(404, "not_found", "Volume not found")
	case v["status"] == "attached":
		return failure(400, "invalid_request", "The volume is attached")
	case !in.Permanent:
		f.setVolume(c.Vars["id"], "deleted")
	default:
		f.volumes.Delete(c, c.Vars["id"])
	}
	return fakecloud.Reply(202, nil)
}

func (f *fake) setVolume(id, status string) {
	if v, ok := f.volumes.Get(nil, id); ok {
		v["status"] = status
	}
}

// set changes fields of an instance.
func (f *fake) set(id string, changed row) {
	f.t.Helper()
	f.Do(func() {
		r, ok := f.instances.Get(nil, id)
		if !ok {
			f.t.Fatalf("there is no instance %s", id)
		}
		maps.Copy(r.row, changed)
	})
}

// userTags returns the tags of an instance that are not gputrain's.
func (f *fake) userTags(id string) map[string]string {
	tags := map[string]string{}
	f.Do(func() {
		r, _ := f.instances.Get(nil, id)
		for _, t := range r.row["tags"].([]row) {
			if key := t["key"].(string); !strings.HasPrefix(key, pooltag.Prefix) {
				tags[key] = t["value"].(string)
			}
		}
	})
	return tags
}

// everything returns all billed things in the project. An attached volume belongs to its
// machine.
func (f *fake) everything() (all []driver.Resource) {
	f.Do(func() {
		for _, r := range f.instances.All(nil) {
			if r.row["status"] == "discontinued" {
				continue
			}
			_, node, _, ok := pooltag.ParseName(fmt.Sprint(r.row["description"]))
			if !ok {
				node = fmt.Sprint(r.row["hostname"])
			}
			all = append(all, driver.Resource{Kind: "machine", ID: r.row["id"].(string), Name: node})
		}
		for _, k := range f.keys.All(nil) {
			all = append(all, driver.Resource{Kind: "key", ID: k["id"].(string), Name: k["name"].(string)})
		}
		for _, v := range f.volumes.All(nil) {
			if v["status"] != "attached" {
				all = append(all, driver.Resource{Kind: "volume", ID: v["id"].(string), Name: v["name"].(string)})
			}
		}
	})
	return all
}

// foreign puts things into the project that are not gputrain's, some with names that resemble
// gputrain's.
func (f *fake) foreign() (ids []string) {
	f.Do(func() {
		for _, hostname := range []string{"gputrain-p1-0", "lab"} {
			id := f.uuid()
			f.instances.Put(nil, id, &rental{row: row{
				"id": id, "status": "running", "hostname": hostname, "description": "mine", "instance_type": "CPU.4V.16G", "ip": "203.0.113.9", "tags": []row{}, "os_volume_id": nil,
			}})
			ids = append(ids, id)
		}
		for _, name := range []string{"gputrain", "gputrain-os", "lab-os"} {
			id := f.uuid()
			f.volumes.Put(nil, id, volumeRow(id, name, "detached", nil))
			ids = append(ids, id)
		}
		id := f.uuid()
		f.keys.Put(nil, id, row{"id": id, "name": "laptop", "key": "ssh-ed25519 AAAAother me@home"})
		ids = append(ids, id)
	})
	return ids
}

// meters returns the instances and the volumes as Verda's meter reads them.
func (f *fake) meters() (all []fakecloud.Metered) {
	for _, r := range f.instances.All(nil) {
		for _, t := range f.types {
			if t["instance_type"] == r.row["instance_type"] {
				field := "price_per_hour"
				if r.row["is_spot"] == true {
					field = "spot_price"
				}
				usd, err := strconv.ParseFloat(t[field].(string), 64)
				if err != nil {
					f.t.Error(err)
				}
				all = append(all, fakecloud.Metered{ID: r.row["id"].(string), State: r.row["status"].(string), HourlyUSD: usd})
			}
		}
	}
	for _, v := range f.volumes.All(nil) {
		all = append(all, fakecloud.Metered{ID: v["id"].(string), ExistsUSD: 0.2 * float64(v["size"].(int)) / 730}) // $0.20 a GB and month
	}
	return all
}
