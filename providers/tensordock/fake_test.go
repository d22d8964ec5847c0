package tensordock

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestMain(m *testing.M) { cloudtest.Main(m) }

// The operations, with the contract's names.
const (
	opAuth      = "POST /api/v2/auth/test"
	opLocations = "GET /api/v2/locations"
	opHosts     = "GET /api/v2/hostnodes"
	opCreate    = "POST /api/v2/instances"
	opList      = "GET /api/v2/instances"
	opGet       = "GET /api/v2/instances/{id}"
	opDelete    = "DELETE /api/v2/instances/{id}"
	opBalance   = "POST /api/v0/billing/balance"
)

const (
	testToken = "abcdefghijklmnopqrstuvwxyz0123456789"
	testKey   = "5f0c2d1e-7f64-4f2a-9f63-aaaabbbbcccc"
)

type row = cloudtest.Row

// A shape is one of the API's forms of the same answer.
type shape int

const (
	flat    shape = iota // no wrapper, and data is the list
	wrapped              // a wrapper data, and lists in data.instances
	deep                 // a wrapper data.attributes, and names_like_this
)

// A fake is TensorDock with its quirks. Only its handlers and functions passed to Do may touch
// its fields.
type fake struct {
	*fakecloud.Server
	t         testing.TB
	locations []row
	instances *fakecloud.Store[*rental]

	shape      shape
	room       int
	usd        float64 // the account's money
	status     string  // of a new instance
	noMachines bool
	wantPorts  bool // a port of zero is refused
	thinList   bool // the list has no addresses
	tokenBad   bool // /auth/test rejects the token under 200
	lastID     int
}

// A rental is an instance and the machine behind it.
type rental struct {
	row     row
	machine *fakecloud.Machine
}

func startFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{t: t, shape: wrapped, room: 64, usd: 100, status: "Running", locations: []row{
		place("loc-austin", "Austin", "Texas", "United States", 3, stockRow("geforcertx4090-pcie-24gb", 4, 0.35), stockRow("h100-sxm5-80gb", 8, 2.2)),
		place("loc-berlin", "Berlin", "", "Germany", 2, stockRow("geforcertx4090-pcie-24gb", 8, 0.4)),
		place("loc-home", "Somewhere", "Ohio", "USA", 0, stockRow("geforcertx4090-pcie-24gb", 1, 0.2)),
	}}
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts:    []fakecloud.Contract{fakecloud.OpenAPI(t, "testdata/api.json")},
		Authorized:   fakecloud.Bearer(testToken),
		Public:       []string{opLocations, opBalance}, // the handler of the latter looks at its form
		Unauthorized: fakecloud.Reply(401, row{"error": "Unauthorized"}),
		Refused:      func(status int, complaint string) fakecloud.Answer { return failure(status, complaint) },
	})
	f.instances = fakecloud.NewStore[*rental](f.Server)
	for op, h := range map[string]fakecloud.Handler{
		opAuth: f.auth, opHosts: f.hosts, opCreate: f.create, opList: f.list, opGet: f.get, opDelete: f.delete, opBalance: f.balance,
		opLocations: func(*fakecloud.Call) fakecloud.Answer {
			return fakecloud.Reply(200, row{"data": row{"locations": f.locations}})
		},
	} {
		f.Handle(op, h)
	}
	return f
}

func (f *fake) config() Config {
	return Config{APIToken: testToken, APIKey: testKey, Endpoint: f.URL + "/api/v2", MarketplaceEndpoint: f.URL + "/api/v0"}
}

func place(id, city, state, country string, tier int, gpus ...row) row {
	return row{"id": id, "city": city, "stateprovince": state, "country": country, "tier": tier, "gpus": gpus}
}

