package runpod

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	testKey = "rpa_TESTKEY0123456789"

	opCreate  = "POST /v2/pods"
	opPods    = "GET /v2/pods"
	opPod     = "GET /v2/pods/{id}"
	opDelete  = "DELETE /v2/pods/{id}"
	opCluster = "POST /v2/clusters"
	opSpot    = "podRentInterruptable"
	opRent    = "podFindAndDeployOnDemand"

	noCapacity = "There are no longer any instances available with the requested specifications. Please refresh and try again."

	h100 = "NVIDIA H100 80GB HBM3"
	ada  = "NVIDIA GeForce RTX 4090"
	amd  = "AMD Instinct MI300X OAM"
	mig  = "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb"
)

type object = map[string]any

// A fake is RunPod's two APIs with one account.
type fake struct {
	*fakecloud.Server
	t        *testing.T
	pods     *fakecloud.Store[fakePod]
	clusters *fakecloud.Store[fakeCluster]
	made     int

	// Quirks, which tests set within Do.
	room       int  // how many more pods can be created; negative means no limit
	stall      bool // new pods stay in PROVISIONING
	noMachines bool // pods are only rows, with no machine behind them
	unranked   bool // clusters get no members
	noPages    bool // lists have no pagination, as in the description of August 2026
	pageSize   int
	registries []object
	unpriced   bool
	balance    float64 // USD
	spent      float64 // USD an hour, of 80
}

type fakePod struct {
	object
	machine *fakecloud.Machine
	cluster string
}

type fakeCluster struct{ object }

func startFake(t *testing.T) *fake {
	f := &fake{t: t, room: -1, pageSize: 1000, balance: 100, registries: []object{{"id": "reg1", "name": "Docker Hub"}}}
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts: []fakecloud.Contract{
			fakecloud.OpenAPI(t, "testdata/api.json"),
			fakecloud.GraphQL(t, "testdata/api.graphql", "/graphql"),
		},
		Authorized:   f.authorized,
		Unauthorized: problemAnswer(401, "missing bearer token"),
		Refused:      func(status int, complaint string) fakecloud.Answer { return problemAnswer(422, complaint) },
	})
	f.pods, f.clusters = fakecloud.NewStore[fakePod](f.Server), fakecloud.NewStore[fakeCluster](f.Server)
	f.handlePods()
	f.handleClusters()
	f.handleCatalogue()
	f.handleGraphQL()
	return f
}

// authorized lets in the account's key, and a pod's own key for its own removal.
func (f *fake) authorized(c *fakecloud.Call) bool {
	return fakecloud.Bearer(testKey)(c) || c.Op == opDelete && fakecloud.Bearer(podKey(c.Vars["id"]))(c)
}

func podKey(id string) string { return "rpa_POD_" + id }

func (f *fake) config() Config { return Config{APIKey: testKey, Endpoint: f.URL, PodEndpoint: f.URL} }

