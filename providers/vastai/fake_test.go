package vastai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/fakecloud"
)

// The operations, as the contracts call them.
const (
	opSearch  = "POST /api/v0/bundles/"
	opCreate  = "PUT /api/v0/asks/{id}/"
	opList    = "GET /api/v1/instances/"
	opShow    = "GET /api/v0/instances/{id}/"
	opManage  = "PUT /api/v0/instances/{id}/"
	opDestroy = "DELETE /api/v0/instances/{id}/"
	opBulk    = "DELETE /api/v0/instances/"
	opKeys    = "GET /api/v0/ssh/"
	opAddKey  = "POST /api/v0/ssh/"
	opDelKey  = "DELETE /api/v0/ssh/{id}/"
	opUser    = "GET /api/v0/users/current/"
	opNets    = "GET /api/v0/overlay/"
	opAddNet  = "POST /api/v0/overlay/"
	opDelNet  = "DELETE /api/v0/overlay/"
)

const testKey = "0123456789abcdef0123456789abcdef"

type row = map[string]any

// A fake is Vast.ai with its quirks. What it holds is only to be touched by its handlers
// and in Do.
type fake struct {
	*fakecloud.Server
	t         testing.TB
	asks      []row
	instances *fakecloud.Store[*rental]
	keys      *fakecloud.Store[row]
	networks  *fakecloud.Store[row]

	noCredit   bool
	noMachines bool   // instances are rows only, nothing runs
	status     any    // actual_status of what is created; "running" where it is not set
	keyField   string // what the list of keys calls their text
	runOnStart bool
	lastID     int
}

// A rental is an instance, and the machine that it is.
type rental struct {
	row     row
	create  row
	machine *fakecloud.Machine
}

func startFake(t testing.TB, rows ...row) *fake {
	t.Helper()
	f := &fake{t: t, status: "running", keyField: "public_key", lastID: 12345678}
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts: []fakecloud.Contract{
			fakecloud.OpenAPI(t, "vastai/vast.lifecycle.derived.openapi.yaml"),
			fakecloud.OpenAPI(t, "vastai/vast.openapi.yaml", fakecloud.TrailingSlash), // which alone has the removal of keys
		},
		Authorized:   allowed,
		Unauthorized: fakecloud.Reply(401, row{"success": false, "error": "auth_error", "msg": "Invalid user key"}),
		Refused: func(status int, complaint string) fakecloud.Answer {
			return fakecloud.Reply(status, row{"success": false, "error": "invalid_args", "msg": complaint})
		},
	})
	f.instances, f.keys, f.networks = fakecloud.NewStore[*rental](f.Server), fakecloud.NewStore[row](f.Server), fakecloud.NewStore[row](f.Server)
	for i, r := range rows {
		f.asks = append(f.asks, askRow(i, r))
	}
	for op, h := range map[string]fakecloud.Handler{
		opSearch: f.search, opCreate: f.create, opList: f.list, opShow: f.show, opManage: f.manage, opDestroy: f.destroy, opBulk: f.bulk,
		opKeys: f.listKeys, opAddKey: f.addKey, opDelKey: f.deleteKey, opNets: f.listNetworks, opAddNet: f.addNetwork, opDelNet: f.deleteNetwork,
		opUser: func(*fakecloud.Call) fakecloud.Answer {
			return fakecloud.Reply(200, row{"id": 456, "balance": 0.0, "credit": 25.0})
		},
	} {
		f.Handle(op, h)
	}
	return f
}

// allowed lets in the account's key, and an instance's own for its own end.
func allowed(c *fakecloud.Call) bool {
	id, isInstance := strings.CutPrefix(c.Path, "/api/v0/instances/")
	return fakecloud.Bearer(testKey)(c) ||
		c.Op == opDestroy && isInstance && fakecloud.Bearer(instanceKey(asInt(strings.TrimSuffix(id, "/"))))(c)
}

