package jarvislabs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The operations, with the contract's names.
const (
	opBalance    = "GET /users/balance"
	opGroups     = "GET /misc/server_meta"
	opTemplates  = "GET /misc/frameworks"
	opKeys       = "GET /ssh/"
	opAddKey     = "POST /ssh/"
	opDelKey     = "DELETE /ssh/{key_id}"
	opCreate     = "POST /templates/{template}/create"
	opStatus     = "GET /misc/status"
	opList       = "GET /users/fetch"
	opShow       = "GET /users/fetch/{machine_id}"
	opDestroy    = "POST /misc/destroy"
	opDestroyVM  = "POST /templates/vm/destroy"
	opDestroyCPU = "POST /templates/vm/cpu/destroy"
	testKey      = "jl-0123456789abcdef"
	noida        = "india-noida-01"
	chennai      = "india-chennai-01"
	eu           = "europe-01"
)

type row = cloudtest.Row

// hosts are the hosts of the regions.
var hosts = map[string]string{noida: "backendn.jarvislabs.net", chennai: "backendc.jarvislabs.net", eu: "backendeu.jarvislabs.net"}

// A fake is Jarvis Labs with its quirks: hosts by region, failures under a 200, types that
// vary, keys that go into every machine. Only its handlers and functions passed to Do may
// touch its fields.
type fake struct {
	*fakecloud.Server
	t         testing.TB
	address   string // of machines
	instances *fakecloud.Store[*rental]
	keys      *fakecloud.Store[row]
	groups    []row
	currency  string
	wallet    float64

	status     string // of a new instance
	noMachines bool   // instances are only rows, with no machine behind them
	full       bool   // capacity is limited to room more instances
	room       int
	lastID     int
}

// A rental is an instance's row and the machine behind it.
type rental struct {
	row     row
	machine *fakecloud.Machine
}

func startFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{t: t, address: fakecloud.OwnAddress(t), currency: "USD", wallet: 12.25, status: "Running", lastID: 123456}
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts:    []fakecloud.Contract{fakecloud.OpenAPI(t, "testdata/api.json")},
		Authorized:   fakecloud.Bearer(testKey),
		Unauthorized: fakecloud.Reply(401, row{"message": "Invalid token"}),
		Refused: func(status int, complaint string) fakecloud.Answer {
			return fakecloud.Reply(422, row{"detail": []row{{"loc": []string{"body"}, "msg": complaint, "type": "value_error"}}})
		},
	})
	f.instances, f.keys = fakecloud.NewStore[*rental](f.Server), fakecloud.NewStore[row](f.Server)
	f.groups = []row{
		groupRow("L4", noida, 6, nil), groupRow("L4", noida, 8, nil), groupRow("L4", chennai, 4, row{"workload_type": nil}),
		groupRow("A100", noida, 1, row{"vram": "80", "price_per_hour": 0.89}), groupRow("L4", noida, 8, row{"workload_type": "vm"}),
		groupRow("H100", eu, 8, row{"price_per_hour": 2.99, "spot_price": nil, "cpus_per_gpu": 16, "ram_per_gpu": "200", "workload_type": nil}),
		groupRow("L4", "mars-01", 8, nil),
	}
	for op, h := range map[string]fakecloud.Handler{
		opBalance: func(*fakecloud.Call) fakecloud.Answer {
			return fakecloud.Reply(200, row{"balance": f.wallet, "grants": 0.25})
		},
		opGroups: func(*fakecloud.Call) fakecloud.Answer {
			return fakecloud.Reply(200, row{"server_meta": f.groups, "currency": f.currency})
		},
		opTemplates: func(*fakecloud.Call) fakecloud.Answer {
			return fakecloud.Reply(200, row{"frameworks": []row{{"id": "pytorch", "title": "PyTorch"}, {"id": "vm", "title": "VM"}}})
		},
		opKeys: f.listKeys, opAddKey: f.addKey, opDelKey: f.deleteKey, opCreate: f.create, opList: f.list, opShow: f.show, opStatus: f.why,
		opDestroy:    func(c *fakecloud.Call) fakecloud.Answer { return f.destroy(c, "pytorch") },
		opDestroyVM:  func(c *fakecloud.Call) fakecloud.Answer { return f.destroy(c, "vm") },
		opDestroyCPU: func(c *fakecloud.Call) fakecloud.Answer { return f.destroy(c, "vm cpu") },
	} {
		f.Handle(op, h)
	}
	return f
}

