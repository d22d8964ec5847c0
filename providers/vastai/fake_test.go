package vastai

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

// The operations, with the description's names.
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
	opLogs    = "PUT /api/v0/instances/request_logs/{id}/"
	opLog     = "GET /logs/{id}" // on the server of logs
	opUser    = "GET /api/v0/users/current/"
	opNets    = "GET /api/v0/overlay/"
	opAddNet  = "POST /api/v0/overlay/"
	opDelNet  = "DELETE /api/v0/overlay/"
)

// testHostKey is the host key of instances without a machine.
const testHostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"

const testKey = "0123456789abcdef0123456789abcdef"

type row = map[string]any

// A fake is Vast.ai with its quirks. Only its handlers and functions passed to Do may
// touch its fields.
type fake struct {
	*fakecloud.Server
	t         testing.TB
	asks      []row
	instances *fakecloud.Store[*rental]
	keys      *fakecloud.Store[row]
	networks  *fakecloud.Store[row]

	credit     float64           // USD
	noMachines bool              // instances are only rows, with no machine behind them
	programs   map[string]string // scripts on a machine's PATH, by name
	status     any               // actual_status of a new instance
	keyField   string            // the field of a key's text in the list of keys
	bareKeys   bool              // the account's keys lose their comments
	runOnStart bool
	full       bool // capacity is limited to room more instances
	room       int
	unpriced   bool // the search returns no prices
	newWord    bool // an instance is in a state that no contract has
	lastID     int
	logLag     int  // how many reads of a log fail before it is there
	impostors  bool // logs have the host key of another machine
	silent     bool // logs have no host key
	daemonLog  string
	looks      map[string]int // reads of logs, by the instance's ID
	logs       *fakecloud.Server
	logsAt     string                        // address of the logs in the API's answers
	address    string                        // of machines; empty means 127.0.0.1
	booted     map[string]*fakecloud.Machine // of every instance
}

// A rental is an instance and the machine behind it. Its ask can be rented again once
// the instance is gone.
type rental struct {
	row     row
	create  row
	ask     row
	machine *fakecloud.Machine
	log     string
}

func startFake(t testing.TB, rows ...row) *fake {
	t.Helper()
	f := &fake{t: t, credit: 25, status: "running", keyField: "public_key", lastID: 12345678}
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts:    []fakecloud.Contract{fakecloud.OpenAPI(t, "testdata/api.json")},
		Authorized:   allowed,
		Unauthorized: fakecloud.Reply(401, row{"success": false, "error": "auth_error", "msg": "Invalid user key"}),
		Refused: func(status int, complaint string) fakecloud.Answer {
			return fakecloud.Reply(status, row{"success": false, "error": "invalid_args", "msg": complaint})
		},
	})
	f.looks, f.booted = map[string]int{}, map[string]*fakecloud.Machine{}
	f.logs = fakecloud.Start(t, fakecloud.Config{Contracts: []fakecloud.Contract{fakecloud.Unchecked(opLog)}})
	f.logs.Handle(opLog, f.log)
	f.logsAt = f.logs.URL
	f.instances, f.keys, f.networks = fakecloud.NewStore[*rental](f.Server), fakecloud.NewStore[row](f.Server), fakecloud.NewStore[row](f.Server)
	for i, r := range rows {
		f.asks = append(f.asks, askRow(i, r))
	}
	for op, h := range map[string]fakecloud.Handler{
		opSearch: f.search, opCreate: f.create, opList: f.list, opShow: f.show, opManage: f.manage, opDestroy: f.destroy, opBulk: f.bulk,
		opKeys: f.listKeys, opAddKey: f.addKey, opDelKey: f.deleteKey, opNets: f.listNetworks, opAddNet: f.addNetwork, opDelNet: f.deleteNetwork, opLogs: f.requestLog,
		opUser: func(*fakecloud.Call) fakecloud.Answer {
			return fakecloud.Reply(200, row{"id": 456, "balance": 0.0, "credit": f.credit})
		},
	} {
		f.Handle(op, h)
	}
	return f
}