// askRow is a row of the search: a good machine, but for what is changed. What is changed
// to "-" is not there.
func askRow(i int, changed row) row {
	r := row{
		"id": 1000 + i, "machine_id": 88000 + i, "host_id": 5555, "gpu_name": "RTX 4090", "num_gpus": 1, "gpu_ram": 24564,
		"cpu_cores": 64, "cpu_cores_effective": 16.0, "cpu_ram": 262144, "disk_space": 900.5, "dph_base": 0.40 + float64(i)/100, "min_bid": 0.20,
		"storage_cost": 0.144, "cuda_max_good": 12.8, "reliability2": 0.9934, "verification": "verified", "direct_port_count": 12,
		"inet_down": 812.5, "inet_up": 640.2, "inet_down_cost": 0.002, "inet_up_cost": 0.003, "geolocation": "Washington, US",
		"cluster_id": nil, "rentable": true, "rented": false, "duration": 1234567.8,
	}
	for k, v := range changed {
		if r[k] = v; v == "-" {
			delete(r, k)
		}
	}
	return r
}

func asInt(v any) int {
	n, _ := strconv.ParseFloat(fmt.Sprint(v), 64)
	return int(n)
}

func input(c *fakecloud.Call) row {
	in := row{}
	if err := json.Unmarshal(c.Body, &in); err != nil {
		panic(err)
	}
	return in
}

func failure(status int, code, msg string) fakecloud.Answer {
	return fakecloud.Reply(status, row{"success": false, "error": code, "msg": msg})
}

func success() fakecloud.Answer { return fakecloud.Reply(200, row{"success": true}) }

func (f *fake) search(c *fakecloud.Call) fakecloud.Answer {
	q := input(c)
	offers := []row{}
	for _, a := range f.asks {
		a := copied(a)
		disk, _ := q["allocated_storage"].(float64)
		a["dph_total"] = a["dph_base"].(float64) + disk*a["storage_cost"].(float64)/hoursPerMonth
		a["is_bid"] = q["type"] == "bid"
		if matches(a, q) {
			offers = append(offers, a)
		}
	}
	order := q["order"].([]any)[0].([]any)[0].(string)
	slices.SortStableFunc(offers, func(a, b row) int {
		x, _ := a[order].(float64)
		y, _ := b[order].(float64)
		return cmp.Compare(x, y)
	})
	return fakecloud.Reply(200, row{"offers": offers})
}

func copied(r row) row {
	out := row{}
	for k, v := range r {
		out[k] = v
	}
	return out
}

// matches applies the filters of a search, as far as a row has their columns.
func matches(a, q row) bool {
	for column, filter := range q {
		ops, ok := filter.(row)
		if !ok {
			continue
		}
		have, known := a[column]
		if column == "verified" {
			have, known = a["verification"] == "verified", true
		}
		if column == "geolocation" {
			have = countryOf(fmt.Sprint(have))
		}
		if !known {
			continue
		}
		for op, want := range ops {
			x, _ := strconv.ParseFloat(fmt.Sprint(have), 64)
			y, _ := strconv.ParseFloat(fmt.Sprint(want), 64)
			good := true
			switch op {
			case "eq":
				good = fmt.Sprint(have) == fmt.Sprint(want)
			case "neq":
				good = fmt.Sprint(have) != fmt.Sprint(want)
			case "gte":
				good = x >= y
			case "lte":
				good = x <= y
			case "in":
				good = slices.ContainsFunc(want.([]any), func(w any) bool { return fmt.Sprint(w) == fmt.Sprint(have) })
			}
			if !good {
				return false
			}
		}
	}
	return true
}