// stockRow returns a location's stock of a GPU. max_count is that of the largest possible
// machine.
func stockRow(name string, most int, price float64) row {
	return row{
		"v0Name": name, "displayName": name, "max_count": most, "price_per_hr": price,
		"resources":        row{"max_vcpus": 128, "max_ram_gb": 512, "max_storage_gb": 10000},
		"pricing":          row{"per_vcpu_hr": 0.003, "per_gb_ram_hr": 0.002, "per_gb_storage_hr": 0.00005},
		"network_features": row{"dedicated_ip_available": name != "h100-sxm5-80gb", "port_forwarding_available": true, "network_storage_available": false},
	}
}

// failure answers with its own status, and refusal with 200.
func failure(status int, text string) fakecloud.Answer {
	return fakecloud.Reply(status, row{"error": text})
}

func refusal(status int, text string) fakecloud.Answer {
	return fakecloud.Reply(200, row{"error": text, "status": status})
}

func (f *fake) auth(c *fakecloud.Call) fakecloud.Answer {
	if f.tokenBad {
		return fakecloud.Reply(200, row{"success": false})
	}
	return fakecloud.Reply(200, row{"success": true, "organizationId": "org-7"})
}

// balance is the older API, which has both credentials in the body.
func (f *fake) balance(c *fakecloud.Call) fakecloud.Answer {
	form, err := url.ParseQuery(string(c.Body))
	if err != nil || form.Get("api_key") != testKey || form.Get("api_token") != testToken {
		return fakecloud.Undescribed(200, row{"success": false, "error": "Invalid authorization"})
	}
	return fakecloud.Reply(200, row{"success": true, "balance": f.usd})
}

func (f *fake) hosts(*fakecloud.Call) fakecloud.Answer {
	node := func(id, at string, gpus int, ports ...int) row {
		return row{"id": id, "location_id": at, "available_resources": row{
			"gpus": []row{{"v0Name": "geforcertx4090-pcie-24gb", "availableCount": gpus}}, "available_ports": append([]int{}, ports...),
		}}
	}
	return fakecloud.Reply(200, row{"data": row{"hostnodes": []row{
		node("elsewhere", "loc-berlin", 8, 20001), node("full", "loc-austin", 0, 20002), node("no-ports", "loc-austin", 4), node("good", "loc-austin", 4, 20022, 20080),
	}}})
}

// create rents a machine. It answers refusals with 200.
func (f *fake) create(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		Data struct {
			Attributes order `json:"attributes"`
		} `json:"data"`
	}
	c.Decode(&in)
	o := in.Data.Attributes
	switch {
	case f.usd < 1:
		return refusal(400, "You need at least $1 in your account")
	case f.room <= 0:
		return refusal(400, "Hostnode unavailable")
	case o.Dedicated == (len(o.Forwards) > 0):
		return refusal(400, "Either useDedicatedIp or port_forwards is required")
	case f.wantPorts && len(o.Forwards) > 0 && o.Forwards[0].External == 0:
		return refusal(400, "external_port must be between 1 and 65535")
	case o.SSHKey == "":
		return refusal(400, "ssh_key is required")
	}
	f.room--
	f.lastID++
	id := fmt.Sprintf("0b5c2d1e-7f64-4f2a-9f63-%012d", f.lastID)
	r := &rental{row: row{"type": "virtualmachine", "id": id, "name": o.Name, "status": f.status, "rateHourly": f.price(o), "resources": o.Resources}}
	if f.status == "Running" && !f.noMachines {
		cfg := fakecloud.MachineConfig{AuthorizedKey: o.SSHKey, User: "user"}
		if o.CloudInit != nil {
			cfg.User, cfg.HostKey = "root", o.CloudInit.hostKey()
		}
		r.machine = fakecloud.NewMachine(f.t, cfg)
		r.row["ipAddress"] = r.machine.Host
		r.row["portForwards"] = []row{{"internal_port": 8888, "external_port": 1}, {"internal_port": 22, "external_port": r.machine.Port}}
	}
	f.instances.Put(c, id, r)
	brief := row{"type": "virtualmachine", "id": id, "name": o.Name, "status": "running"} // whatever its real state
	if f.shape == flat {
		return fakecloud.Reply(200, brief)
	}
	return fakecloud.Reply(200, row{"data": brief})
}