// allowed accepts the account's key, and an instance's own key for its own removal.
func allowed(c *fakecloud.Call) bool {
	id, isInstance := strings.CutPrefix(c.Path, "/api/v0/instances/")
	return fakecloud.Bearer(testKey)(c) || c.Op == opSearch && c.Header.Get("Authorization") == "" ||
		c.Op == opDestroy && isInstance && fakecloud.Bearer(instanceKey(asInt(strings.TrimSuffix(id, "/"))))(c)
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

func (f *fake) create(c *fakecloud.Call) fakecloud.Answer {
	in, id := input(c), asInt(c.Vars["id"])
	i := slices.IndexFunc(f.asks, func(a row) bool { return asInt(a["id"]) == id })
	network, known := f.networkOf(in)
	switch {
	case f.credit <= 0:
		return failure(400, "insufficient_credit", "Your account lacks credit; see the billing page.")
	case !known:
		return failure(400, "invalid_args", fmt.Sprintf("error 400/3467: Invalid args: no network for %v", in["env"]))
	case network != nil && asInt(network["cluster_id"]) != asInt(f.asks[max(i, 0)]["cluster_id"]):
		return failure(400, "invalid_args", "error 400/3467: Invalid args: the network is of another cluster")
	case i < 0, f.full && f.room == 0:
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
		"dph_total":    a["dph_base"].(float64) + in["disk"].(float64)*a["storage_cost"].(float64)/hoursPerMonth,
		"storage_cost": a["storage_cost"], "disk_space": in["disk"],
	}}
	if isBid {
		r.row["dph_total"] = bid + in["disk"].(float64)*a["storage_cost"].(float64)/hoursPerMonth
	}
	if lost { // a lost bid leaves an instance, stopped, with a disk that is billed
		r.row["actual_status"], r.row["intended_status"], r.row["cur_state"], r.row["next_state"] = nil, "stopped", "stopped", "stopped"
		f.instances.Put(c, strconv.Itoa(f.lastID), r)
		return fakecloud.Reply(200, row{"success": false, "new_contract": f.lastID})
	}
	r.log = "started\n"
	if t, ok := labels.Parse(fmt.Sprint(in["label"])); ok && !f.silent {
		r.log += "2026-08-07T10:00:00Z " + hostKeyMark + " " + t.Name + " " + testHostKey + "\n"
	}
	f.asks, r.ask, f.room = slices.Delete(f.asks, i, i+1), a, f.room-1
	if !f.noMachines && f.status == "running" {
		f.boot(r)
	}
	if network != nil {
		r.connect(len(network["instances"].([]int)) + 2)
		setMembers(network, append(network["instances"].([]int), f.lastID))
	}
	f.instances.Put(c, strconv.Itoa(f.lastID), r)
	return fakecloud.Reply(200, row{"success": true, "new_contract": f.lastID, "instance_api_key": instanceKey(f.lastID)})
}

func instanceKey(id int) string { return fmt.Sprintf("d15a%028d", id) }

// boot starts the machine, with the account's newest key.
func (f *fake) boot(r *rental) {
	keys := f.keys.All(nil)
	if len(keys) == 0 {
		f.t.Errorf("an instance is made while the account has no SSH key: no login would be possible")
		return
	}
	id := asInt(r.row["id"])
	env := []string{fmt.Sprintf("CONTAINER_ID=%d", id), "CONTAINER_API_KEY=" + instanceKey(id)}
	r.machine = fakecloud.NewMachine(f.t, fakecloud.MachineConfig{AuthorizedKey: keys[len(keys)-1]["text"].(string), Address: f.address, Env: env, Programs: f.programs})
	f.booted[fmt.Sprint(id)] = r.machine
	if f.impostors {
		testMachine := fakecloud.NewMachine(f.t, fakecloud.MachineConfig{AuthorizedKey: keys[len(keys)-1]["text"].(string)})
		r.log = strings.ReplaceAll(r.log, testHostKey, strings.Join(strings.Fields(testMachine.HostKey)[:2], " "))
	}
	r.log = strings.ReplaceAll(r.log, testHostKey, strings.Join(strings.Fields(r.machine.HostKey)[:2], " "))
	r.row["public_ipaddr"] = r.machine.Host + " \n"
	r.row["ports"] = r.ports(strconv.Itoa(r.machine.Port))
	if f.runOnStart {
		if err := os.WriteFile(r.machine.Home+"/ssh_host_ed25519_key.pub", []byte(r.machine.HostKey), 0o600); err != nil {
			f.t.Error(err)
		}
		script := strings.NewReplacer("/etc/environment", r.machine.Home+"/environment", "/etc/ssh/", r.machine.Home+"/", "/proc/1/fd/1", r.machine.Home+"/log").
			Replace(r.create["onstart"].(string))
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = r.machine.Home
		// With the environment of the machine's own processes, the script ends with the machine.
		cmd.Env = append(env, "HOME="+r.machine.Home, "PATH=/usr/local/bin:/usr/bin:/bin", "CUDA_VERSION=12.9", "FAKECLOUD_MACHINE="+filepath.Dir(r.machine.Home))
		if out, err := cmd.CombinedOutput(); err != nil {
			f.t.Errorf("onstart: %v: %s", err, out)
		}
	}
}

// ports returns the ports of an instance as the host maps them: SSH's to a given one, and those that the
// create asked for to others.
func (r *rental) ports(ssh string) row {
	all := row{"22/tcp": []row{{"HostIp": "0.0.0.0", "HostPort": ssh}}}
	env, _ := r.create["env"].(row)
	for flag := range env {
		if pair, asked := strings.CutPrefix(flag, "-p "); asked {
			_, private, _ := strings.Cut(pair, ":")
			all[private+"/tcp"] = []row{{"HostIp": "0.0.0.0", "HostPort": strconv.Itoa(40000 + len(all))}}
		}
	}
	return all
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
	return f.told(out)
}