func (f *fake) create(c *fakecloud.Call) fakecloud.Answer {
	in, id := input(c), asInt(c.Vars["id"])
	i := slices.IndexFunc(f.asks, func(a row) bool { return asInt(a["id"]) == id })
	switch {
	case f.noCredit:
		return failure(400, "insufficient_credit", "Your account lacks credit; see the billing page.")
	case i < 0:
		return fakecloud.Reply(404, row{"success": false, "error": "no_such_ask", "msg": fmt.Sprintf("error 404/3603: no_such_ask  Instance type by id %d is not available.", id), "ask_id": id})
	case len(fmt.Sprint(in["onstart"])) > 4048:
		return failure(400, "invalid_args", "error 400/3467: Invalid args: onstart")
	}
	a := f.asks[i]
	bid, isBid := in["price"].(float64)
	lost := isBid && bid < a["min_bid"].(float64)
	f.lastID++
	r := &rental{create: in, row: row{
		"id": f.lastID, "actual_status": f.status, "intended_status": "running", "cur_state": "running", "next_state": "running",
		"status_msg": "success, running", "label": in["label"], "machine_id": a["machine_id"], "gpu_name": a["gpu_name"], "num_gpus": a["num_gpus"],
		"is_bid": isBid, "geolocation": a["geolocation"], "ssh_host": "ssh5.vast.ai", "ssh_port": 15678,
		"image_runtype": in["runtype"], "start_date": 1761008618.2,
		"dph_total": a["dph_base"].(float64) + in["disk"].(float64)*a["storage_cost"].(float64)/hoursPerMonth,
	}}
	if isBid {
		r.row["dph_total"] = bid + in["disk"].(float64)*a["storage_cost"].(float64)/hoursPerMonth
	}
	if lost { // it is there, stopped, and billed for its disk
		r.row["actual_status"], r.row["intended_status"], r.row["cur_state"], r.row["next_state"] = nil, "stopped", "stopped", "stopped"
		f.instances.Put(c, strconv.Itoa(f.lastID), r)
		return fakecloud.Reply(200, row{"success": false, "new_contract": f.lastID})
	}
	f.asks = slices.Delete(f.asks, i, i+1)
	if !f.noMachines {
		f.boot(r)
	}
	f.instances.Put(c, strconv.Itoa(f.lastID), r)
	return fakecloud.Reply(200, row{"success": true, "new_contract": f.lastID, "instance_api_key": instanceKey(f.lastID)})
}

func instanceKey(id int) string { return fmt.Sprintf("d15a%028d", id) }

// boot starts the machine, with the last key that the account has by now.
func (f *fake) boot(r *rental) {
	keys := f.keys.All(nil)
	if len(keys) == 0 {
		f.t.Errorf("an instance is made while the account has no SSH key: nobody could log in")
		return
	}
	id := asInt(r.row["id"])
	env := []string{fmt.Sprintf("CONTAINER_ID=%d", id), "CONTAINER_API_KEY=" + instanceKey(id)}
	r.machine = fakecloud.NewMachine(f.t, fakecloud.MachineConfig{AuthorizedKey: keys[len(keys)-1]["text"].(string), Env: env})
	r.row["public_ipaddr"] = r.machine.Host + " \n"
	r.row["ports"] = row{"22/tcp": []row{{"HostIp": "0.0.0.0", "HostPort": strconv.Itoa(r.machine.Port)}}}
	if f.runOnStart {
		script := strings.ReplaceAll(r.create["onstart"].(string), "/etc/environment", r.machine.Home+"/environment")
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = r.machine.Home
		// As the machine's own processes have it, so that this ends with the machine.
		cmd.Env = append(env, "HOME="+r.machine.Home, "PATH=/usr/local/bin:/usr/bin:/bin", "CUDA_VERSION=12.9", "FAKECLOUD_MACHINE="+filepath.Dir(r.machine.Home))
		if out, err := cmd.CombinedOutput(); err != nil {
			f.t.Errorf("onstart: %v: %s", err, out)
		}
	}
}

func (f *fake) list(c *fakecloud.Call) fakecloud.Answer {
	filter := row{}
	if text := c.Query.Get("select_filters"); text != "" {
		if err := json.Unmarshal([]byte(text), &filter); err != nil {
			return failure(400, "invalid_args", err.Error())
		}
	}
	var all []row
	for _, r := range f.instances.All(c) {
		if matches(r.row, filter) {
			all = append(all, r.row)
		}
	}
	from, _ := strconv.Atoi(c.Query.Get("after_token"))
	limit, _ := strconv.Atoi(c.Query.Get("limit"))
	part := all[min(from, len(all)):min(from+limit, len(all))]
	out := row{"success": true, "instances_found": len(part), "total_instances": len(all), "next_token": nil, "instances": append([]row{}, part...)}
	if from+limit < len(all) {
		out["next_token"] = strconv.Itoa(from + limit)
	}
	return fakecloud.Reply(200, out)
}

func (f *fake) show(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.instances.Get(c, c.Vars["id"])
	if !ok {
		return fakecloud.Reply(200, row{"instances": nil})
	}
	return fakecloud.Reply(200, row{"instances": r.row})
}