// config returns a Config for the vendor's hosts, whose calls go to the fake.
func (f *fake) config() Config {
	to, err := url.Parse(f.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	return Config{APIKey: testKey, HTTPClient: &http.Client{Transport: toFake{to, &http.Transport{DisableKeepAlives: true}}}}
}

// toFake sends all calls to the fake, with a header that names the original host.
type toFake struct {
	to   *url.URL
	next http.RoundTripper
}

func (h toFake) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := req.Clone(req.Context())
	if strings.HasSuffix(req.URL.Host, ".jarvislabs.net") {
		sent.Host = req.URL.Host
		sent.URL.Scheme, sent.URL.Host = h.to.Scheme, h.to.Host
	}
	return h.next.RoundTrip(sent)
}

func groupRow(gpu, region string, free int, changed row) row {
	r := row{
		"gpu_type": gpu, "region": region, "num_free_devices": free, "effective_num_free_devices": strconv.Itoa(free), "spot_num_free_devices": free,
		"price_per_hour": 0.44, "spot_price": 0.29, "vram": "24", "cpus_per_gpu": 28, "ram_per_gpu": "124GB", "workload_type": "container", "num_gpus": "8",
	}
	for k, v := range changed {
		r[k] = v
	}
	return r
}

func refuse(status int, message string) fakecloud.Answer {
	return fakecloud.Reply(status, row{"success": false, "message": message})
}

func (f *fake) listKeys(c *fakecloud.Call) fakecloud.Answer {
	return fakecloud.Reply(200, f.keys.All(c))
}

func (f *fake) addKey(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		Key  string `json:"ssh_key"`
		Name string `json:"key_name"`
	}
	c.Decode(&in)
	if len(f.keys.All(nil)) >= 10 {
		return fakecloud.Reply(200, row{"sucess": "False", "message": "You have reached the limit of SSH keys"})
	}
	f.putKey(c, in.Name, in.Key)
	return fakecloud.Reply(200, row{"success": true})
}

func (f *fake) putKey(c *fakecloud.Call, name, line string) string {
	f.lastID++
	id := strconv.Itoa(f.lastID)
	f.keys.Put(c, id, row{"ssh_key": line, "key_name": name, "key_id": id, "user_id": "u1"})
	return id
}

func (f *fake) deleteKey(c *fakecloud.Call) fakecloud.Answer {
	return fakecloud.Reply(200, row{"success": f.keys.Delete(c, c.Vars["key_id"])})
}

// elsewhere reports whether a call went to a host of the vendor's that does not have the
// region.
func elsewhere(c *fakecloud.Call, region any) bool {
	host := c.Header.Get("Host")
	return strings.HasSuffix(host, ".jarvislabs.net") && host != hosts[fmt.Sprint(region)]
}

func notFound() fakecloud.Answer { return fakecloud.Undescribed(404, row{"detail": "Not Found"}) }

func (f *fake) create(c *fakecloud.Call) fakecloud.Answer {
	var in createInstance
	c.Decode(&in)
	keys := f.keys.All(nil)
	switch {
	case elsewhere(c, in.Region):
		return notFound()
	case f.wallet+0.25 <= 0:
		return fakecloud.Reply(403, row{"message": "Insufficient balance"})
	case f.full && f.room == 0:
		return refuse(200, "Requested GPU is not available at the moment")
	case in.Region == eu && (in.Storage < 100 || in.GPUs != 1 && in.GPUs != 8), in.GPUs > 8:
		return refuse(400, "no such machine is sold")
	case len(keys) == 0:
		return refuse(400, "add an SSH key first")
	}
	f.room--
	r := f.put(c, in, c.Vars["template"])
	if !f.noMachines && f.status == "Running" {
		r.machine = fakecloud.NewMachine(f.t, fakecloud.MachineConfig{AuthorizedKey: keys[len(keys)-1]["ssh_key"].(string), Address: f.address})
		r.row["ssh_str"] = fmt.Sprintf("ssh -o StrictHostKeyChecking=no -p %d root@%s", r.machine.Port, r.machine.Host)
	}
	return fakecloud.Reply(200, row{"machine_id": strconv.Itoa(f.lastID), "success": "True"})
}