// hostKey returns the key that sshd shows: the first one in its configuration that no other
// user can read.
func (c *cloudInit) hostKey() string {
	files := map[string]file{}
	for _, written := range c.Files {
		files[written.Path] = written
	}
	for line := range strings.Lines(files["/etc/ssh/sshd_config.d/01-gputrain.conf"].Content) {
		path, named := strings.CutPrefix(strings.TrimSpace(line), "HostKey ")
		if key := files[path]; named && key.Permissions == "0600" && key.Owner == "root:root" {
			return key.Content
		}
	}
	return ""
}

// price returns the API's price.
func (f *fake) price(o order) float64 {
	for _, l := range f.locations {
		for _, g := range l["gpus"].([]row) {
			if n, ok := o.Resources.GPUs[g["v0Name"].(string)]; ok && l["id"] == o.LocationID {
				return g["price_per_hr"].(float64)*float64(n.Count) + 0.003*float64(o.Resources.VCPUs) + 0.002*float64(o.Resources.RAMGB) + 0.00005*float64(o.Resources.StorageGB)
			}
		}
	}
	return 0
}

// told returns an instance in the present shape.
func (f *fake) told(r row) row {
	if f.shape != deep {
		return r
	}
	inner := row{}
	for k, v := range r {
		switch k {
		case "id", "type":
		case "ipAddress":
			inner["ip_address"] = v
		case "portForwards":
			inner["port_forwards"] = v
		case "name", "status":
			inner[k] = v
		}
	}
	return row{"id": r["id"], "type": r["type"], "attributes": inner}
}

func (f *fake) list(c *fakecloud.Call) fakecloud.Answer {
	all := []row{}
	for _, r := range f.instances.All(c) {
		shown := row{}
		for k, v := range r.row {
			if !f.thinList || k != "ipAddress" && k != "portForwards" {
				shown[k] = v
			}
		}
		all = append(all, f.told(shown))
	}
	if f.shape == flat {
		return fakecloud.Reply(200, row{"data": all})
	}
	return fakecloud.Reply(200, row{"data": row{"instances": all}})
}

func (f *fake) get(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.instances.Get(c, c.Vars["id"])
	switch {
	case !ok:
		return failure(404, "Instance not found")
	case f.shape == flat:
		return fakecloud.Reply(200, r.row)
	}
	return fakecloud.Reply(200, row{"data": f.told(r.row)})
}

func (f *fake) delete(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.instances.Get(nil, c.Vars["id"])
	if c.Missing() || !ok {
		return failure(404, "Instance not found")
	}
	if !c.Undone() {
		if r.machine != nil {
			go r.machine.Kill()
		}
		f.room++
		f.instances.Delete(c, c.Vars["id"])
	}
	return fakecloud.Reply(200, row{"data": row{"type": "success", "attributes": row{"message": "Instance deleted successfully"}}})
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

// everything returns all things in the account.
func (f *fake) everything() (all []driver.Resource) {
	f.Do(func() {
		for _, r := range f.instances.All(nil) {
			name := r.row["name"].(string)
			all = append(all, cloudtest.Machine(r.row["id"], name))
		}
	})
	return all
}

// foreign puts things into the account that are not gputrain's, some with names that resemble
// gputrain's.
func (f *fake) foreign() (ids []string) {
	f.Do(func() {
		for _, name := range []string{"gputrain", "gputrain-lab", "my-gputrain-p1-0"} {
			f.lastID++
			id := fmt.Sprintf("foreign-%d", f.lastID)
			f.instances.Put(nil, id, &rental{row: row{"id": id, "name": name, "status": "running", "type": "virtualmachine"}})
			ids = append(ids, id)
		}
	})
	return slices.Clip(ids)
}

// meters returns the instances as TensorDock's meter reads them.
func (f *fake) meters() (all []fakecloud.Metered) {
	for _, r := range f.instances.All(nil) {
		all = append(all, fakecloud.Metered{ID: r.row["id"].(string), State: r.row["status"].(string), HourlyUSD: r.row["rateHourly"].(float64)})
	}
	return all
}
