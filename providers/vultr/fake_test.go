package vultr

import (
	"encoding/base64"
	"encoding/json"
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
	opAccount = "GET /v2/account"
	opRegions = "GET /v2/regions"
	opPlans   = "GET /v2/plans"
	opServers = "GET /v2/plans-metal"
	opStock   = "GET /v2/regions/{region-id}/availability"

	opSnapshots    = "GET /v2/snapshots"
	opSnapshot     = "GET /v2/snapshots/{snapshot-id}"
	opMakeSnapshot = "POST /v2/snapshots"
	opDescribe     = "PUT /v2/snapshots/{snapshot-id}"
	opDelSnapshot  = "DELETE /v2/snapshots/{snapshot-id}"

	opCreate = "POST /v2/instances"
	opList   = "GET /v2/instances"
	opShow   = "GET /v2/instances/{instance-id}"
	opChange = "PATCH /v2/instances/{instance-id}"
	opEnd    = "DELETE /v2/instances/{instance-id}"

	opMetalCreate = "POST /v2/bare-metals"
	opMetalList   = "GET /v2/bare-metals"
	opMetalShow   = "GET /v2/bare-metals/{baremetal-id}"
	opMetalChange = "PATCH /v2/bare-metals/{baremetal-id}"
	opMetalEnd    = "DELETE /v2/bare-metals/{baremetal-id}"
)

const (
	testKey      = "VULTRKEY0123456789ABCDEF"
	testPassword = "v5{Fvj,MGtyV4A_s"
)

type row = cloudtest.Row

// A fake is Vultr with its quirks. Only its handlers and functions passed to Do may touch its
// fields.
type fake struct {
	*fakecloud.Server
	t        testing.TB
	plans    map[Mode][]row
	machines map[Mode]*fakecloud.Store[*rental]
	last     int
	owes     float64 // the account's balance: negative is credit
	broke    bool    // the account has neither credit nor a card

	sold       map[string]bool // by region/plan: out of stock
	status     string          // of a new machine
	unpriced   bool
	full       bool // capacity is limited to room more machines
	room       int
	pageSize   int
	busy       int  // how many ends are refused because of the installation
	noMachines bool // machines are only rows, with no machine behind them
	noTags     bool // tags are lost
	oldName    bool // a server has the name of the vendor's own description
	snapshots  *fakecloud.Store[*disk]
	snapDelay  int  // for how many answers a snapshot is pending
	snapFails  bool // snapshots are deleted in the making
}

// A rental is a machine's row and the machine behind it.
type rental struct {
	row     row
	machine *fakecloud.Machine
}

func startFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{t: t, owes: -50, status: "active", pageSize: 2, sold: map[string]bool{}, plans: map[Mode][]row{Cloud: cloudPlans(), BareMetal: metalPlans()}}
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts:    []fakecloud.Contract{fakecloud.OpenAPI(t, "testdata/api.json")},
		Authorized:   fakecloud.Bearer(testKey),
		Unauthorized: failure(401, "Invalid API token."),
		Refused:      failure,
	})
	f.machines = map[Mode]*fakecloud.Store[*rental]{Cloud: fakecloud.NewStore[*rental](f.Server), BareMetal: fakecloud.NewStore[*rental](f.Server)}
	f.Handle(opAccount, func(*fakecloud.Call) fakecloud.Answer {
		return fakecloud.Reply(200, row{"account": row{"name": "Example", "email": "a@example.com", "acls": []string{"provisioning"}, "balance": f.owes, "pending_charges": 1.25}})
	})
	f.Handle(opRegions, func(c *fakecloud.Call) fakecloud.Answer {
		return f.paged(c, "regions", []row{
			{"id": "ewr", "city": "New Jersey", "country": "US", "continent": "North America", "options": []string{"ddos_protection"}},
			{"id": "ord", "city": "Chicago", "country": "US", "continent": "North America", "options": []string{}},
			{"id": "fra", "city": "Frankfurt", "country": "DE", "continent": "Europe", "options": []string{}},
		})
	})
	f.Handle(opStock, f.stock)
	f.snapshots = fakecloud.NewStore[*disk](f.Server)
	f.Handle(opSnapshots, f.listSnapshots)
	f.Handle(opSnapshot, f.snapshot)
	f.Handle(opMakeSnapshot, f.makeSnapshot)
	f.Handle(opDescribe, f.describeSnapshot)
	f.Handle(opDelSnapshot, f.deleteSnapshot)
	for mode, ops := range map[Mode][6]string{
		Cloud:     {opPlans, opCreate, opList, opShow, opChange, opEnd},
		BareMetal: {opServers, opMetalCreate, opMetalList, opMetalShow, opMetalChange, opMetalEnd},
	} {
		f.Handle(ops[0], func(c *fakecloud.Call) fakecloud.Answer { return f.listPlans(c, mode) })
		f.Handle(ops[1], func(c *fakecloud.Call) fakecloud.Answer { return f.create(c, mode) })
		f.Handle(ops[2], func(c *fakecloud.Call) fakecloud.Answer { return f.list(c, mode) })
		f.Handle(ops[3], func(c *fakecloud.Call) fakecloud.Answer { return f.show(c, mode) })
		f.Handle(ops[4], func(c *fakecloud.Call) fakecloud.Answer { return f.change(c, mode) })
		f.Handle(ops[5], func(c *fakecloud.Call) fakecloud.Answer { return f.destroy(c, mode) })
	}
	return f
}

