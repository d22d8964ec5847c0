package lambda

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The operations, with the contract's names.
const (
	opTypes     = "GET /api/v1/instance-types"
	opKeys      = "GET /api/v1/ssh-keys"
	opAddKey    = "POST /api/v1/ssh-keys"
	opDelKey    = "DELETE /api/v1/ssh-keys/{id}"
	opLaunch    = "POST /api/v1/instance-operations/launch"
	opTerminate = "POST /api/v1/instance-operations/terminate"
	opList      = "GET /api/v1/instances"
	opShow      = "GET /api/v1/instances/{id}"
)

const testKey = "secret_test_0123456789abcdef0123456789abcdef.0123456789abcdef0123456789abcdef"

type row = cloudtest.Row

// A fake is Lambda Cloud with its quirks. Only its handlers and functions passed to Do may
// touch its fields.
type fake struct {
	*fakecloud.Server
	t         testing.TB
	items     map[string]row
	instances *fakecloud.Store[*rental]
	keys      *fakecloud.Store[row]

	noMachines bool // instances are only rows, with no machine behind them
	stalled    bool // launched instances stay booting
	unhealthy  int  // how many of the next launched instances come up unhealthy
	echoes     bool // the refusal of a launch repeats the request
	full       bool // capacity is limited to room more instances
	room       int
	newWord    bool // an instance is in a state that the contract does not have
	lastID     int
}

// A rental is an instance, its launch, and the machine behind it.
type rental struct {
	row     row
	launch  launch
	machine *fakecloud.Machine
}

func startFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{t: t, items: map[string]row{}, lastID: 0x1000}
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts:    []fakecloud.Contract{fakecloud.OpenAPI(t, "testdata/api.json")},
		Authorized:   fakecloud.Bearer(testKey),
		Unauthorized: failure(401, "global/invalid-api-key", "API key was invalid, expired, or deleted."),
		Refused: func(status int, complaint string) fakecloud.Answer {
			return failure(status, "global/invalid-parameters", complaint)
		},
	})
	f.instances, f.keys = fakecloud.NewStore[*rental](f.Server), fakecloud.NewStore[row](f.Server)
	f.offer("gpu_1x_a10", "A10 (24 GB PCIe)", 75, 1, "us-west-1", "us-east-1")
	f.offer("gpu_1x_gh200", "GH200 (96 GB)", 149, 1, "us-east-3")
	f.offer("gpu_1x_h100_pcie", "H100 (80 GB PCIe)", 249, 1, "us-west-3")
	f.offer("gpu_8x_a100", "A100 (40 GB SXM4)", 1032, 8, "us-west-1")
	f.offer("gpu_8x_a100_80gb_sxm4", "A100 (80 GB SXM4)", 1432, 8)
	f.offer("cpu_4x_general", "N/A", 20, 0, "us-west-1")
	for op, h := range map[string]fakecloud.Handler{
		opTypes:  func(*fakecloud.Call) fakecloud.Answer { return data(f.items) },
		opKeys:   func(c *fakecloud.Call) fakecloud.Answer { return data(f.keys.All(c)) },
		opAddKey: f.addKey, opDelKey: f.deleteKey, opLaunch: f.launch, opTerminate: f.terminate, opList: f.list, opShow: f.show,
	} {
		f.Handle(op, h)
	}
	return f
}

// offer adds a type of machine, which is available in some regions.
func (f *fake) offer(name, gpus string, cents, count int, regions ...string) {
	free := []row{}
	for _, r := range regions {
		free = append(free, regionRow(r))
	}
	f.items[name] = row{"regions_with_capacity_available": free, "instance_type": row{
		"name": name, "description": fmt.Sprintf("%dx %s", count, gpus), "gpu_description": gpus, "price_cents_per_hour": cents,
		"specs": row{"vcpus": 26 * max(count, 1), "memory_gib": 200 * max(count, 1), "storage_gib": 1024, "gpus": count},
	}}
}

func regionRow(name string) row { return row{"name": name, "description": "Somewhere, USA"} }

func data(v any) fakecloud.Answer { return fakecloud.Reply(200, row{"data": v}) }

func failure(status int, code, message string) fakecloud.Answer {
	return fakecloud.Reply(status, row{"error": row{"code": code, "message": message, "suggestion": "Try again."}})
}

func (f *fake) nextID() string {
	f.lastID++
	return fmt.Sprintf("%032x", f.lastID)
}

// addKey refuses a duplicate name or key, as the service does.
func (f *fake) addKey(c *fakecloud.Call) fakecloud.Answer {
	var in sshKey
	c.Decode(&in)
	if in.PublicKey == "" {
		f.t.Error("a key is asked for without its public half: the service would make a pair")
	}
	for _, k := range f.keys.All(nil) {
		if k["name"] == in.Name {
			return failure(400, "global/invalid-parameters", "Invalid request data: name must be unique.")
		}
	}
	return data(f.putKey(c, in.Name, in.PublicKey))
}

func (f *fake) putKey(c *fakecloud.Call, name, line string) row {
	k := row{"id": f.nextID(), "name": name, "public_key": line}
	f.keys.Put(c, k["id"].(string), k)
	return k
}

func (f *fake) deleteKey(c *fakecloud.Call) fakecloud.Answer {
	if !f.keys.Delete(c, c.Vars["id"]) {
		return fakecloud.Undescribed(404, row{"error": row{"code": "global/object-does-not-exist", "message": "Specified SSH key does not exist."}})
	}
	return data(row{})
}

