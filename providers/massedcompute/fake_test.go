package massedcompute

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

// The operations, with the contract's names.
const (
	opValidate  = "POST /api/v1/account/token/validation"
	opInventory = "GET /api/v1/gpu-inventory"
	opKeys      = "GET /api/v1/ssh-keys"
	opAddKey    = "POST /api/v1/ssh-keys"
	opDelKey    = "DELETE /api/v1/ssh-keys/{id}"
	opLaunch    = "POST /api/v1/instance/launch"
	opTerminate = "POST /api/v1/instance/terminate"
	opList      = "GET /api/v1/instance"
	opShow      = "GET /api/v1/instance/{uuid}"
)

const (
	testKey  = "mc-0123456789abcdef0123456789abcdef"
	password = "Pa55-of-machine-"
)

type row = cloudtest.Row

// A fake is Massed Compute with its quirks. Only its handlers and functions passed to Do may
// touch its fields.
type fake struct {
	*fakecloud.Server
	t         testing.TB
	inventory map[string]row
	instances *fakecloud.Store[*rental]
	keys      *fakecloud.Store[row]

	noMachines bool   // instances are only rows, with no machine behind them
	stalled    bool   // launched instances do not boot
	failing    string // a product whose machines do not come up
	described  bool   // one machine is answered as in the description, not as by the service
	full       bool   // capacity is limited to room more instances
	room       int
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
	f := &fake{t: t, inventory: map[string]row{}, lastID: 100}
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts:    []fakecloud.Contract{fakecloud.OpenAPI(t, "testdata/api.json")},
		Authorized:   fakecloud.Bearer(testKey),
		Unauthorized: failure(401, "Invalid Token"),
		Refused:      failure,
	})
	f.instances, f.keys = fakecloud.NewStore[*rental](f.Server), fakecloud.NewStore[row](f.Server)
	f.offer("gpu_1x_l40", "1x L40 (48GB)", 86, 19)
	f.offer("gpu_1x_l40_spot", "1x L40 (48GB) [Spot]", 67, 7)
	f.offer("gpu_8x_DGX_A100", "8x DGX A100 (80GB) [Premium]", 984, 1)
	f.offer("gpu_4x_h200_nvl_nvlink_discount", "4x H200 NVL (141GB)", 980, 2)
	f.offer("gpu_1x_a30", "1x A30 (24GB)", 35, 0)
	for op, h := range map[string]fakecloud.Handler{
		opValidate:  func(*fakecloud.Call) fakecloud.Answer { return fakecloud.Reply(200, row{"message": "Valid Token"}) },
		opInventory: func(*fakecloud.Call) fakecloud.Answer { return fakecloud.Reply(200, row{"gpu_inventory": f.inventory}) },
		opKeys:      func(c *fakecloud.Call) fakecloud.Answer { return fakecloud.Reply(200, row{"sshKeys": f.keys.All(c)}) },
		opAddKey:    f.addKey, opDelKey: f.deleteKey, opLaunch: f.launch, opTerminate: f.terminate, opList: f.list, opShow: f.show,
	} {
		f.Handle(op, h)
	}
	return f
}

func failure(status int, text string) fakecloud.Answer {
	return fakecloud.Reply(status, row{"message": text})
}

// offer adds a product, with that many free machines.
func (f *fake) offer(name, description string, cents, capacity int) {
	regions := []row{}
	if capacity > 0 {
		regions = append(regions, row{"name": "us-central-1", "description": "Wichita, KS"})
	}
	f.inventory[name] = row{
		"instance_type": row{
			"name": name, "description": description, "price_cents_per_hour": cents,
			"specs": row{"vcpu_count": 14, "memory_gib": 72, "storage_gb": 625},
		},
		"regions_with_capacity_available": regions, "capacity_available": capacity,
	}
}

func (f *fake) nextID() int {
	f.lastID++
	return f.lastID
}

// addKey accepts names of letters, digits and spaces, each only once.
func (f *fake) addKey(c *fakecloud.Call) fakecloud.Answer {
	var in struct{ Name, PublicKey string }
	c.Decode(&in)
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == ' ')
	}
	if strings.ContainsFunc(in.Name, odd) {
		return fakecloud.Undescribed(400, row{"message": "Name may only contain letters and numbers"})
	}
	k := f.putKey(c, in.Name, in.PublicKey)
	return fakecloud.Reply(200, row{"sshKey": row{"id": k["id"], "name": k["name"]}})
}

func (f *fake) putKey(c *fakecloud.Call, name, line string) row {
	k := row{"id": fmt.Sprint(f.nextID()), "name": name, "public_key": line}
	f.keys.Put(c, k["id"].(string), k)
	return k
}

func (f *fake) deleteKey(c *fakecloud.Call) fakecloud.Answer {
	if !f.keys.Delete(c, c.Vars["id"]) {
		return fakecloud.Undescribed(404, row{"message": "SSH key not found"})
	}
	return fakecloud.Reply(200, row{"result": row{}})
}

