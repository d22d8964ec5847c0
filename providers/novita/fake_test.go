package novita

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

const (
	testKey      = "sk_novita_TESTKEY0123456789"
	testPassword = "Xy12abcd-of-a-node"

	opClusters = "GET /gpu-instance/openapi/v1/clusters"
	opProducts = "GET /gpu-instance/openapi/v1/products"
	opCreate   = "POST /gpu-instance/openapi/v1/gpu/instance/create"
	opInstance = "GET /gpu-instance/openapi/v1/gpu/instance"
	opList     = "GET /gpu-instance/openapi/v1/gpu/instances"
	opEnd      = "POST /gpu-instance/openapi/v1/gpu/instance/delete"
	opBalance  = "GET /openapi/v1/billing/balance/detail"

	base = "/gpu-instance/openapi/v1"
)

type row = cloudtest.Row

// A fake is Novita's API over one account.
type fake struct {
	*fakecloud.Server
	t         *testing.T
	instances *fakecloud.Store[*fakeInstance]
	products  []row
	clusters  []row
	made      int
	usd       float64 // the account's money

	// Quirks, which tests set within Do.
	room      int    // how many more instances can be created; negative means no limit
	noKeys    bool   // the proxy accepts no keys
	cuda      string // the newest version that the drivers of free machines support; "" means any
	stall     bool   // new instances keep pulling their images
	warm      int    // reads of a running instance until its SSH server runs
	unpriced  bool
	firstPage int    // 0 or 1; with -1, pages 0 and 1 are the same
	noTotal   bool   // lists have no total
	mostRows  int    // the maximum on a page, whatever the request; 0 means no limit
	within    string // the object around an instance
	older     bool   // SSH is in older fields
	newWord   bool   // instances have a state that the contract does not have
}

type fakeInstance struct {
	row     row
	machine *fakecloud.Machine
	looks   int
}

func startFake(t *testing.T) *fake {
	f := &fake{t: t, room: -1, usd: 100}
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts:    []fakecloud.Contract{fakecloud.OpenAPI(t, "testdata/api.json"), fakecloud.Unchecked(opBalance)},
		Authorized:   fakecloud.Bearer(testKey),
		Unauthorized: failure(401, "UNAUTHORIZED", "invalid api key"),
		Refused:      func(status int, complaint string) fakecloud.Answer { return failure(400, "VALIDATOR_PARAM", complaint) },
	})
	f.instances = fakecloud.NewStore[*fakeInstance](f.Server)
	f.products = []row{
		gpuProduct("4090.16c62g", "RTX 4090 24GB", "35000", "17500"),
		gpuProduct("4090.16c96g.v2", "RTX 4090 24GB", 37000, 0),
		gpuProduct("5090.16c120g", "RTX 5090 32GB", "60000", ""),
		gpuProduct("H100.20c200g", "H100 SXM 80GB", "220000", "110000"),
	}
	f.clusters = []row{{"id": "us-ca-6", "name": "US-CA-06 (California)"}, {"id": "us-ca-nas-2", "name": "US-CA-NAS-2"}, {"id": "eu-gb-1", "name": "EU-GB-01 (United Kingdom)"}}
	f.handle()
	return f
}

func gpuProduct(id, name string, price, spotPrice any) row {
	return row{
		"id": id, "name": name, "cpuPerGpu": 16, "memoryPerGpu": 62, "diskPerGpu": 6144, "availableDeploy": true, "price": price, "spotPrice": spotPrice,
		"regions": []string{"US-CA-06 (California)"}, "billingMethods": []string{"onDemand", "spot", "monthly"}, "inventoryState": "normal", "canBuy": true,
	}
}

func (f *fake) config() Config {
	return Config{APIKey: testKey, Endpoint: f.URL + base, AllowPasswordAtFirstContact: true}
}

func failure(status int, reason, message string) fakecloud.Answer {
	return fakecloud.Reply(status, row{"code": status, "reason": reason, "message": message, "metadata": row{}})
}

func (f *fake) handle() {
	f.Handle(opClusters, func(*fakecloud.Call) fakecloud.Answer { return fakecloud.Reply(200, row{"data": f.clusters}) })
	f.Handle(opProducts, func(*fakecloud.Call) fakecloud.Answer {
		all := []row{}
		for _, p := range f.products {
			p := with(p, nil)
			if f.unpriced {
				delete(p, "price")
				delete(p, "spotPrice")
			}
			all = append(all, p)
		}
		return fakecloud.Reply(200, row{"data": all})
	})
	f.Handle(opBalance, func(*fakecloud.Call) fakecloud.Answer {
		return fakecloud.Reply(200, row{"availableBalance": fmt.Sprint(int(f.usd * 10_000)), "cashBalance": "0", "creditLimit": "0", "outstandingInvoices": "0"})
	})
	f.Handle(opCreate, f.create)
	f.Handle(opInstance, func(c *fakecloud.Call) fakecloud.Answer {
		in, ok := f.instances.Get(c, c.Query.Get("instanceId"))
		if !ok {
			return failure(400, "RESOURCE_NOT_FOUND", "instance not found")
		}
		answer := with(in.row, nil)
		if in.machine != nil && in.row["status"] == "running" {
			in.looks++
			command := fmt.Sprintf("ssh -p %d root@%s", in.machine.Port, in.machine.Host)
			answer["connectComponentSSH"] = row{"sshCommand": command, "password": testPassword, "isRunning": in.looks > f.warm}
			if f.older {
				answer["connectComponentSSH"] = row{}
				answer["sshCommand"], answer["sshPassword"] = command, testPassword
			}
		}
		if f.within != "" {
			return fakecloud.Undescribed(200, row{f.within: answer})
		}
		return f.reply(answer)
	})
	f.Handle(opList, f.list)
	f.Handle(opEnd, func(c *fakecloud.Call) fakecloud.Answer {
		id := c.Input.(row)["instanceId"].(string)
		in, ok := f.instances.Get(nil, id)
		if c.Missing() || !ok {
			return failure(400, "RESOURCE_NOT_FOUND", "instance not found")
		}
		if c.Undone() {
			return fakecloud.Reply(200, nil)
		}
		f.instances.Delete(c, id)
		if in.machine != nil {
			in.machine.Kill()
		}
		return fakecloud.Reply(200, nil)
	})
}