func (f *fake) config() Config {
	return Config{APIKey: testKey, Endpoint: f.URL + "/v2", RequestTimeout: 10 * time.Second}
}

func failure(status int, text string) fakecloud.Answer {
	return fakecloud.Failure(status, row{"error": text, "status": status}, "")
}

// paged answers with one page of a list.
func (f *fake) paged(c *fakecloud.Call, name string, all []row) fakecloud.Answer {
	from, _ := strconv.Atoi(c.Query.Get("cursor"))
	to := min(from+f.pageSize, len(all))
	next := ""
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return fakecloud.Reply(200, row{name: all[from:to], "meta": row{"total": len(all), "links": row{"next": next, "prev": ""}}})
}

func (f *fake) listPlans(c *fakecloud.Call, mode Mode) fakecloud.Answer {
	all := []row{}
	for _, p := range f.plans[mode] {
		p = maps.Clone(p)
		if f.unpriced {
			for _, field := range []string{"hourly_cost", "monthly_cost", "location_cost"} {
				delete(p, field)
			}
		}
		all = append(all, p)
	}
	return f.paged(c, products[mode].planList, all)
}

// stock answers with the plans in stock, of both modes.
func (f *fake) stock(c *fakecloud.Call) fakecloud.Answer {
	region, ids := c.Vars["region-id"], []string{}
	for _, p := range slices.Concat(f.plans[Cloud], f.plans[BareMetal]) {
		if id := fmt.Sprint(p["id"]); slices.Contains(p["locations"].([]string), region) && !f.sold[region+"/"+id] {
			ids = append(ids, id)
		}
	}
	return fakecloud.Reply(200, row{"available_plans": ids})
}

func (f *fake) create(c *fakecloud.Call, mode Mode) fakecloud.Answer {
	var in createRequest
	c.Decode(&in)
	known := slices.ContainsFunc(f.plans[mode], func(p row) bool { return p["id"] == in.Plan && slices.Contains(p["locations"].([]string), in.Region) })
	switch {
	case !known:
		return failure(400, "Invalid plan chosen.")
	case f.full && f.room == 0, f.sold[in.Region+"/"+in.Plan]:
		return failure(400, "Server add failed: The plan is out of stock in the selected region")
	case f.broke:
		return failure(400, "Server add failed: Your account has insufficient funds")
	case in.OSID == 0 && in.ImageID == "" && in.SnapshotID == "":
		return failure(400, "Invalid OS.")
	}
	content := ""
	if in.SnapshotID != "" {
		d, ok := f.snapshots.Get(nil, in.SnapshotID)
		if !ok || d.row["status"] != "complete" || mode != Cloud {
			return failure(400, "Invalid snapshot.")
		}
		content = d.content
	}
	if f.full {
		f.room--
	}
	f.last++
	id := fmt.Sprintf("cb676a46-66fd-4dfb-b839-%012x", f.last)
	r := &rental{row: row{
		"id": id, "os": "Ubuntu 24.04 LTS x64", "region": in.Region, "plan": in.Plan, "label": in.Label, "tags": in.Tags,
		"date_created": time.Now().UTC().Format(time.RFC3339), "status": f.status, "os_id": in.OSID, "image_id": in.ImageID, "features": []string{},
	}}
	if f.noTags {
		r.row["tags"] = []string{}
	}
	ip := fmt.Sprintf("198.18.255.%d", f.last%256)
	if text, err := base64.StdEncoding.DecodeString(in.UserData); err != nil {
		f.t.Errorf("user data: %v", err)
	} else if !f.noMachines {
		r.machine = cloudtest.Boot(f.t, string(text), fakecloud.MachineConfig{Disk: content})
		ip = r.machine.PublicIP
	}
	r.row["main_ip"] = ip
	answer := maps.Clone(r.row)
	answer["status"], answer["default_password"] = "pending", testPassword
	if mode == Cloud {
		r.row["power_status"], r.row["server_status"], r.row["ram"], r.row["hostname"] = "running", "ok", 184320, in.Hostname
		answer["main_ip"], answer["power_status"], answer["server_status"] = "0.0.0.0", "running", "none"
	} else {
		r.row["ram"], r.row["disk"], r.row["mac_address"] = "2097152 MB", "8x 3576GB NVMe", 2199756823533
		answer["main_ip"], answer["ram"] = "", "2097152 MB"
	}
	f.machines[mode].Put(c, id, r)
	if f.oldName && mode == BareMetal {
		return fakecloud.Undescribed(202, row{"baremetal": answer})
	}
	return fakecloud.Reply(202, row{products[mode].items[0]: answer})
}

