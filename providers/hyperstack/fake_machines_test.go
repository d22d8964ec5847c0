package hyperstack

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func (f *fake) create(c *fakecloud.Call) fakecloud.Answer {
	var in createMachine
	c.Decode(&in)
	e := f.environment(in.EnvironmentName)
	switch {
	case f.refusal != "":
		return refuse(400, "bad_request", f.refusal)
	case !f.solvent():
		return refuse(400, "bad_request", "Insufficient credit")
	case e == nil:
		return missing("Environment")
	case f.full && f.room == 0:
		return refuse(400, "bad_request", "Flavor "+in.FlavorName+" is out of stock")
	case !f.has(f.flavors, in.FlavorName):
		return missing("Flavor")
	case !f.has(f.images, in.ImageName) && f.diskOf(e, in.ImageName) == nil:
		return missing("Image")
	case !f.hasKey(e, in.KeyName):
		return missing("Keypair")
	}
	f.room--
	r := f.put(c, e, in)
	if !f.noMachines && f.status == "ACTIVE" {
		cfg := fakecloud.MachineConfig{User: "ubuntu"}
		if d := f.diskOf(e, in.ImageName); d != nil {
			cfg.Disk = d.content
		}
		r.machine = cloudtest.Boot(f.t, in.UserData, cfg)
		if r.machine == nil {
			return refuse(500, "internal", "user data")
		}
		r.row["floating_ip"] = r.machine.PublicIP
		if f.noAddress {
			r.row["floating_ip"] = nil
		}
	}
	return success(row{"instances": []row{r.row}})
}

// put adds a machine, with its rules in the form that the API reports.
func (f *fake) put(c *fakecloud.Call, e row, in createMachine) *rental {
	f.lastID++
	rules := []row{}
	for _, r := range in.SecurityRules {
		rules = append(rules, row{"id": 5000 + f.lastID, "direction": r.Direction, "ethertype": r.EtherType, "protocol": r.Protocol,
			"remote_ip_prefix": r.RemoteIPPrefix, "port_range_min": r.PortRangeMin, "port_range_max": r.PortRangeMax, "status": "SUCCESS"})
	}
	var flavor row
	for _, v := range f.flavors {
		if v["name"] == in.FlavorName {
			flavor = row{"id": 95, "name": v["name"], "cpu": v["cpu"], "ram": v["ram"], "disk": v["disk"], "gpu": v["gpu"], "gpu_count": v["gpu_count"]}
		}
	}
	r := &rental{create: in, row: row{
		"id": f.lastID, "name": in.Name, "status": f.status, "fixed_ip": fmt.Sprintf("10.0.1.%d", f.lastID%250), "floating_ip": nil, "labels": in.Labels,
		"environment": row{"id": e["id"], "name": e["name"], "org_id": 55, "region": e["region"]}, "flavor": flavor, "security_rules": rules,
		"image": row{"name": in.ImageName}, "keypair": row{"name": in.KeyName}, "created_at": "2026-10-01T10:00:05", "port_randomization": in.PortRandomization,
	}}
	f.machines.Put(c, strconv.Itoa(f.lastID), r)
	return r
}

func (f *fake) has(rows []row, name string) bool {
	for _, r := range rows {
		if r["name"] == name {
			return true
		}
	}
	return false
}

func (f *fake) hasKey(e row, name string) bool {
	for _, k := range f.keys.All(nil) {
		if k["name"] == name && k["environment"].(row)["id"] == e["id"] {
			return true
		}
	}
	return false
}

func (f *fake) list(c *fakecloud.Call) fakecloud.Answer {
	all := []row{}
	for _, r := range f.machines.All(c) {
		all = append(all, r.row)
	}
	return success(row{"instances": page(f, c, "pageSize", all), "count": len(all), "page": 1, "page_size": f.mostPageSize})
}

func (f *fake) show(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.machines.Get(c, c.Vars["vm_id"])
	if !ok {
		return missing("Virtual machine")
	}
	return success(row{"instance": r.row})
}

func (f *fake) delete(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.machines.Get(nil, c.Vars["vm_id"])
	switch {
	case c.Missing() || !ok:
		return missing("Virtual machine")
	case c.Undone():
		return success(nil)
	case f.tooEarly > 0:
		f.tooEarly--
		return refuse(400, "bad_request", "Virtual machine is currently being created and cannot be deleted yet")
	case f.slow && r.row["status"] == "DELETING":
		return refuse(409, "conflict", "Virtual machine is in the state DELETING")
	case f.slow:
		r.row["status"] = "DELETING"
		return success(nil)
	}
	if r.machine != nil {
		r.machine.Kill()
	}
	f.machines.Delete(c, c.Vars["vm_id"])
	return success(nil)
}

func (f *fake) label(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.machines.Get(nil, c.Vars["vm_id"])
	if !ok {
		return missing("Virtual machine")
	}
	var in struct{ Labels []string }
	c.Decode(&in)
	r.row["labels"] = in.Labels
	return success(nil)
}

// set changes columns of a machine.
func (f *fake) set(id string, changed row) {
	f.t.Helper()
	f.Do(func() {
		r, ok := f.machines.Get(nil, id)
		if !ok {
			f.t.Errorf("there is no machine %s", id)
			return
		}
		for k, v := range changed {
			r.row[k] = v
		}
	})
}

// meters returns the machines as Hyperstack's meter reads them: each with its root disk and its address.
func (f *fake) meters() (all []fakecloud.Metered) {
	of := func(name any) float64 {
		for _, p := range f.prices {
			if strings.EqualFold(fmt.Sprint(p["name"]), fmt.Sprint(name)) {
				usd, _ := strconv.ParseFloat(fmt.Sprint(p["value"]), 64)
				return usd
			}
		}
		return 0
	}
	for _, r := range f.machines.All(nil) {
		flavor := r.row["flavor"].(row)
		usd := of(flavor["gpu"])*float64(flavor["gpu_count"].(int)) + of("Cloud-SSD")*float64(flavor["disk"].(int)) + of("PublicIP")
		all = append(all, fakecloud.Metered{ID: fmt.Sprint(r.row["id"]), State: r.row["status"].(string), HourlyUSD: usd})
	}
	return all
}