func (f *fake) launch(c *fakecloud.Call) fakecloud.Answer {
	var in launch
	c.Decode(&in)
	keys := f.keys.All(nil)
	i := slices.IndexFunc(keys, func(k row) bool { return len(in.SSHKeys) == 1 && k["name"] == in.SSHKeys[0] })
	product := f.inventory[in.Product]
	switch {
	case i < 0:
		f.t.Errorf("a launch names the keys %q, which the account does not have: no login would be possible", in.SSHKeys)
		return failure(400, "SSH key not found")
	case in.Region != "any":
		return failure(400, "regionName must be any")
	case product == nil:
		return failure(400, "Product not found")
	case in.ImageID != DefaultImage:
		return failure(400, "Product does not support the VM Image")
	case f.full && f.room == 0:
		return failure(409, "The selected product is no longer available")
	}
	f.room--
	kind := product["instance_type"].(row)
	price := fmt.Sprintf("%d.%02d0000", kind["price_cents_per_hour"].(int)/100, kind["price_cents_per_hour"].(int)%100)
	uuid := fmt.Sprintf("8b52a46b-a892-4fde-925c-%012d", f.nextID())
	r := &rental{launch: in, row: row{
		"uuid": uuid, "name": in.Name, "ip": "", "username": "Ubuntu", "password": password + uuid, "status": "rented", "os_booted": 0,
		"command_startup": in.Command, "created": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "active": 1, "region": row{"name": "us-central-1", "description": "Wichita, KS"},
		"image": row{"id": in.ImageID, "name": "Ubuntu Server 24.04", "description": ""},
		"product": row{
			"name": in.Product, "description": kind["description"], "gpu_count": 1, "vcpu": 14, "ram": 72, "storage": 625,
			"price_hr": price, "final_price_hr": price,
		},
	}}
	switch {
	case f.stalled:
	case f.failing == in.Product:
		r.row["status"] = "failed"
	case f.noMachines:
		r.row["ip"], r.row["os_booted"] = "203.0.113.7", 1
	default:
		r.machine = fakecloud.NewMachine(f.t, fakecloud.MachineConfig{AuthorizedKey: keys[i]["public_key"].(string), User: "ubuntu"})
		r.row["ip"], r.row["os_booted"] = r.machine.PublicIP, 1
	}
	f.instances.Put(c, uuid, r)
	return fakecloud.Reply(202, row{"response": uuid})
}

func (f *fake) terminate(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		UUIDs []string `json:"instanceUuids"`
	}
	c.Decode(&in)
	for _, uuid := range in.UUIDs {
		if _, ok := f.instances.Get(nil, uuid); c.Missing() || !ok {
			return failure(404, "Instance not found")
		}
		if !c.Undone() {
			f.end(c, uuid)
		}
	}
	return fakecloud.Reply(202, row{"response": row{"data": row{"terminated_instances": []row{}}}}) // the list may be empty
}

func (f *fake) end(c *fakecloud.Call, uuid string) {
	if r, ok := f.instances.Get(nil, uuid); ok && r.machine != nil {
		r.machine.Kill()
	}
	f.instances.Delete(c, uuid)
}

func (f *fake) list(c *fakecloud.Call) fakecloud.Answer {
	rows := []row{}
	for _, r := range f.instances.All(c) {
		rows = append(rows, r.row)
	}
	return fakecloud.Reply(200, row{"runningInstances": rows})
}

// show answers with a list, which is empty if the machine does not exist.
func (f *fake) show(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.instances.Get(c, c.Vars["uuid"])
	switch {
	case !ok:
		return fakecloud.Reply(200, row{"runningInstances": []row{}})
	case f.described:
		return fakecloud.Reply(200, row{"runningInstance": r.row})
	}
	return fakecloud.Reply(200, row{"runningInstances": []row{r.row}})
}

// set changes fields of an instance.
func (f *fake) set(uuid string, changed row) {
	f.Do(func() {
		r, ok := f.instances.Get(nil, uuid)
		if !ok {
			f.t.Fatalf("there is no instance %s", uuid)
		}
		for k, v := range changed {
			r.row[k] = v
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
			all = append(all, cloudtest.Machine(r.row["uuid"], r.row["name"]))
		}
		for _, k := range f.keys.All(nil) {
			all = append(all, cloudtest.Key(k["id"], k["name"]))
		}
	})
	return all
}

// meters returns the instances as Massed Compute's meter reads them.
func (f *fake) meters() []fakecloud.Metered {
	return cloud.Each(f.instances.All(nil), func(r *rental) fakecloud.Metered {
		cents := f.inventory[r.launch.Product]["instance_type"].(row)["price_cents_per_hour"].(int)
		return fakecloud.Metered{ID: r.row["uuid"].(string), State: r.row["status"].(string), HourlyUSD: float64(cents) / 100}
	})
}