func with(r, changed row) row {
	out := row{}
	for _, m := range []row{r, changed} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

func (f *fake) create(c *fakecloud.Call) fakecloud.Answer {
	var in create
	c.Decode(&in)
	product := row(nil)
	for _, p := range f.products {
		if p["id"] == in.ProductID {
			product = p
		}
	}
	switch {
	case product == nil || in.Kind != "gpu":
		return failure(400, "VALIDATOR_PARAM", "product not found")
	case f.usd <= 0:
		return failure(400, "BALANCE_NOT_ENOUGH", "balance not enough")
	case f.room == 0, f.cuda != "" && compare(in.MinCUDAVersion, f.cuda) > 0:
		return failure(400, "INSUFFICIENT_RESOURCE", "insufficient resource")
	}
	f.room--
	f.made++
	i := &fakeInstance{row: row{
		"id": fmt.Sprintf("29eea75e%08x", f.made), "name": in.Name, "clusterId": in.ClusterID, "status": "pulling", "imageUrl": in.ImageURL,
		"cpuNum": strconv.Itoa(16 * in.GPUNum), "memory": "62", "gpuNum": strconv.Itoa(in.GPUNum), "productId": in.ProductID, "productName": product["name"],
		"rootfsSize": in.RootFSSize, "statusError": row{"state": "", "message": ""}, "billingMode": in.BillingMode, "endTime": "-1", "spotStatus": "",
		"spotReclaimTime": "0", "createdAt": "1763630000", "lastStartedAt": "1763630040", "lastStoppedAt": "0",
	}}
	if !f.stall {
		i.row["status"] = "running"
		i.machine = fakecloud.NewMachine(f.t, fakecloud.MachineConfig{Password: testPassword, NoKeys: f.noKeys})
	}
	f.instances.Put(c, i.row["id"].(string), i)
	return fakecloud.Reply(200, row{"id": i.row["id"]})
}

func (f *fake) list(c *fakecloud.Call) fakecloud.Answer {
	all := []row{}
	for _, in := range f.instances.All(c) {
		all = append(all, in.row)
	}
	n, _ := strconv.Atoi(c.Query.Get("pageNum"))
	size, _ := strconv.Atoi(c.Query.Get("pageSize"))
	if f.mostRows > 0 {
		size = min(size, f.mostRows)
	}
	from := min(max(n-f.firstPage, 0)*size, len(all))
	if f.firstPage < 0 {
		from = min(max(n-1, 0)*size, len(all))
	}
	answer := row{"instances": all[from:min(from+size, len(all))], "total": len(all)}
	if n < f.firstPage {
		answer["instances"] = []row{}
	}
	if f.noTotal {
		delete(answer, "total")
	}
	return f.reply(answer)
}

// reply answers as the contract requires, unless a quirk differs from it.
func (f *fake) reply(body row) fakecloud.Answer {
	if f.older || f.newWord {
		return fakecloud.Undescribed(200, body)
	}
	return fakecloud.Reply(200, body)
}

// set changes fields of an instance.
func (f *fake) set(id string, changed row) {
	f.Do(func() {
		in, ok := f.instances.Get(nil, id)
		if !ok {
			f.t.Fatalf("there is no instance %q", id)
		}
		for k, v := range changed {
			in.row[k] = v
		}
	})
}

// account returns all things in the account.
func (f *fake) account() (all []driver.Resource) {
	f.Do(func() {
		for _, in := range f.instances.All(nil) {
			all = append(all, cloudtest.Machine(in.row["id"], in.row["name"]))
		}
	})
	return all
}

// foreign puts things into the account that are not gputrain's, some with names that resemble
// gputrain's.
func (f *fake) foreign() (ids []string) {
	f.Do(func() {
		for i, name := range []string{"training", "gputrain-", "gputrain-p1", "my-gputrain-p1-0"} {
			id := fmt.Sprintf("f0%d", i)
			f.instances.Put(nil, id, &fakeInstance{row: row{"id": id, "name": name, "status": "running"}})
			ids = append(ids, id)
		}
	})
	return ids
}

// meters returns the instances as Novita's meter reads them.
func (f *fake) meters() (all []fakecloud.Metered) {
	for _, in := range f.instances.All(nil) {
		for _, p := range f.products {
			if p["id"] != in.row["productId"] {
				continue
			}
			price := p["price"]
			if in.row["billingMode"] == "spot" {
				price = p["spotPrice"]
			}
			usd, _ := strconv.ParseFloat(fmt.Sprint(price), 64)
			gpus, _ := strconv.ParseFloat(in.row["gpuNum"].(string), 64)
			all = append(all, fakecloud.Metered{
				ID: in.row["id"].(string), State: in.row["status"].(string),
				HourlyUSD: usd / 100_000 * gpus, ExistsUSD: float64(max(in.row["rootfsSize"].(int)-60, 0)) * 0.005 / 24,
			})
		}
	}
	return all
}
