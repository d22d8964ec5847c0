package verda

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestMain(m *testing.M) { cloudtest.Main(m) }

// The operations, with the contract's names.
const (
	opToken     = "POST /v1/oauth2/token"
	opBalance   = "GET /v1/balance"
	opTypes     = "GET /v1/instance-types"
	opVolTypes  = "GET /v1/volume-types"
	opStock     = "GET /v1/instance-availability"
	opLocations = "GET /v1/locations"
	opImages    = "GET /v1/images"
	opKeys      = "GET /v1/ssh-keys"
	opAddKey    = "POST /v1/ssh-keys"
	opDelKey    = "DELETE /v1/ssh-keys/{id}"
	opCreate    = "POST /v1/instances"
	opList      = "GET /v1/instances"
	opGet       = "GET /v1/instances/{id}"
	opAct       = "PUT /v1/instances"
	opTag       = "POST /v1/instances/{id}/tags"
	opUntag     = "DELETE /v1/instances/{id}/tags/{tagId}"
	opVolumes   = "GET /v1/volumes"
	opTrash     = "GET /v1/volumes/trash"
	opDelVolume = "DELETE /v1/volumes/{id}"
)

const (
	testID     = "client-of-mine"
	testSecret = "s3cr3t-of-the-client"
	testToken  = "eyJ-token-that-is-good"
)

type row = cloudtest.Row

// A fake is Verda with its quirks. Only its handlers and functions passed to Do may touch its
// fields.
type fake struct {
	*fakecloud.Server
	t         testing.TB
	types     []row
	disks     []row
	stock     map[bool][]row // true is spot
	images    []row
	instances *fakecloud.Store[*rental]
	keys      *fakecloud.Store[row]
	volumes   *fakecloud.Store[row]

	funds      float64
	currency   string // of the balance
	quoted     bool   // IDs come in quotes
	room       int    // how many more machines can be created
	status     string // of a new instance
	noMachines bool   // instances are only rows, with no machine behind them
	busy       int    // how many deletes a machine in provisioning refuses
	leaves     string // the state of the system volume that a deleted machine leaves, or ""
	lingers    bool   // a deleted machine is still reported, as discontinued
	wrongImage []string
	lastID     int
}

// A rental is an instance and the machine behind it.
type rental struct {
	row     row
	refused int // refused deletes
	machine *fakecloud.Machine
}

func startFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{t: t, funds: 42.5, currency: "usd", room: 64, status: "running", types: []row{
		typeRow("1H100.80S.30V", "1x H100 SXM5 80GB", 1, "3.17", "0.95"),
		typeRow("8H100.80S.176V", "8x H100 SXM5 80GB", 8, "25.36", "7.60"),
		typeRow("CPU.4V.16G", "", 0, "0.10", "0.05"),
	}, disks: []row{
		{"type": "HDD", "price": row{"price_per_month_per_gb": 0.05, "currency": "usd"}}, {"type": "NVMe", "price": row{"price_per_month_per_gb": 0.2, "currency": "usd"}},
	}, images: []row{
		imageRow("ubuntu-24.04", "Ubuntu 24.04", true),
		imageRow("ubuntu-24.04-cuda-13.0-open-docker", "Ubuntu 24.04 + CUDA 13.0 Open + Docker", false),
		imageRow("ubuntu-22.04-cuda-13.0", "Ubuntu 22.04 + CUDA 13.0", false),
		imageRow("ubuntu-24.04-cuda-12.8-docker", "Ubuntu 24.04 + CUDA 12.8 + Docker", false),
	}}
	all := []string{"1H100.80S.30V", "8H100.80S.176V", "CPU.4V.16G"}
	f.stock = map[bool][]row{
		false: {{"location_code": "FIN-03", "availabilities": all}, {"location_code": "FIN-01", "availabilities": all[:1]}, {"location_code": "FIN-01", "availabilities": all[2:]}},
		true:  {{"location_code": "FIN-01", "availabilities": all[:1]}},
	}
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts:    []fakecloud.Contract{fakecloud.OpenAPI(t, "testdata/api.json")},
		Authorized:   fakecloud.Bearer(testToken),
		Public:       []string{opToken},
		Unauthorized: failure(401, "unauthorized_request", "Invalid access token"),
		Refused: func(status int, complaint string) fakecloud.Answer {
			if status == 404 {
				return failure(403, "forbidden_action", "Insufficient scope") // the API's answer for unknown paths
			}
			return failure(status, "invalid_request", complaint)
		},
	})
	f.instances, f.keys, f.volumes = fakecloud.NewStore[*rental](f.Server), fakecloud.NewStore[row](f.Server), fakecloud.NewStore[row](f.Server)
	for op, h := range map[string]fakecloud.Handler{
		opToken: f.token, opBalance: f.balance, opCreate: f.create, opList: f.list, opGet: f.get, opAct: f.act, opTag: f.tag, opUntag: f.untag,
		opAddKey: f.addKey, opDelKey: f.deleteKey, opDelVolume: f.deleteVolume, opImages: f.listImages,
		opTypes:    func(*fakecloud.Call) fakecloud.Answer { return fakecloud.Reply(200, f.types) },
		opVolTypes: func(*fakecloud.Call) fakecloud.Answer { return fakecloud.Reply(200, f.disks) },
		opStock: func(c *fakecloud.Call) fakecloud.Answer {
			return fakecloud.Reply(200, f.stock[c.Query.Get("is_spot") == "true"])
		},
		opLocations: locations,
		opKeys:      func(c *fakecloud.Call) fakecloud.Answer { return fakecloud.Reply(200, f.keys.All(c)) },
		opVolumes:   func(c *fakecloud.Call) fakecloud.Answer { return fakecloud.Reply(200, f.volumesIn(c, false)) },
		opTrash:     func(c *fakecloud.Call) fakecloud.Answer { return fakecloud.Reply(200, f.volumesIn(c, true)) },
	} {
		f.Handle(op, h)
	}
	return f
}

func (f *fake) config() Config {
	return Config{ClientID: testID, ClientSecret: testSecret, Endpoint: f.URL + "/v1"}
}

// typeRow returns a type of machine. Its gpu_memory is that of all GPUs, and its prices are
// text.
func typeRow(name, description string, gpus int, price, spot string) row {
	return row{
		"id": "deadc0de-0000-4000-8000-000000000001", "instance_type": name, "model": "H100", "manufacturer": "NVIDIA", "name": description,
		"cpu": row{"number_of_cores": 30}, "gpu": row{"description": description, "number_of_gpus": gpus},
		"gpu_memory": row{"size_in_gigabytes": 80 * gpus}, "memory": row{"size_in_gigabytes": 120}, "storage": row{"description": "dynamic"},
		"price_per_hour": price, "spot_price": spot, "currency": "usd", "deploy_warning": nil,
	}
}

func imageRow(kind, name string, isDefault bool) row {
	return row{"id": "2404f580-1300-1111-82b3-f199fb9b701b", "image_type": kind, "name": name, "is_default": isDefault, "is_cluster": false, "details": strings.Split(name, " + "), "category": "ubuntu"}
}

func failure(status int, code, message string) fakecloud.Answer {
	return fakecloud.Reply(status, row{"code": code, "message": message})
}

// uuid returns the next ID.
func (f *fake) uuid() string {
	f.lastID++
	return fmt.Sprintf("d7c4c3f0-1111-4222-8333-%012d", f.lastID)
}

// id answers with only an ID, which has quotes in the description, but not from the service.
func (f *fake) id(status int, id string) fakecloud.Answer {
	if f.quoted {
		return fakecloud.Reply(status, `"`+id+`"`).With("Content-Type", "application/json")
	}
	return fakecloud.Reply(status, id+"\n").With("Content-Type", "text/html")
}

func (f *fake) token(c *fakecloud.Call) fakecloud.Answer {
	if !strings.Contains(string(c.Body), "client_id="+testID) || !strings.Contains(string(c.Body), "client_secret="+testSecret) {
		return failure(401, "unauthorized_request", "Invalid client id or client secret")
	}
	return fakecloud.Reply(200, row{"access_token": testToken, "token_type": "Bearer", "expires_in": 3600, "refresh_token": "eyJ-refresh", "scope": "cloud-api-v1"})
}