// told answers about instances.
func (f *fake) told(out row) fakecloud.Answer {
	if f.newWord {
		return fakecloud.Undescribed(200, out)
	}
	return fakecloud.Reply(200, out)
}

func (f *fake) show(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.instances.Get(c, c.Vars["id"])
	if !ok {
		return fakecloud.Reply(200, row{"instances": nil})
	}
	return f.told(row{"instances": r.row})
}

// requestLog answers where the log of an instance will be.
func (f *fake) requestLog(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.instances.Get(c, c.Vars["id"])
	if !ok {
		return failure(404, "no_such_instance", "Instance not found")
	}
	if f.runOnStart && r.machine != nil {
		text, _ := os.ReadFile(r.machine.Home + "/log")
		r.log = string(text)
	}
	f.looks[c.Vars["id"]] = 0
	return fakecloud.Reply(200, row{"success": true, "result_url": f.logsAt + "/logs/" + c.Vars["id"] + "?signature=abc" + asked(input(c))})
}

// log answers as the server of logs, which is not the API and takes no key.
func (f *fake) log(c *fakecloud.Call) (a fakecloud.Answer) {
	if c.Header.Get("Authorization") != "" {
		f.t.Errorf("the server of logs is sent a key")
	}
	id := c.Vars["id"]
	a = fakecloud.Reply(403, "not yet")
	f.Do(func() {
		it, ok := f.instances.Get(nil, id)
		if f.looks[id]++; ok && f.looks[id] > f.logLag {
			a = fakecloud.Reply(200, f.logOf(it, c.Query))
		}
	})
	return a
}

// asked returns what a request for a log asks for, as a query.
func asked(in row) (query string) {
	for _, name := range []string{"filter", "daemon_logs"} {
		if v, ok := in[name].(string); ok {
			query += "&" + name + "=" + v
		}
	}
	return query
}

// logOf returns the log of an instance, or of the daemon.
func (f *fake) logOf(r *rental, query url.Values) string {
	if query.Get("daemon_logs") == "true" {
		return f.daemonLog
	}
	var lines string
	for line := range strings.Lines(r.log) {
		if strings.Contains(line, query.Get("filter")) {
			lines += line
		}
	}
	return lines
}

func (f *fake) manage(c *fakecloud.Call) fakecloud.Answer {
	r, ok := f.instances.Get(nil, c.Vars["id"])
	if !ok {
		return failure(404, "no_such_instance", "Instance not found")
	}
	in := input(c)
	if label, told := in["label"]; told {
		r.row["label"] = label
	}
	if in["state"] == "stopped" {
		r.row["actual_status"], r.row["intended_status"], r.row["cur_state"], r.row["next_state"] = "exited", "stopped", "stopped", "stopped"
	}
	return success()
}

func (f *fake) destroy(c *fakecloud.Call) fakecloud.Answer {
	if c.Missing() || !c.Undone() && !f.end(c, c.Vars["id"]) {
		return failure(404, "no_such_instance", "Instance not found")
	}
	return success()
}

func (f *fake) end(c *fakecloud.Call, id string) bool {
	r, ok := f.instances.Get(nil, id)
	if !ok {
		return false
	}
	if r.machine != nil {
		// Not in this handler: Kill also ends the machine that asks to be destroyed.
		go r.machine.Kill()
	}
	if r.ask != nil {
		f.asks = append(f.asks, r.ask)
	}
	for _, n := range f.networks.All(nil) {
		if members, ok := n["instances"].([]int); ok {
			setMembers(n, slices.DeleteFunc(members, func(m int) bool { return strconv.Itoa(m) == id }))
		}
	}
	return f.instances.Delete(c, id)
}

func (f *fake) bulk(c *fakecloud.Call) fakecloud.Answer {
	for _, id := range input(c)["instance_ids"].([]any) {
		if !c.Missing() && !c.Undone() { // the answer is the same in any case
			f.end(c, strconv.Itoa(asInt(id)))
		}
	}
	return success()
}

// live returns the names of all resources in the account.
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

// meters returns the instances as Vast.ai's meter reads them.
func (f *fake) meters() (all []fakecloud.Metered) {
	for _, r := range f.instances.All(nil) {
		disk := r.row["disk_space"].(float64) * r.row["storage_cost"].(float64) / hoursPerMonth
		all = append(all, fakecloud.Metered{
			ID: fmt.Sprint(r.row["id"]), State: fmt.Sprint(r.row["actual_status"]), HourlyUSD: r.row["dph_total"].(float64) - disk, ExistsUSD: disk,
		})
	}
	return all
}