func (f *fake) launch(c *fakecloud.Call) fakecloud.Answer {
	var in launch
	c.Decode(&in)
	keys := f.keys.All(nil)
	i := slices.IndexFunc(keys, func(k row) bool { return len(in.SSHKeys) == 1 && k["name"] == in.SSHKeys[0] })
	switch {
	case len(in.SSHKeys) != 1:
		return failure(400, "global/invalid-parameters", "Exactly one SSH key must be specified.")
	case i < 0:
		return failure(404, "global/object-does-not-exist", "Specified SSH key does not exist.")
	case len(in.FileSystems) > 0 && in.Region != "us-west-1":
		return failure(400, "instance-operations/launch/file-system-in-wrong-region", "Requested file system is not in the requested region.")
	case f.items[in.Type] == nil:
		return failure(400, "global/invalid-parameters", "Instance type does not exist.")
	case f.full && f.room == 0:
		return failure(400, "instance-operations/launch/insufficient-capacity", "Not enough capacity to fulfill launch request.")
	}
	if f.echoes {
		return failure(400, "global/invalid-parameters", "Invalid request data: "+in.UserData)
	}
	f.room--
	var tags []row
	for _, t := range in.Tags {
		tags = append(tags, row{"key": t.Key, "value": t.Value})
	}
	id := f.nextID()
	r := &rental{launch: in, row: row{
		"id": id, "name": in.Name, "status": "active", "ssh_key_names": in.SSHKeys, "file_system_names": append([]string{}, in.FileSystems...),
		"region": regionRow(in.Region), "instance_type": f.items[in.Type]["instance_type"], "tags": tags, "actions": actions(),
		"jupyter_token": "jupyter-secret-" + id, "jupyter_url": "https://jupyter.example.com/?token=jupyter-secret-" + id,
	}}
	switch {
	case f.unhealthy > 0:
		f.unhealthy--
		r.row["status"] = "unhealthy"
	case f.stalled:
		r.row["status"] = "booting"
	case f.noMachines:
		r.row["ip"] = "198.51.100.2"
	default:
		r.machine = cloudtest.Boot(f.t, in.UserData, fakecloud.MachineConfig{User: user})
		r.row["ip"] = r.machine.PublicIP
	}
	f.instances.Put(c, id, r)
	return data(row{"instance_ids": []string{id}})
}

func actions() row {
	available := row{"available": true}
	return row{"migrate": available, "rebuild": available, "restart": available, "cold_reboot": available, "terminate": available}
}

// terminate fails entirely if one of the machines does not exist.
func (f *fake) terminate(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		IDs []string `json:"instance_ids"`
	}
	c.Decode(&in)
	ended := []row{}
	for _, id := range in.IDs {
		r, ok := f.instances.Get(nil, id)
		if c.Missing() || !ok {
			return failure(404, "global/object-does-not-exist", "Specified instance does not exist.")
		}
		if !c.Undone() {
			f.end(c, id)
		}
		gone := row{"status": "terminating"}
		for k, v := range r.row {
			if k != "status" {
				gone[k] = v
			}
		}
		ended = append(ended, gone)
	}
	return data(row{"terminated_instances": ended})
}

func (f *fake) end(c *fakecloud.Call, id string) {
	if r, ok := f.instances.Get(nil, id); ok && r.machine != nil {
		r.machine.Kill()
	}
	f.instances.Delete(c, id)
}

func (f *fake) list(c *fakecloud.Call) fakecloud.Answer {
	rows := []row{}
	for _, r := range f.instances.All(c) {
		rows = append(rows, r.row)
	}
	return f.told(rows)
}

func (f *fake) show(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.instances.Get(c, c.Vars["id"])
	if !ok {
		return failure(404, "global/object-does-not-exist", "Specified instance does not exist.")
	}
	return f.told(r.row)
}

// told answers about instances.
func (f *fake) told(v any) fakecloud.Answer {
	if f.newWord {
		return fakecloud.Undescribed(200, row{"data": v})
	}
	return data(v)
}

// set changes fields of an instance. A nil value removes the field.
func (f *fake) set(id string, changed row) {
	f.Do(func() {
		r, ok := f.instances.Get(nil, id)
		if !ok {
			f.t.Fatalf("there is no instance %s", id)
		}
		for k, v := range changed {
			if r.row[k] = v; v == nil {
				delete(r.row, k)
			}
		}
	})
}

// launched returns the launches of the existing machines.
func (f *fake) launched() (all []launch) {
	f.Do(func() { all = cloud.Each(f.instances.All(nil), func(r *rental) launch { return r.launch }) })
	return all
}

// account returns all things in the account.
func (f *fake) account() (all []driver.Resource) {
	f.Do(func() {
		for _, r := range f.instances.All(nil) {
			all = append(all, cloudtest.Machine(r.row["id"], r.row["name"]))
		}
		for _, k := range f.keys.All(nil) {
			all = append(all, cloudtest.Key(k["id"], k["name"]))
		}
	})
	return all
}

// meters returns the instances as Lambda's meter reads them.
func (f *fake) meters() []fakecloud.Metered {
	return cloud.Each(f.instances.All(nil), func(r *rental) fakecloud.Metered {
		cents := r.row["instance_type"].(row)["price_cents_per_hour"].(int)
		return fakecloud.Metered{ID: r.row["id"].(string), State: r.row["status"].(string), HourlyUSD: float64(cents) / 100}
	})
}
