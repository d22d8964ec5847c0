package hyperstack

import (
	"fmt"
	"net/http"
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
	Name:    providerName,
	Spec:    h100,
	Start:   func(t *testing.T) *fake { return startFake(t) },
	Still:   func(f *fake) { f.noMachines = true },
	Config:  (*fake).config,
	Account: (*fake).everything,
	Dialed: func(d driver.Driver) driver.Driver {
		return struct {
			*hyperstackDriver
			cloudtest.Dialer
		}{hyperstackDriver: d.(*hyperstackDriver)}
	},
	Client:     func(c *Config, client *http.Client) { c.HTTPClient = client },
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) { c.APIKey = key }, Name: keyVariable},
	Secrets:    []string{testKey},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {opFlavors}, providertest.OpPrepare: {opCredit}, providertest.OpLaunch: {opCreate}, providertest.OpDescribe: {opMachine, opMachines},
		providertest.OpList: {opMachines}, providertest.OpTerminate: {opDelete},
		providertest.OpRelease: {opEnvs}, // the only call if no machine was made
	},
	Made: map[string]int{"machine": 2, "environment": 1, "key": 1},
	// By the minute; ERROR, CREATING and DELETING are free (fact sheet, section 6).
	Tariff: fakecloud.Tariff{Unit: time.Minute, Free: []string{"CREATING", "BUILD", "ERROR", "DELETING"}},
	Meters: (*fake).meters,
}

func TestReadme(t *testing.T) { standard.Readme(t) }

func TestOddRows(t *testing.T) { standard.OddRows(t) }

func TestUnseen(t *testing.T) { standard.Unseen(t, opMachine, opMachines) }

func TestUnseenPool(t *testing.T) { standard.UnseenPool(t, opMachine, opMachines) }

func TestGolden(t *testing.T) {
	standard.With(h100, func(c *Config) { c.Regions = []string{"CANADA-1"} }).Golden(t, cloudtest.Written[Config]{File: "hyperstack", Query: h100.Query()})
}

func TestGuardian(t *testing.T) { standard.Guardian(t) }

func TestStrangers(t *testing.T) { standard.Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

func TestKey(t *testing.T) { standard.Key(t) }

func TestPool(t *testing.T) { standard.Pool(t, cloudtest.Pool[*fake]{}) }

func TestPoolUnderFaults(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Faults: []fakecloud.Fault{
		{Op: opFlavors, Answer: fakecloud.Failure(503, "", "")},
		{Op: opAddEnv, After: true, Cut: true},
		{Op: opAddKey, After: true, Answer: fakecloud.HTML()},
		{Op: opSubnet, Answer: fakecloud.Failure(502, "", "")},
		{Op: opCreate, After: true, Cut: true},
		{Op: opMachines, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opMachine, Answer: fakecloud.Failure(429, "", "")},
		{Op: opDelete, Answer: refuse(400, "bad_request", "Virtual machine is currently being created and cannot be deleted yet")},
		{Op: opDelete, After: true, Cut: true},
		{Op: opDelEnv, Answer: refuse(400, "bad_request", "Environment has virtual machines")},
		{Op: opDelEnv, After: true, Cut: true},
	}})
}

func TestBaking(t *testing.T) {
	standard.Baking(t, func(f *fake) { f.snapDelay = 3 }, func(t *testing.T, f *fake, b gputrain.BakedImage) {
		if b.Region != "CANADA-1" || b.Arch != "amd64" || b.Base != "the newest Ubuntu of ubuntu" || b.ID != b.Name || b.SizeGiB != 100 {
			t.Errorf("the image is %+v", b)
		}
		q := h100.Query()
		q.Baked = b.Key
		for _, o := range cloudtest.AllOffers(t, cloudtest.Open(t, f.config()), q) {
			if (o.Baked == b.ID) != (o.Region == "CANADA-1") {
				t.Errorf("an offer in %s starts from %q", o.Region, o.Baked)
			}
		}
	})
}

func TestBakeUnderFaults(t *testing.T) {
	listed := func(_ driver.Bake, r driver.Resource) bool { return !r.Created.IsZero() }
	standard.BakeUnderFaults(t, "ERROR", listed, map[string]cloudtest.BakeFault[*fake]{
		"slow":            {Change: func(f *fake) { f.snapDelay = 20 }},
		"lost answer":     {Fault: fakecloud.Fault{Op: opSnapshot, After: true, Cut: true}},
		"no effect":       {Fault: fakecloud.Fault{Op: opSnapshot, Cut: true, Times: 9}, Kind: driver.ErrUnavailable},
		"lists that fail": {Fault: fakecloud.Fault{Op: opSnapshots, Answer: fakecloud.Failure(503, "", ""), Times: 3}},
		"lost image":      {Fault: fakecloud.Fault{Op: opMakeImage, After: true, Cut: true}},
		"image refused":   {Fault: fakecloud.Fault{Op: opMakeImage, Answer: refuse(401, "unauthorized", "Unauthorized")}, Kind: driver.ErrAuth, Left: true},
		"failed":          {Change: func(f *fake) { f.snapFails = true }, Left: true},
		"machine gone": {Change: func(f *fake) {
			for _, r := range f.machines.All(nil) {
				f.machines.Delete(nil, fmt.Sprint(r.row["id"]))
			}
		}, Kind: driver.ErrNotFound},
	})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad("Regions has an empty name|CANADA 1|region NORWAY-1 is not one of NetworkOptimisedRegions|SSHUser|RequestTimeout|TeardownTimeout|TeardownPollInterval|Endpoint", Config{
			Regions: []string{"", "CANADA 1", "NORWAY-1"}, NetworkOptimised: true, SSHUser: "a b", RequestTimeout: time.Millisecond,
			TeardownTimeout: -1, TeardownPollInterval: -1, Endpoint: "https://u:s3cret@example.com/v1?key=1",
		}),
	})
}

func TestErrors(t *testing.T) {
	var all []cloudtest.Refusal
	for _, tt := range []struct {
		status         int
		reason, says   string
		launch, others error
	}{
		{401, "unauthorized", "Unauthorized", driver.ErrAuth, driver.ErrAuth},
		{403, "forbidden", "role", driver.ErrAuth, driver.ErrAuth},
		{400, "bad_request", "Flavor is out of stock", driver.ErrNoCapacity, driver.ErrInvalid},
		{409, "conflict", "Insufficient resources", driver.ErrNoCapacity, driver.ErrUnavailable},
		{403, "forbidden", "Insufficient permissions", driver.ErrAuth, driver.ErrAuth},
		{400, "bad_request", "Quota exceeded for cores", driver.ErrQuota, driver.ErrInvalid},
		{400, "bad_request", "Your credit is used up", driver.ErrBalance, driver.ErrBalance},
		{402, "", "Payment required", driver.ErrBalance, driver.ErrBalance},
		{404, "not_found", "Flavor does not exists", driver.ErrUnsupported, driver.ErrNotFound},
		{404, "", "", driver.ErrUnavailable, driver.ErrUnavailable},
		{429, "", "rate limit", driver.ErrRateLimited, driver.ErrRateLimited},
		{400, "bad_request", "Virtual machine is currently being created and cannot be deleted yet", driver.ErrUnavailable, driver.ErrUnavailable},
		{500, "", "", driver.ErrUnavailable, driver.ErrUnavailable},
	} {
		for op, want := range map[string]error{opCreate: tt.launch, opMachines: tt.others} {
			all = append(all, cloudtest.Refusal{Op: op, Answer: refuse(tt.status, tt.reason, tt.says), Want: want})
		}
	}
	standard.Errors(t, all)
}