func problemAnswer(status int, detail string) fakecloud.Answer {
	titles := map[int]string{400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden", 404: "Not Found", 409: "Conflict"}
	title := titles[status]
	if title == "" {
		title = "Error"
	}
	return fakecloud.Reply(status, object{"title": title, "status": status, "detail": detail}).With("Content-Type", "application/problem+json")
}

func (f *fake) handlePods() {
	f.Handle(opCreate, func(c *fakecloud.Call) fakecloud.Answer {
		var in createPod
		c.Decode(&in)
		p := object{
			"name": in.Name, "image": in.Image, "args": in.Args, "disk": in.Disk, "ports": in.Ports, "env": in.Env, "cloud": in.Cloud,
			"registry": orNull(in.Registry), "mounts": c.Input.(object)["mounts"],
		}
		if p["mounts"] == nil {
			p["mounts"] = object{}
		}
		switch {
		case in.CPU != nil:
			p["cpu"] = object{"id": in.CPU.ID, "vcpuCount": in.CPU.VCPUCount, "memory": 2 * in.CPU.VCPUCount}
			p["cost"] = 0.03 * float64(in.CPU.VCPUCount)
		default:
			p["gpu"] = object{"id": in.GPU.ID, "count": in.GPU.Count, "vcpuCount": 16, "memory": 188}
			p["cost"] = price(in.GPU.ID, in.Cloud) * float64(in.GPU.Count)
		}
		center := "US-TX-3"
		if len(in.DataCenterIDs) > 0 {
			center = in.DataCenterIDs[0]
		}
		p["dataCenterId"] = center
		if f.balance < p["cost"].(float64) {
			return problemAnswer(402, "Your account balance is too low to rent a pod. Please add funds to your account.")
		}
		made, ok := f.create(c, p, in.GlobalNetworking)
		if !ok {
			return problemAnswer(400, noCapacity)
		}
		first := maps.Clone(made.object)
		first["status"], first["runtime"], first["ssh"] = "PROVISIONING", nil, object{"proxy": nil, "direct": nil}
		return fakecloud.Reply(201, first)
	})
	f.Handle(opPods, func(c *fakecloud.Call) fakecloud.Answer {
		var all []object
		for _, p := range slices.Backward(f.pods.All(c)) { // newest first
			if p.cluster == "" || c.Query.Get("includeClusterPods") == "true" {
				all = append(all, p.object)
			}
		}
		return described(f.page(c, "pods", all), all...)
	})
	f.Handle(opPod, func(c *fakecloud.Call) fakecloud.Answer {
		p, ok := f.pods.Get(c, c.Vars["id"])
		if !ok {
			return problemAnswer(404, "pod not found")
		}
		return described(fakecloud.Reply(200, p.object), p.object)
	})
	f.Handle(opDelete, func(c *fakecloud.Call) fakecloud.Answer {
		p, ok := f.pods.Get(nil, c.Vars["id"])
		switch {
		case c.Missing() || !ok:
			return problemAnswer(404, "pod not found")
		case p.cluster != "":
			return problemAnswer(409, "pod belongs to a cluster")
		case !c.Undone():
			f.remove(c, c.Vars["id"])
		}
		return fakecloud.Reply(204, nil)
	})
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// create makes a pod, and boots its machine with the keys that the start script would install.
func (f *fake) create(c *fakecloud.Call, p object, global bool) (fakePod, bool) {
	if f.room == 0 {
		return fakePod{}, false
	}
	f.room--
	f.made++
	id := fmt.Sprintf("pod%07d", f.made)
	env := p["env"].(map[string]string)
	script := f.started(p["args"].(string))
	if script != startScript {
		f.t.Errorf("the pod starts with %q", script)
	}
	rank := 0
	if k, ok := p["cluster"].(object); ok {
		rank = k["rank"].(int)
	}
	private, err := base64.StdEncoding.DecodeString(strings.Split(env[envHostKey], ",")[rank])
	if err != nil {
		f.t.Errorf("host key: %v", err)
	}
	made := fakePod{object: p}
	if !f.noMachines {
		made.machine = fakecloud.NewMachine(f.t, fakecloud.MachineConfig{
			AuthorizedKey: env["PUBLIC_KEY"], HostKey: string(private), Env: []string{"RUNPOD_POD_ID=" + id, "RUNPOD_API_KEY=" + podKey(id)},
		})
	}
	p["id"] = id
	maps.Copy(p, always(time.Now().UTC().Format(time.RFC3339)))
	if global {
		p["globalNetworking"] = object{"enabled": true, "ip": fmt.Sprintf("10.1.2.%d", f.made), "internalDns": id + ".runpod.internal"}
	}
	p["status"], p["runtime"], p["ssh"] = "PROVISIONING", nil, object{"proxy": nil, "direct": nil}
	if m := made.machine; !f.stall && m != nil {
		p["status"] = "RUNNING"
		p["runtime"] = object{"uptime": 1, "ports": []object{{"private": 22, "public": m.Port, "type": "tcp", "ip": m.Host}}}
		p["ssh"] = object{
			"proxy":  object{"host": "ssh.runpod.io", "port": 22, "username": id + "-64411eb2", "command": "ssh"},
			"direct": object{"host": m.Host, "port": m.Port, "username": "root", "command": "ssh"},
		}
	}
	f.pods.Put(c, id, made)
	return made, true
}

// always returns the fields that are the same for all pods.
func always(created string) object {
	return object{
		"actions": []string{"stop", "restart", "terminate"}, "cudaVersion": "12.8", "template": nil, "locked": false,
		"createdAt": created, "startedAt": nil, "globalNetworking": object{"enabled": false},
	}
}

// described lets an answer through that has a state missing from RunPod's description.
func described(a fakecloud.Answer, pods ...object) fakecloud.Answer {
	known := []string{"PROVISIONING", "STARTING", "RUNNING", "EXITED", "ERROR", "TERMINATED"}
	a.Undescribed = slices.ContainsFunc(pods, func(p object) bool { return !slices.Contains(known, p["status"].(string)) })
	return a
}

var startForm = regexp.MustCompile(`^sh -c 'mkdir -p /run&&echo ([A-Za-z0-9+/=]+)\|base64 -d>/run/gputrain-start&&exec sh /run/gputrain-start'$`)

// started returns the script that a start command runs.
func (f *fake) started(args string) string {
	m := startForm.FindStringSubmatch(args)
	if m == nil {
		f.t.Errorf("args are %q", args)
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(m[1])
	if err != nil {
		f.t.Error(err)
	}
	return string(text)
}

// remove deletes a pod with its machine. It does not wait for the machine's end, as a
// machine that deletes itself would wait for its own call.
func (f *fake) remove(c *fakecloud.Call, id string) {
	p, _ := f.pods.Get(nil, id)
	f.pods.Delete(c, id)
	if p.machine != nil { // nil for a foreign pod
		go p.machine.Kill()
	}
}

// set changes a pod's fields.
func (f *fake) set(id string, fields object) {
	f.Do(func() {
		p, ok := f.pods.Get(nil, id)
		if !ok {
			f.t.Errorf("there is no pod %q", id)
		}
		p.object = maps.Clone(p.object)
		maps.Copy(p.object, fields)
		f.pods.Put(nil, id, p)
	})
}

// live returns the names of all pods and clusters.
func (f *fake) live() []string {
	names := []string{}
	f.Do(func() {
		for _, p := range f.pods.All(nil) {
			names = append(names, p.object["name"].(string))
		}
		for _, k := range f.clusters.All(nil) {
			names = append(names, k.object["name"].(string))
		}
	})
	return names
}

// page returns one page of a list.
func (f *fake) page(c *fakecloud.Call, field string, all []object) fakecloud.Answer {
	from := 0
	fmt.Sscan(c.Query.Get("cursor"), &from)
	to := min(from+f.pageSize, len(all))
	out := object{field: append([]object{}, all[from:to]...), "pagination": object{"nextCursor": nil, "hasNextPage": false}}
	if to < len(all) {
		out["pagination"] = object{"nextCursor": fmt.Sprint(to), "hasNextPage": true}
	}
	if f.noPages {
		out[field] = append([]object{}, all...)
		delete(out, "pagination")
	}
	return fakecloud.Reply(200, out)
}

func (f *fake) handleClusters() {
	f.Handle(opCluster, func(c *fakecloud.Call) fakecloud.Answer {
		var in createCluster
		c.Decode(&in)
		if f.room >= 0 && f.room < in.Compute.PodCount {
			return problemAnswer(400, noCapacity)
		}
		f.made++
		id := fmt.Sprintf("cluster%d", f.made)
		k := object{
			"id": id, "name": in.Name, "type": in.Type, "compute": in.Compute, "createdAt": time.Now().UTC().Format(time.RFC3339),
			"pods": object{"total": 0, "byStatus": object{}},
		}
		f.clusters.Put(c, id, fakeCluster{k})
		for rank := in.Compute.PodCount - 1; rank >= 0 && !f.unranked; rank-- {
			p := object{
				"name": fmt.Sprintf("%s-pod-%d", in.Name, rank), "image": in.Image, "args": in.Args, "disk": in.Disk, "ports": in.Ports, "env": maps.Clone(in.Env),
				"cloud": "SECURE", "registry": nil, "mounts": object{}, "dataCenterId": "US-KS-2", "cost": 10.0,
				"gpu":     object{"id": in.Compute.GPUTypeID, "count": in.Compute.GPUCountPerPod},
				"cluster": object{"id": id, "rank": rank, "ip": fmt.Sprintf("10.65.0.%d", rank+2)},
			}
			made, _ := f.create(c, p, false)
			made.cluster = id
			f.pods.Put(c, made.object["id"].(string), made)
		}
		return fakecloud.Reply(201, k)
	})
	f.Handle("GET /v2/clusters", func(c *fakecloud.Call) fakecloud.Answer {
		var all []object
		for _, k := range f.clusters.All(c) {
			all = append(all, k.object)
		}
		return f.page(c, "clusters", all)
	})
	f.Handle("GET /v2/clusters/{id}/pods", func(c *fakecloud.Call) fakecloud.Answer {
		if _, ok := f.clusters.Get(c, c.Vars["id"]); !ok {
			return problemAnswer(404, "resource not found")
		}
		members := []object{}
		for _, p := range f.pods.All(c) {
			if p.cluster == c.Vars["id"] {
				members = append(members, p.object)
			}
		}
		return fakecloud.Reply(200, object{"pods": members})
	})
	f.Handle("DELETE /v2/clusters/{id}", func(c *fakecloud.Call) fakecloud.Answer {
		if !f.clusters.Delete(c, c.Vars["id"]) {
			return problemAnswer(404, "resource not found")
		}
		for _, p := range f.pods.All(nil) {
			if p.cluster == c.Vars["id"] {
				f.remove(c, p.object["id"].(string))
			}
		}
		return fakecloud.Reply(204, nil)
	})
}

// price returns one GPU's price per hour, in USD.
func price(gpu, cloud string) float64 {
	if cloud == "COMMUNITY" {
		return map[string]float64{h100: 2.69, ada: 0.34}[gpu]
	}
	return map[string]float64{h100: 2.99, ada: 0.69, amd: 2.49, mig: 0.5}[gpu]
}

func (f *fake) handleCatalogue() {
	gpu := func(id, maker string, memory, most int) object {
		return object{
			"id": id, "name": id, "pool": nil, "manufacturer": maker, "memory": memory, "secure": true, "community": price(id, "COMMUNITY") > 0,
			"price": object{"secure": price(id, "SECURE"), "community": price(id, "COMMUNITY")}, "maxCount": object{"secure": most, "community": 4},
			"availability": "HIGH", "dataCenters": []object{{"id": "US-TX-3", "name": "US-TX-3", "availability": "LOW"}, {"id": "EU-RO-1", "name": "EU-RO-1", "availability": "NONE"}},
		}
	}
	f.Handle("GET /v2/catalog/gpus", func(c *fakecloud.Call) fakecloud.Answer {
		scarce := gpu("NVIDIA B200", "NVIDIA", 180, 8)
		scarce["availability"], scarce["dataCenters"] = "NONE", []object{}
		all := []object{gpu(h100, "NVIDIA", 80, 8), gpu(ada, "NVIDIA", 24, 8), scarce}
		if c.Query.Get("minCudaVersion") == "" {
			all = append(all, gpu(amd, "AMD", 192, 8))
		}
		all = append(all, gpu(mig, "NVIDIA", 24, 1))
		if f.unpriced {
			for _, g := range all {
				g["price"] = object{"secure": 0, "community": 0}
			}
		}
		return fakecloud.Reply(200, object{"gpus": all})
	})
	f.Handle("GET /v2/catalog/cpus", func(c *fakecloud.Call) fakecloud.Answer {
		flavour := func(id string) object {
			return object{
				"id": id, "name": id, "group": "Compute", "vcpu": object{"min": 2, "max": 32}, "ramGbPerVcpu": 2,
				"price": object{"securePerVcpu": 0.03, "serverlessPerVcpu": 0.05}, "availability": "HIGH",
			}
		}
		all := []object{flavour("cpu3c"), flavour("cpu5c")}
		if f.unpriced {
			for _, t := range all {
				t["price"] = object{"securePerVcpu": 0, "serverlessPerVcpu": 0}
			}
		}
		return fakecloud.Reply(200, object{"cpus": all})
	})
	f.Handle("GET /v2/catalog/datacenters", func(c *fakecloud.Call) fakecloud.Answer {
		center := func(id string, global bool) object {
			return object{"id": id, "name": id, "region": "NORTH_AMERICA", "globalNetwork": global, "networkVolumeTypes": []string{}, "compliance": []string{}}
		}
		return fakecloud.Reply(200, object{"dataCenters": []object{center("US-TX-3", true), center("US-KS-2", true), center("EU-RO-1", false)}})
	})
	f.Handle("GET /v2/registries", func(c *fakecloud.Call) fakecloud.Answer { return f.page(c, "registries", f.registries) })
	f.Handle("GET /v2/network-volumes", func(c *fakecloud.Call) fakecloud.Answer {
		volume := func(id, name, center string) object {
			return object{"id": id, "name": name, "size": 100, "dataCenter": center, "type": "STANDARD"}
		}
		return f.page(c, "networkVolumes", []object{volume("vol1", "data", "US-TX-3"), volume("vol2", "twice", "US-TX-3"), volume("vol3", "twice", "EU-RO-1")})
	})
}

func (f *fake) handleGraphQL() {
	f.Handle("myself", func(c *fakecloud.Call) fakecloud.Answer {
		return fakecloud.Reply(200, object{"id": "user_1", "clientBalance": f.balance, "currentSpendPerHr": f.spent, "spendLimit": 80.0})
	})
	f.Handle("countryCodes", func(c *fakecloud.Call) fakecloud.Answer {
		return fakecloud.Reply(200, []string{"FR", "AR", "US"})
	})
	f.Handle("gpuTypes", func(c *fakecloud.Call) fakecloud.Answer {
		floor := func(id string, bid any, level any) object {
			return object{"id": id, "clusterPrice": 3.5, "lowestPrice": object{"minimumBidPrice": bid, "stockStatus": level}}
		}
		return fakecloud.Reply(200, []object{floor(h100, 1.5, "High"), floor(ada, 0.2, "Low"), floor(amd, nil, nil), floor("NVIDIA B200", 3.0, "None"), {"id": mig}})
	})
	for _, op := range []string{opSpot, opRent} {
		f.Handle(op, func(c *fakecloud.Call) fakecloud.Answer {
			var args struct{ Input rentPod }
			c.Decode(&args)
			in, env := args.Input, map[string]string{}
			for _, v := range in.Env {
				env[v.Key] = v.Value
			}
			cost := price(in.GPUTypeID, in.CloudType)
			if op == opSpot {
				cost = in.BidPerGPU
			}
			if f.balance < cost*float64(in.GPUCount) {
				return fakecloud.GraphQLError("INSUFFICIENT_BALANCE", "Your account balance is too low to rent a pod. Please add funds to your account.")
			}
			mounted := object{}
			switch {
			case in.NetworkVolumeID != "":
				mounted["network"] = []object{{"volumeId": in.NetworkVolumeID, "path": in.VolumeMountPath}}
			case in.VolumeInGB > 0:
				mounted["persistent"] = object{"size": in.VolumeInGB, "path": in.VolumeMountPath}
			}
			made, ok := f.create(c, object{
				"name": in.Name, "image": in.ImageName, "args": in.DockerArgs, "disk": in.ContainerDiskInGB, "ports": strings.Split(in.Ports, ","), "env": env,
				"cloud": in.CloudType, "registry": orNull(in.ContainerRegistryAuthID), "mounts": mounted, "dataCenterId": "EU-RO-1",
				"gpu": object{"id": in.GPUTypeID, "count": in.GPUCount, "vcpuCount": 8, "memory": 64}, "cost": cost * float64(in.GPUCount),
			}, false)
			if !ok {
				return fakecloud.GraphQLError("SUPPLY_CONSTRAINT", noCapacity)
			}
			return fakecloud.Reply(200, object{"id": made.object["id"], "costPerHr": made.object["cost"], "desiredStatus": "RUNNING", "machine": object{"dataCenterId": "EU-RO-1"}})
		})
	}
}

// open opens a driver, which is closed when the test ends.
func open(t *testing.T, cfg Config) driver.Driver {
	t.Helper()
	d, err := cfg.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// meters returns the pods as RunPod's meter reads them.
func (f *fake) meters() (all []fakecloud.Metered) {
	for _, p := range f.pods.All(nil) {
		all = append(all, fakecloud.Metered{
			ID: p.object["id"].(string), State: p.object["status"].(string), HourlyUSD: p.object["cost"].(float64),
			ExistsUSD: 0.10 * float64(p.object["disk"].(int)) / 720,
		})
	}
	return all
}
