package hyperstack

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The operations, with the contract's names.
const (
	opMe         = "GET /v1/auth/me"
	opCredit     = "GET /v1/billing/user-credit/credit"
	opPrices     = "GET /v1/pricebook"
	opFlavors    = "GET /v1/core/flavors"
	opStocks     = "GET /v1/core/stocks"
	opImages     = "GET /v1/core/images"
	opEnvs       = "GET /v1/core/environments"
	opAddEnv     = "POST /v1/core/environments"
	opDelEnv     = "DELETE /v1/core/environments/{id}"
	opSubnet     = "GET /v1/core/environments/{id}/vm-quota"
	opKeys       = "GET /v1/core/keypairs"
	opAddKey     = "POST /v1/core/keypairs"
	opDelKey     = "DELETE /v1/core/keypair/{id}"
	opMachines   = "GET /v1/core/virtual-machines"
	opCreate     = "POST /v1/core/virtual-machines"
	opMachine    = "GET /v1/core/virtual-machines/{vm_id}"
	opDelete     = "DELETE /v1/core/virtual-machines/{vm_id}"
	opLabel      = "PUT /v1/core/virtual-machines/{vm_id}/label"
	opSnapshots  = "GET /v1/core/snapshots"
	opSnapshot   = "POST /v1/core/virtual-machines/{vm_id}/snapshots"
	opMakeImage  = "POST /v1/core/snapshots/{snapshot_id}/image"
	opDelSnap    = "DELETE /v1/core/snapshots/{id}"
	opEvents     = "GET /v1/core/virtual-machines/{vm_id}/events"
	testKey      = "hs-0123456789abcdef"
	newestUbuntu = "Ubuntu Server 24.04 LTS R570 CUDA 12.8 with Docker"
)

type row = cloudtest.Row

// A fake is Hyperstack with its quirks: failures under a 200, numbers as texts, times without
// a zone, environments that cannot be removed while they have machines, machines that refuse
// to end while they are made. Only its handlers and functions passed to Do may touch its
// fields.
type fake struct {
	*fakecloud.Server
	t            testing.TB
	environments *fakecloud.Store[row]
	keys         *fakecloud.Store[row]
	machines     *fakecloud.Store[*rental]
	snapshots    *fakecloud.Store[*disk]
	flavors      []row
	stocks       []row
	prices       []row
	images       []row

	status       string // of a new machine
	noAddress    bool   // a new machine gets its floating IP later
	noMachines   bool   // machines are only rows, with no machine behind them
	slow         bool   // a deleted machine is still reported, as DELETING
	tooEarly     int    // how many deletions of a machine are refused as too early
	full         bool   // capacity is limited to room more machines
	room         int
	refusal      string // the answer to creates, if set
	credit       float64
	threshold    float64
	noMachinesAt bool   // the account may make no machines, whatever its credit is
	paysLater    bool   // the account may make machines without credit
	optimised    bool   // environments have the fast network
	keepKeys     bool   // key pairs outlive their environments
	cidr         string // of environments
	lastID       int
	mostPageSize int
	snapDelay    int  // for how many tries a snapshot is too new to become an image
	snapFails    bool // snapshots fail
	snapQuota    bool // the account may have no more snapshots
}

// A rental is a machine's row and the machine behind it.
type rental struct {
	row     row
	create  createMachine
	machine *fakecloud.Machine
}

func startFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{t: t, status: "ACTIVE", credit: 120.5, cidr: "10.0.0.0/16", lastID: 900, mostPageSize: 100}
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts:    []fakecloud.Contract{fakecloud.OpenAPI(t, "testdata/api.json")},
		Authorized:   fakecloud.KeyHeader("api_key", testKey),
		Unauthorized: fakecloud.Reply(401, row{"status": false, "message": "Unauthorized", "error_reason": "unauthorized"}),
		Refused: func(status int, complaint string) fakecloud.Answer {
			return refuse(status, "bad_request", complaint)
		},
	})
	f.environments, f.keys = fakecloud.NewStore[row](f.Server), fakecloud.NewStore[row](f.Server)
	f.machines, f.snapshots = fakecloud.NewStore[*rental](f.Server), fakecloud.NewStore[*disk](f.Server)
	f.flavors = []row{
		flavorRow("CANADA-1", "n3-H100x1", "H100-80G-PCIe", 1, true),
		flavorRow("CANADA-1", "n3-H100x8", "H100-80G-PCIe", 8, true),
		flavorRow("CANADA-1", "n3-H100x1-spot", "H100-80G-PCIe-spot", 1, true),
		flavorRow("US-1", "n3-H100x1", "H100-80G-PCIe", 1, true),
		flavorRow("NORWAY-1", "n3-A100x1", "A100-80G-PCIe", 1, false),
		flavorRow("NORWAY-1", "n1-cpu-small", "", 0, false),
	}
	f.stocks = []row{{"region": "CANADA-1", "stock-type": "GPU", "models": []row{
		{"model": "H100-80G-PCIe", "available": "48", "planned_7_days": "0", "configurations": row{"1x": 48, "8x": 2}},
	}}}
	f.prices = []row{
		{"id": 31, "name": "H100-80G-PCIe", "value": "1.9"}, {"id": 77, "name": "H100-80G-PCIe-spot", "value": "1.52"},
		{"id": 32, "name": "a100-80g-pcie", "value": 1.35}, {"id": 33, "name": "PublicIP", "value": "0.00672043"},
		{"id": 34, "name": "Cloud-SSD", "value": "0.000096774"}, {"id": 35, "name": "vCPU (cpu-only-flavors)", "value": "0.00336021"}, {"id": 36, "name": "RAM (cpu-only-flavors)", "value": 0.00235215},
		{"id": 37, "name": "hypervisor-local-storage", "value": "0E-9"},
	}
	f.images = []row{
		imageRow(210, "Ubuntu Server 22.04 LTS R535 CUDA 12.2"), imageRow(211, newestUbuntu), imageRow(212, "Windows Server 2022"),
	}
	for op, h := range map[string]fakecloud.Handler{
		opMe: func(*fakecloud.Call) fakecloud.Answer {
			return success(row{"user": row{"username": "ada", "name": "Ada", "email": "ada@example.com", "created_at": "2024-01-16T10:01:31"}})
		},
		opCredit: func(*fakecloud.Call) fakecloud.Answer {
			return success(row{"data": row{"credit": f.credit, "threshold": f.threshold, "can_create_instance": f.solvent()}})
		},
		opPrices: func(*fakecloud.Call) fakecloud.Answer { return fakecloud.Reply(200, f.prices) },
		opStocks: func(*fakecloud.Call) fakecloud.Answer { return fakecloud.Reply(200, row{"stocks": f.stocks}) },
		opSubnet: func(*fakecloud.Call) fakecloud.Answer { return success(row{"max_vms": 200, "cidr": f.cidr}) },
		opEvents: func(c *fakecloud.Call) fakecloud.Answer {
			return success(row{"instance_events": []row{{"reason": "scheduler", "message": "No valid host was found", "time": "2026-10-01T10:00:30"}}})
		},
		opFlavors: f.listFlavors, opImages: f.listImages, opEnvs: f.listEnvironments, opAddEnv: f.addEnvironment, opDelEnv: f.deleteEnvironment,
		opKeys: f.listKeys, opAddKey: f.addKey, opDelKey: f.deleteKey,
		opSnapshots: f.listSnapshots, opSnapshot: f.snapshot, opMakeImage: f.makeImage, opDelSnap: f.deleteSnapshot,
		opMachines: f.list, opCreate: f.create, opMachine: f.show, opDelete: f.delete, opLabel: f.label,
	} {
		f.Handle(op, h)
	}
	return f
}

// solvent reports whether the account may make machines.
func (f *fake) solvent() bool {
	return f.paysLater || f.credit > 0 && f.credit >= f.threshold && !f.noMachinesAt
}

func (f *fake) config() Config {
	return Config{APIKey: testKey, Endpoint: f.URL + "/v1", TeardownTimeout: time.Minute, TeardownPollInterval: 5 * time.Millisecond}
}

func flavorRow(region, name, gpu string, count int, optimised bool) row {
	return row{
		"id": 95, "name": name, "display_name": nil, "region_name": region, "cpu": 28, "ram": 180.0, "disk": 100, "ephemeral": 750, "gpu": gpu,
		"gpu_count": count, "stock_available": true, "created_at": "2024-01-16T10:01:31", "labels": []row{}, "features": row{"network_optimised": optimised},
	}
}

func imageRow(id int, name string) row {
	return row{"id": id, "name": name, "type": "Ubuntu", "is_public": true, "labels": []row{}, "flavor_restrictions": nil}
}

func refuse(status int, reason, message string) fakecloud.Answer {
	return fakecloud.Reply(status, row{"status": false, "message": message, "error_reason": reason})
}

func missing(what string) fakecloud.Answer { return refuse(404, "not_found", what+" does not exists") }

func success(more row) fakecloud.Answer {
	out := row{"status": true, "message": "done"}
	maps.Copy(out, more)
	return fakecloud.Reply(200, out)
}

// page returns the requested page, with at most mostPageSize items.
func page[T any](f *fake, c *fakecloud.Call, size string, all []T) []T {
	n, _ := strconv.Atoi(c.Query.Get(size))
	n = min(max(n, 1), f.mostPageSize)
	from, _ := strconv.Atoi(c.Query.Get("page"))
	from = (max(from, 1) - 1) * n
	return append([]T{}, all[min(from, len(all)):min(from+n, len(all))]...)
}

func (f *fake) listFlavors(c *fakecloud.Call) fakecloud.Answer {
	groups := []row{}
	for _, v := range f.flavors {
		if region := c.Query.Get("region"); region == "" || region == v["region_name"] {
			groups = append(groups, row{"gpu": v["gpu"], "region_name": v["region_name"], "flavors": []row{v}})
		}
	}
	return success(row{"data": groups})
}