func (f *fake) list(c *fakecloud.Call, mode Mode) fakecloud.Answer {
	all := []row{}
	for _, r := range f.machines[mode].All(c) {
		all = append(all, r.row)
	}
	return f.paged(c, products[mode].list, all)
}

func (f *fake) show(c *fakecloud.Call, mode Mode) fakecloud.Answer {
	r, ok := f.machines[mode].Get(c, variable(c))
	if !ok {
		return failure(404, "Invalid instance ID.")
	}
	return fakecloud.Reply(200, row{products[mode].items[0]: r.row})
}

func variable(c *fakecloud.Call) string { return c.Vars["instance-id"] + c.Vars["baremetal-id"] }

func (f *fake) change(c *fakecloud.Call, mode Mode) fakecloud.Answer {
	r, ok := f.machines[mode].Get(nil, variable(c))
	if !ok {
		return failure(404, "Invalid instance ID.")
	}
	changed := &rental{row: maps.Clone(r.row), machine: r.machine}
	var in row
	if err := json.Unmarshal(c.Body, &in); err != nil {
		return failure(400, err.Error())
	}
	maps.Copy(changed.row, in)
	f.machines[mode].Put(c, variable(c), changed)
	return fakecloud.Reply(202, row{products[mode].items[0]: changed.row})
}

func (f *fake) destroy(c *fakecloud.Call, mode Mode) fakecloud.Answer {
	if f.busy > 0 {
		f.busy--
		return failure(400, "Unable to destroy server: Server is currently being installed")
	}
	if c.Missing() || !c.Undone() && !f.end(c, mode, variable(c)) {
		return failure(404, "Invalid instance ID.")
	}
	return fakecloud.Reply(204, nil)
}

// end removes a machine.
func (f *fake) end(c *fakecloud.Call, mode Mode, id string) bool {
	r, _ := f.machines[mode].Get(nil, id)
	if !f.machines[mode].Delete(c, id) {
		return false
	}
	if r.machine != nil {
		go r.machine.Kill() // which its test waits for
	}
	return true
}

// set changes fields of a machine.
func (f *fake) set(id string, changed row) {
	mode, name := parseID(id)
	f.Do(func() {
		r, ok := f.machines[mode].Get(nil, name)
		if !ok {
			f.t.Errorf("no machine %s", id)
			return
		}
		now := &rental{row: maps.Clone(r.row), machine: r.machine}
		maps.Copy(now.row, changed)
		f.machines[mode].Put(nil, name, now)
	})
}

// account returns all things in the account.
func (f *fake) account() (all []driver.Resource) {
	f.Do(func() {
		for _, mode := range []Mode{Cloud, BareMetal} {
			for _, r := range f.machines[mode].All(nil) {
				name := strings.TrimPrefix(fmt.Sprint(r.row["label"]), "gputrain-")
				all = append(all, driver.Resource{Kind: "machine", ID: instanceID(mode, fmt.Sprint(r.row["id"])), Name: name})
			}
		}
		for _, d := range f.snapshots.All(nil) {
			all = append(all, driver.Resource{Kind: "image", ID: fmt.Sprint(d.row["id"]), Name: fmt.Sprint(d.row["id"])})
		}
	})
	return all
}

// meters returns the machines as Vultr's meter reads them.
func (f *fake) meters() (all []fakecloud.Metered) {
	for mode, machines := range f.machines {
		for _, r := range machines.All(nil) {
			for _, p := range f.plans[mode] {
				if p["id"] != r.row["plan"] {
					continue
				}
				usd := p["hourly_cost"]
				if there, ok := p["location_cost"].(row); ok {
					if own, ok := there[fmt.Sprint(r.row["region"])].(row); ok {
						usd = own["hourly_cost"]
					}
				}
				all = append(all, fakecloud.Metered{ID: r.row["id"].(string), State: r.row["status"].(string), HourlyUSD: usd.(float64)})
			}
		}
	}
	return all
}
