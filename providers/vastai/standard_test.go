package vastai

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestMain(m *testing.M) { cloudtest.Main(m) }

var standard = cloudtest.Cloud[*fake, Config]{
	Name:       providerName,
	Start:      of(nil),
	Still:      func(f *fake) { f.noMachines = true },
	Config:     (*fake).config,
	Account:    (*fake).account,
	Client:     func(c *Config, client *http.Client) { c.HTTPClient = client },
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) { c.APIKey = key }, Name: "VAST_API_KEY"},
	Secrets:    []string{testKey},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {opSearch}, providertest.OpPrepare: {opAddKey}, providertest.OpLaunch: {opCreate}, providertest.OpDescribe: {opList},
		providertest.OpList: {opList}, providertest.OpTerminate: {opDestroy, opBulk}, providertest.OpRelease: {opDelKey},
	},
	Alone:      true,
	Made:       map[string]int{"machine": 2, "key": 1},
	EndsItself: true,
	// By the second while it runs, and its disk as long as it exists (fact sheet, section 5).
	Tariff: fakecloud.Tariff{Free: []string{"<nil>", "created", "loading", "stopped", "exited", "offline"}},
	Meters: (*fake).meters,
}

func TestReadme(t *testing.T) { standard.Readme(t) }

func TestOddRows(t *testing.T) { standard.OddRows(t) }

func TestUnseen(t *testing.T) { standard.Unseen(t, opList, opShow) }

func TestUnseenPool(t *testing.T) { standard.UnseenPool(t, opList, opShow) }

func TestGolden(t *testing.T) {
	c := standard
	c.Start = of(row{"cluster_id": 42})
	c.Golden(t,
		cloudtest.Written[Config]{File: "vastai"},
		cloudtest.Written[Config]{File: "vastai-bid-overlay", Query: driver.Query{Allocation: driver.Spot, Nodes: 2}, Change: overlayed})
}

func TestStrangers(t *testing.T) { standard.Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

func TestKey(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // the user's home may have a key's file
	standard.Key(t)
}

func TestPool(t *testing.T) {
	for name, spec := range map[string]gputrain.Spec{
		"on demand": {TTL: time.Hour},
		"spot":      {Allocation: driver.Spot, MaxHourlyUSD: 1, DiskGiB: 1},
	} {
		t.Run(name, func(t *testing.T) {
			standard.With(spec, nil).Pool(t, cloudtest.Pool[*fake]{
				Before: func(f *fake) {
					f.runOnStart = true
					f.Do(func() { f.putKey(nil, "ssh-rsa AAAA me@home") })
				},
				Node: cloudtest.Node{Region: "Washington, US", InstanceType: "1x RTX 4090"},
				After: func(t *testing.T, f *fake) {
					if live := f.live(); len(live) != 1 || live[0] != "key ssh-rsa AAAA me@home" {
						t.Errorf("left: %v", live)
					}
					for _, r := range f.Records(opCreate) {
						if strings.Contains(r.Body, `"price"`) != (name == "spot") {
							t.Errorf("%s: %s", name, r.Body)
						}
					}
				},
			})
		})
	}
}

func TestPoolUnderFaults(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Faults: []fakecloud.Fault{
		{Op: opSearch, Answer: fakecloud.Failure(503, "", "")},
		{Op: opAddKey, After: true, Cut: true},
		{Op: opCreate, After: true, Cut: true},
		{Op: opCreate, Answer: fakecloud.Failure(410, row{"success": false, "error": "no_such_ask", "msg": "error 410/3907: no_such_ask Instance type 1 is no longer available."}, "")},
		{Op: opList, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opShow, Answer: fakecloud.Garbage()},
		{Op: opDestroy, Answer: fakecloud.Failure(429, "API requests too frequent: endpoint threshold=0.2", "")},
		{Op: opDestroy, After: true, Cut: true},
		{Op: opDelKey, Answer: fakecloud.Failure(502, "", "")},
	}})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad("Image", Config{Image: "a b"}),
		cloudtest.Bad("DiskGB is 9", Config{DiskGB: 9}),
		cloudtest.Bad("DiskGB is NaN", Config{DiskGB: math.NaN()}),
		cloudtest.Bad("MinReliability is 95", Config{MinReliability: 95}),
		cloudtest.Bad("MinCUDA is +Inf", Config{MinCUDA: math.Inf(1)}),
		cloudtest.Bad(`"Mars"`, Config{Geolocation: []string{"US", "Mars"}}),
		cloudtest.Bad(`"U1"`, Config{Geolocation: []string{"U1"}}),
		cloudtest.Bad("MinInetDown is -1", Config{MinInetDown: -1}),
		cloudtest.Bad("MinInetUp is NaN", Config{MinInetUp: math.NaN()}),
		cloudtest.Bad("MaxTrafficUSDPerGB is -1", Config{MaxTrafficUSDPerGB: -1}),
		cloudtest.Bad("below 1 no bid wins", Config{BidMultiplier: 0.9}),
		cloudtest.Bad("InstanceTimeout is 1ms", Config{InstanceTimeout: time.Millisecond}),
		cloudtest.Bad("RequestTimeout is -1s", Config{RequestTimeout: -time.Second}),
		cloudtest.Bad("OverlayTimeout is 1ns", Config{OverlayTimeout: 1}),
		cloudtest.Bad(`Endpoint "http://a'b"`, Config{Endpoint: "http://a'b"}),
		cloudtest.Bad("Endpoint: the API's address", Config{Endpoint: "console.vast.ai"}),
		cloudtest.Bad("belong together", Config{RegistryToken: "token"}),
		cloudtest.Bad("Image names no registry", Config{Image: "team/train:1", RegistryUser: "u", RegistryToken: "token"}),
		cloudtest.Bad("RegistryUser", Config{Image: "r.example/train", RegistryUser: "a b", RegistryToken: "token"}),
		cloudtest.Bad("RegistryHost", Config{RegistryHost: "a b", RegistryUser: "u", RegistryToken: "token"}),
		cloudtest.Bad("RegistryToken has a blank", Config{Image: "r.example/train", RegistryUser: "u", RegistryToken: "a b"}),
		cloudtest.Bad("Ports has 64", Config{Ports: make([]int, 64)}),
		cloudtest.Bad("Ports[1] is 22", Config{Ports: []int{8000, 22}}),
		cloudtest.Bad("Ports[1] is 8000", Config{Ports: []int{8000, 8000}}),
		cloudtest.Bad("Ports[0] is 65536", Config{Ports: []int{65536}}),
		cloudtest.Bad("DiskGB is 1; the minimum is 10|MinInetUp", Config{DiskGB: 1, MinInetUp: -1}),
		cloudtest.Bad("Endpoint", Config{Endpoint: "https://user:s3cret@console.vast.ai"}),
	})
}