func (f *fake) manage(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.instances.Get(nil, c.Vars["id"])
	if !ok {
		return failure(404, "no_such_instance", "Instance not found")
	}
	r.row["label"] = input(c)["label"]
	return success()
}

func (f *fake) destroy(c *fakecloud.Call) fakecloud.Answer {
	if !f.end(c, c.Vars["id"]) {
		return failure(404, "no_such_instance", "Instance not found")
	}
	return success()
}

func (f *fake) end(c *fakecloud.Call, id string) bool {
	if r, ok := f.instances.Get(nil, id); ok && r.machine != nil {
		// Not in this handler: the machine that asks for its end is among those that end.
		go r.machine.Kill()
	}
	return f.instances.Delete(c, id)
}

func (f *fake) bulk(c *fakecloud.Call) fakecloud.Answer {
	for _, id := range input(c)["instance_ids"].([]any) {
		f.end(c, strconv.Itoa(asInt(id)))
	}
	return success()
}

func (f *fake) listKeys(c *fakecloud.Call) fakecloud.Answer {
	all := []row{}
	for _, k := range f.keys.All(c) {
		all = append(all, row{"id": k["id"], "user_id": 456, f.keyField: k["text"], "created_at": "2026-08-07T10:00:00"})
	}
	if len(all) == 0 {
		return fakecloud.Reply(404, "")
	}
	return fakecloud.Reply(200, all)
}

func (f *fake) addKey(c *fakecloud.Call) fakecloud.Answer {
	text := input(c)["ssh_key"].(string)
	for _, k := range f.keys.All(nil) {
		if strings.Fields(k["text"].(string))[1] == strings.Fields(text)[1] {
			return fakecloud.Reply(200, row{"success": false, "error": "duplicate"})
		}
	}
	k := f.putKey(c, text)
	return fakecloud.Reply(200, row{"success": true, "key": row{"id": k["id"], "user_id": 456, "public_key": text, "created_at": "2026-08-07T10:00:00"}})
}

func (f *fake) putKey(c *fakecloud.Call, text string) row {
	f.lastID++
	k := row{"id": f.lastID, "text": text}
	f.keys.Put(c, strconv.Itoa(f.lastID), k)
	return k
}

func (f *fake) deleteKey(c *fakecloud.Call) fakecloud.Answer {
	if !f.keys.Delete(c, c.Vars["id"]) {
		return failure(400, "no_ssh_key", "No ssh key provided")
	}
	return success()
}

func (f *fake) listNetworks(c *fakecloud.Call) fakecloud.Answer {
	return fakecloud.Reply(200, f.networks.All(c))
}

func (f *fake) addNetwork(c *fakecloud.Call) fakecloud.Answer {
	in := input(c)
	f.lastID++
	f.networks.Put(c, strconv.Itoa(f.lastID), row{
		"overlay_id": f.lastID, "name": in["name"], "subnet": "10.0.0.0/24", "cluster_id": asInt(in["cluster_id"]), "instance_count": 0, "instances": []int{},
	})
	return success()
}

func (f *fake) deleteNetwork(c *fakecloud.Call) fakecloud.Answer {
	if !f.networks.Delete(c, strconv.Itoa(asInt(input(c)["overlay_id"]))) {
		return failure(400, "not_found", "no such overlay")
	}
	return success()
}

// live returns the names of all that the account holds.
func (f *fake) live() (all []string) {
	f.Do(func() {
		for _, r := range f.instances.All(nil) {
			all = append(all, fmt.Sprintf("instance %v", r.row["id"]))
		}
		for _, k := range f.keys.All(nil) {
			all = append(all, "key "+k["text"].(string))
		}
		for _, n := range f.networks.All(nil) {
			all = append(all, fmt.Sprintf("network %v", n["name"]))
		}
	})
	return all
}

// set changes columns of an instance.
func (f *fake) set(id string, changed row) {
	f.t.Helper()
	f.Do(func() {
		r, ok := f.instances.Get(nil, id)
		if !ok {
			f.t.Fatalf("there is no instance %s", id)
		}
		for k, v := range changed {
			r.row[k] = v
		}
	})
}