func (f *fake) balance(*fakecloud.Call) fakecloud.Answer {
	return fakecloud.Reply(200, row{"amount": f.funds, "currency": f.currency})
}

func locations(*fakecloud.Call) fakecloud.Answer {
	return fakecloud.Reply(200, []row{{"code": "FIN-01", "name": "Finland 1", "country_code": "FI"}, {"code": "FIN-03", "name": "Finland 3", "country_code": "FI"}})
}

func (f *fake) listImages(c *fakecloud.Call) fakecloud.Answer {
	kind := c.Query.Get("instance_type")
	if !slices.ContainsFunc(f.types, func(t row) bool { return t["instance_type"] == kind }) {
		return failure(404, "not_found", "Unknown instance type")
	}
	return fakecloud.Reply(200, f.images)
}

func (f *fake) addKey(c *fakecloud.Call) fakecloud.Answer {
	var in sshKey
	c.Decode(&in)
	id := f.uuid()
	f.keys.Put(c, id, row{"id": id, "name": in.Name, "key": in.Key, "fingerprint": nil})
	return f.id(201, id)
}

func (f *fake) deleteKey(c *fakecloud.Call) fakecloud.Answer {
	if !f.keys.Delete(c, c.Vars["id"]) {
		return failure(404, "not_found", "SSH key not found")
	}
	return fakecloud.Reply(200, nil)
}

func (f *fake) create(c *fakecloud.Call) fakecloud.Answer {
	var in order
	c.Decode(&in)
	var plain struct {
		OSVolume map[string]json.RawMessage `json:"os_volume"`
	}
	c.Decode(&plain)
	_, sentEviction := plain.OSVolume["on_spot_discontinue"]
	key, known := f.keys.Get(nil, in.SSHKeyIDs[0])
	switch {
	case len(in.Hostname) > 60:
		return failure(400, "invalid_request", "hostname is too long")
	case sentEviction && !in.IsSpot:
		return failure(400, "invalid_request", "on_spot_discontinue is for spot instances")
	case !known:
		return failure(400, "invalid_request", "Invalid SSH key id")
	case slices.Contains(f.wrongImage, in.Image):
		return failure(400, "invalid_request", "Operating system is not valid for this instance type")
	case f.funds <= 0:
		return failure(402, "insufficient_funds", "Insufficient funds")
	case len(in.Tags) > 10:
		return failure(400, "invalid_request", "Too many tags")
	case f.room <= 0:
		return failure(503, "service_unavailable", "No capacity available")
	}
	f.room--
	id, disk := f.uuid(), f.uuid()
	var tags []row
	for i, t := range in.Tags {
		tags = append(tags, row{"id": fmt.Sprintf("t%d", i), "key": t.Key, "value": t.Value})
	}
	r := &rental{row: row{
		"id": id, "ip": nil, "status": f.status, "hostname": in.Hostname, "description": in.Description, "location": in.Location,
		"instance_type": in.InstanceType, "image": in.Image, "is_spot": in.IsSpot, "contract": in.Contract, "tags": tags,
		"gpu": row{"description": "1x H100 SXM5 80GB", "number_of_gpus": 1}, "cpu": row{"number_of_cores": 30}, "price_per_hour": 0.4,
		"created_at": time.Now().UTC().Format(time.RFC3339Nano), "os_volume_id": disk, "volume_ids": []string{}, "ssh_key_ids": in.SSHKeyIDs, "jupyter_token": "",
	}}
	if f.status == "running" && !f.noMachines {
		r.machine = fakecloud.NewMachine(f.t, fakecloud.MachineConfig{AuthorizedKey: key["key"].(string)})
		r.row["ip"] = r.machine.PublicIP
	}
	f.instances.Put(c, id, r)
	volume := volumeRow(disk, in.OSVolume.Name, "attached", tags)
	volume["size"] = in.OSVolume.GB
	f.volumes.Put(c, disk, volume)
	return f.id(202, id)
}

func volumeRow(id, name, status string, tags []row) row {
	return row{
		"id": id, "name": name, "status": status, "size": 100, "type": "NVMe", "is_os_volume": true, "location": "FIN-01", "tags": tags,
		"created_at": "2026-10-01T10:00:05.000Z", "monthly_price": 20.0, "base_hourly_cost": 0.0274, "currency": "usd", "is_permanently_deleted": false,
	}
}