func (f *fake) listImages(c *fakecloud.Call) fakecloud.Answer {
	groups, all := []row{}, f.images
	if c.Query.Get("include_public") == "false" {
		all = nil
	}
	for _, d := range f.snapshots.All(c) {
		if region := c.Query.Get("region"); d.image != nil && (region == "" || d.image["region_name"] == region) {
			all = append(slices.Clip(all), d.image)
		}
	}
	for _, v := range page(f, c, "per_page", all) {
		groups = append(groups, row{"region_name": c.Query.Get("region"), "type": "Ubuntu", "images": []row{v}})
	}
	return success(row{"images": groups})
}

func (f *fake) listEnvironments(c *fakecloud.Call) fakecloud.Answer {
	all := []row{}
	for _, e := range f.environments.All(c) {
		if strings.Contains(e["name"].(string), c.Query.Get("search")) {
			all = append(all, e)
		}
	}
	return success(row{"environments": page(f, c, "pageSize", all), "count": len(all), "page": 1, "page_size": f.mostPageSize})
}

func (f *fake) addEnvironment(c *fakecloud.Call) fakecloud.Answer {
	var in struct{ Name, Region string }
	c.Decode(&in)
	for _, e := range f.environments.All(nil) {
		if e["name"] == in.Name {
			return refuse(409, "conflict", "Environment with this name already exists")
		}
	}
	return success(row{"environment": f.putEnvironment(c, in.Name, in.Region)})
}

func (f *fake) putEnvironment(c *fakecloud.Call, name, region string) row {
	f.lastID++
	e := row{
		"id": f.lastID, "name": name, "region": region, "created_at": "2026-10-01T10:00:00",
		"features": row{"network_optimised": f.optimised, "green_status": "NOT_GREEN"},
	}
	f.environments.Put(c, strconv.Itoa(f.lastID), e)
	return e
}

func (f *fake) deleteEnvironment(c *fakecloud.Call) fakecloud.Answer {
	id := c.Vars["id"]
	if _, ok := f.environments.Get(nil, id); !ok {
		return missing("Environment")
	}
	for _, r := range f.machines.All(nil) {
		if fmt.Sprint(r.row["environment"].(row)["id"]) == id {
			return refuse(400, "bad_request", "Environment has virtual machines and cannot be deleted")
		}
	}
	for _, k := range f.keys.All(nil) {
		if fmt.Sprint(k["environment"].(row)["id"]) == id && !f.keepKeys {
			f.keys.Delete(c, fmt.Sprint(k["id"]))
		}
	}
	f.environments.Delete(c, id)
	return success(nil)
}

func (f *fake) listKeys(c *fakecloud.Call) fakecloud.Answer {
	all := f.keys.All(c)
	return success(row{"keypairs": page(f, c, "pageSize", all), "count": len(all), "page": 1, "page_size": f.mostPageSize})
}

func (f *fake) environment(name string) row {
	for _, e := range f.environments.All(nil) {
		if e["name"] == name {
			return e
		}
	}
	return nil
}

func (f *fake) addKey(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		Environment string `json:"environment_name"`
		Name        string `json:"name"`
		PublicKey   string `json:"public_key"`
	}
	c.Decode(&in)
	e := f.environment(in.Environment)
	if e == nil {
		return missing("Environment")
	}
	return success(row{"keypair": f.putKey(c, e, in.Name, in.PublicKey)})
}

func (f *fake) putKey(c *fakecloud.Call, e row, name, line string) row {
	f.lastID++
	k := row{"id": f.lastID, "name": name, "public_key": line, "fingerprint": "6d:f3", "environment": e, "created_at": "2026-10-01T10:00:00"}
	f.keys.Put(c, strconv.Itoa(f.lastID), k)
	return k
}

func (f *fake) deleteKey(c *fakecloud.Call) fakecloud.Answer {
	if !f.keys.Delete(c, c.Vars["id"]) {
		return missing("Keypair")
	}
	return success(nil)
}

// everything returns all things in the account.
func (f *fake) everything() (all []driver.Resource) {
	f.Do(func() {
		for _, r := range f.machines.All(nil) {
			all = append(all, driver.Resource{Kind: "machine", ID: fmt.Sprint(r.row["id"]), Name: strings.TrimPrefix(fmt.Sprint(r.row["name"]), "gputrain-")})
		}
		for _, e := range f.environments.All(nil) {
			all = append(all, driver.Resource{Kind: "environment", ID: fmt.Sprint(e["id"]), Name: fmt.Sprint(e["name"])})
		}
		for _, k := range f.keys.All(nil) {
			all = append(all, driver.Resource{Kind: "key", ID: fmt.Sprint(k["id"]), Name: fmt.Sprint(k["name"])})
		}
		for _, d := range f.snapshots.All(nil) {
			all = append(all, driver.Resource{Kind: "image", ID: fmt.Sprint(d.row["id"]), Name: fmt.Sprint(d.row["name"])})
		}
	})
	return all
}