func (f *fake) put(c *fakecloud.Call, in createInstance, template string) *rental {
	f.lastID++
	r := &rental{row: row{
		"machine_id": f.lastID, "status": f.status, "gpu_type": in.GPU, "num_gpus": in.GPUs, "hdd": in.Storage, "framework": template,
		"instance_name": in.Name, "ssh_str": nil, "public_ip": nil, "region": in.Region, "cost": 0.44, "duration": "hour", "is_spot": in.Spot,
		"cores": 28 * in.GPUs, "ram": "124GB", "disk_type": "ssd",
	}}
	f.instances.Put(c, strconv.Itoa(f.lastID), r)
	return r
}

func (f *fake) list(c *fakecloud.Call) fakecloud.Answer {
	all := []row{}
	for _, r := range f.instances.All(c) {
		all = append(all, r.row)
	}
	return fakecloud.Reply(200, row{"success": true, "instances": all})
}

func (f *fake) show(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.instances.Get(c, c.Vars["machine_id"])
	if !ok {
		return fakecloud.Reply(200, row{"success": false})
	}
	return fakecloud.Reply(200, row{"success": true, "instance": r.row})
}

func (f *fake) why(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.instances.Get(c, c.Query.Get("machine_id"))
	switch {
	case !ok, elsewhere(c, r.row["region"]):
		return fakecloud.Reply(404, row{"detail": "Not Found"})
	case r.row["status"] == "Failed":
		return fakecloud.Reply(200, row{"status": "Failed", "error": "container failed to start", "code": "500"})
	}
	return fakecloud.Reply(200, row{"status": r.row["status"], "error": "None", "code": "None"})
}

func (f *fake) destroy(c *fakecloud.Call, kind string) fakecloud.Answer {
	r, ok := f.instances.Get(nil, c.Query.Get("machine_id"))
	switch {
	case c.Missing() || !ok:
		return refuse(404, "Machine not found")
	case elsewhere(c, r.row["region"]):
		return notFound()
	}
	is := fmt.Sprint(r.row["framework"])
	if r.row["gpu_type"] == "CPU" {
		is += " cpu"
	}
	if is != kind {
		return refuse(404, "Machine not found among those of "+kind)
	}
	if c.Undone() {
		return fakecloud.Reply(200, row{"sucess": "True"})
	}
	if r.machine != nil {
		r.machine.Kill()
	}
	f.instances.Delete(c, c.Query.Get("machine_id"))
	return fakecloud.Reply(200, row{"sucess": "True"})
}

// everything returns all things in the account.
func (f *fake) everything() (all []driver.Resource) {
	f.Do(func() {
		for _, r := range f.instances.All(nil) {
			all = append(all, cloudtest.Machine(r.row["machine_id"], r.row["instance_name"]))
		}
		for _, k := range f.keys.All(nil) {
			all = append(all, driver.Resource{Kind: "key", ID: fmt.Sprint(k["key_id"]), Name: fmt.Sprint(k["key_name"])})
		}
	})
	return all
}

// set changes fields of an instance.
func (f *fake) set(id string, changed row) {
	f.t.Helper()
	f.Do(func() {
		r, ok := f.instances.Get(nil, id)
		if !ok {
			f.t.Errorf("there is no instance %s", id)
			return
		}
		for k, v := range changed {
			r.row[k] = v
		}
	})
}

// created returns the body and the host of the last create.
func (f *fake) created() (in createInstance, host string) {
	records := f.Records(opCreate)
	last := records[len(records)-1]
	if err := json.Unmarshal([]byte(last.Body), &in); err != nil {
		f.t.Error(err)
	}
	return in, last.Header.Get("Host")
}

// meters returns the instances as Jarvis Labs' meter reads them.
func (f *fake) meters() (all []fakecloud.Metered) {
	for _, r := range f.instances.All(nil) {
		for _, g := range f.groups {
			if g["gpu_type"] == r.row["gpu_type"] && g["region"] == r.row["region"] {
				price := g["price_per_hour"]
				if r.row["is_spot"] == true {
					price = g["spot_price"]
				}
				all = append(all, fakecloud.Metered{
					ID: fmt.Sprint(r.row["machine_id"]), State: fmt.Sprint(r.row["status"]),
					HourlyUSD: price.(float64) * float64(r.row["num_gpus"].(int)), ExistsUSD: 0.00014 * float64(r.row["hdd"].(int)),
				})
				break
			}
		}
	}
	return all
}