// The table is that of Vast's contract. An error of a create has the request's ID, for the support desk.
func TestErrors(t *testing.T) {
	refuse := func(status int, code, msg string) fakecloud.Answer {
		return fakecloud.Failure(status, row{"success": false, "error": code, "msg": msg}, "")
	}
	all := []cloudtest.Refusal{
		cloudtest.Refused("offer is taken", opCreate, refuse(404, "no_such_ask", "error 404/3603: no_such_ask  Instance type by id 1 is not available."), driver.ErrNoCapacity),
		cloudtest.Refused("offer is taken, bad args", opCreate, refuse(404, "invalid_args", "error 404/3603: no_such_ask  Instance type by id 1 is not available."), driver.ErrNoCapacity),
		cloudtest.Refused("offer is gone", opCreate, refuse(410, "no_such_ask", "error 410/3907: no_such_ask Instance type 1 is no longer available."), driver.ErrNoCapacity),
		cloudtest.Refused("offer for its host", opCreate, refuse(403, "invalid_args", "error 403/3586: Offer 1 is not your own. Hosts can only .."), driver.ErrNoCapacity),
		cloudtest.Refused("no credit", opCreate, refuse(400, "insufficient_credit", "Your account lacks credit; see the billing page."), driver.ErrBalance),
		cloudtest.Refused("no credit, text only", opCreate, fakecloud.Failure(400, row{"msg": "Your account lacks credit; see the billing page."}, ""), driver.ErrBalance),
		cloudtest.Refused("no card", opCreate, refuse(400, "missing_billing", ""), driver.ErrBalance),
		cloudtest.Refused("new account", opCreate, refuse(400, "spend_rate_limit", ""), driver.ErrQuota),
		cloudtest.Refused("bad arguments", opCreate, refuse(400, "invalid_args", "error 400/3467: Invalid args: 'id' is required"), driver.ErrInvalid),
		cloudtest.Refused("bad price", opCreate, refuse(400, "invalid_price", ""), driver.ErrInvalid),
		cloudtest.Refused("no key for a VM", opCreate, refuse(400, "no_ssh_key_for_vm", ""), driver.ErrInvalid),
		cloudtest.Refused("long label", opCreate, refuse(400, "label_too_long", ""), driver.ErrInvalid),
		cloudtest.Refused("failure in a 200", opCreate, refuse(200, "no_such_ask", ""), driver.ErrNoCapacity),
		cloudtest.Refused("server fails", opCreate, fakecloud.Failure(500, "oops", ""), driver.ErrUnavailable),
		cloudtest.Refused("wrong key", opList, refuse(401, "auth_error", "Invalid user key"), driver.ErrAuth),
		cloudtest.Refused("key of too little", opList, fakecloud.Failure(403, "", ""), driver.ErrAuth),
		cloudtest.Refused("wrong key, as 404", opList, refuse(404, "auth_error", "Invalid user key"), driver.ErrAuth),
		cloudtest.Refused("wrong key, text only", opList, fakecloud.Failure(404, row{"msg": "Invalid user key"}, ""), driver.ErrAuth),
		cloudtest.Refused("wrong key for the keys", opKeys, refuse(404, "auth_error", "Invalid user key"), driver.ErrAuth),
		cloudtest.Refused("retired list", opList, refuse(410, "deprecated_endpoint", "/api/v0/instances/ is deprecated. Use /api/v1/instances/ instead."), driver.ErrUnsupported),
		cloudtest.Refused("wrong key, search, as 404", opSearch, fakecloud.Failure(404, row{"error": "auth_error", "msg": "Invalid user key"}, ""), driver.ErrAuth),
		cloudtest.Refused("search without offers", opSearch, fakecloud.Failure(200, row{}, ""), driver.ErrUnavailable),
	}
	for i, r := range all {
		if r.Op != opCreate || r.Want == driver.ErrUnavailable {
			continue
		}
		all[i].Answer, all[i].Says = r.Answer.With("X-Request-Id", "r-17"), "r-17"
		if r.Want == driver.ErrQuota || r.Want == driver.ErrBalance {
			all[i].Says += "|https://cloud.vast.ai/billing/"
		}
	}
	standard.Errors(t, all)
}