func (f *fake) list(c *fakecloud.Call) fakecloud.Answer {
	all := []row{}
	for _, r := range f.instances.All(c) {
		all = append(all, r.row)
	}
	return fakecloud.Reply(200, all)
}

func (f *fake) get(c *fakecloud.Call) fakecloud.Answer {
	if !uuid.MatchString(c.Vars["id"]) {
		return failure(400, "invalid_request", "Invalid instance id")
	}
	r, ok := f.instances.Get(c, c.Vars["id"])
	if !ok {
		return failure(404, "not_found", "Instance not found")
	}
	return fakecloud.Reply(200, r.row)
}

// act deletes an instance. It answers refusals with 207.
func (f *fake) act(c *fakecloud.Call) fakecloud.Answer {
	var in action
	c.Decode(&in)
	result := row{"instanceId": in.IDs[0], "action": in.Action, "status": "success"}
	refuse := func(status int, why string) fakecloud.Answer {
		result["status"], result["error"], result["statusCode"] = "error", why, status
		return fakecloud.Reply(207, []row{result})
	}
	r, ok := f.instances.Get(nil, in.IDs[0])
	if c.Missing() {
		if disk, _ := r.row["os_volume_id"].(string); r.row["status"] != "running" { // only reads still show it: its volume is detached
			if _, there := f.volumes.Get(nil, disk); there {
				f.setVolume(disk, "detached")
			}
		}
		return refuse(404, "Instance not found")
	}
	for _, id := range in.VolumeIDs {
		if _, there := f.volumes.Get(nil, id); !there {
			return failure(400, "invalid_request", "Invalid volume id")
		}
	}
	switch {
	case !ok:
		return refuse(404, "Instance not found")
	case r.row["status"] == "discontinued":
		return refuse(403, "Can't discontinue a discontinued instance")
	case r.row["status"] == "provisioning" && r.refused < f.busy:
		r.refused++
		return refuse(403, "Can't discontinue a provisioning instance")
	case c.Undone():
		return fakecloud.Reply(202, []row{result})
	}
	disk := r.row["os_volume_id"].(string)
	switch {
	case f.leaves != "":
		f.setVolume(disk, f.leaves)
	case slices.Contains(in.VolumeIDs, disk) && in.Permanently:
		f.volumes.Delete(c, disk)
	default:
		f.setVolume(disk, "detached")
	}
	f.end(c, in.IDs[0])
	return fakecloud.Reply(202, []row{result})
}

// end removes an instance, or leaves it as discontinued.
func (f *fake) end(c *fakecloud.Call, id string) {
	r, _ := f.instances.Get(nil, id)
	if r.machine != nil {
		go r.machine.Kill()
	}
	f.room++
	if f.lingers {
		r.row["status"] = "discontinued"
		return
	}
	f.instances.Delete(c, id)
}

func (f *fake) tag(c *fakecloud.Call) fakecloud.Answer {
	var in tag
	c.Decode(&in)
	r, ok := f.instances.Get(nil, c.Vars["id"])
	if !ok {
		return failure(404, "not_found", "Instance not found")
	}
	tags := r.row["tags"].([]row)
	if len(tags) >= 10 {
		return failure(400, "invalid_request", "Too many tags")
	}
	if slices.ContainsFunc(tags, func(t row) bool { return t["key"] == in.Key }) {
		return failure(409, "invalid_request", "The tag exists")
	}
	t := row{"id": f.uuid(), "key": in.Key, "value": in.Value}
	r.row["tags"] = append(slices.Clone(tags), t)
	return fakecloud.Reply(201, t)
}

func (f *fake) untag(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.instances.Get(nil, c.Vars["id"])
	if !ok {
		return failure(404, "not_found", "Instance not found")
	}
	r.row["tags"] = slices.DeleteFunc(slices.Clone(r.row["tags"].([]row)), func(t row) bool { return t["id"] == c.Vars["tagId"] })
	return fakecloud.Reply(204, nil)
}
