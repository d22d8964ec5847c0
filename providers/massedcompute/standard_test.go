package massedcompute

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestMain(m *testing.M) {
	os.Unsetenv(vendorVariable)
	cloudtest.Main(m)
}

var standard = cloudtest.Cloud[*fake, Config]{
	Name:       providerName,
	Spec:       oneL40,
	Start:      func(t *testing.T) *fake { return startFake(t) },
	Still:      func(f *fake) { f.noMachines = true },
	Config:     (*fake).config,
	Account:    (*fake).account,
	Dialed:     cloudtest.Port22,
	Client:     func(c *Config, client *http.Client) { c.HTTPClient = client },
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) { c.APIKey = key }, Name: keyVariable},
	Secrets:    []string{testKey},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {opInventory}, providertest.OpPrepare: {opAddKey}, providertest.OpLaunch: {opLaunch}, providertest.OpDescribe: {opList},
		providertest.OpList: {opList}, providertest.OpTerminate: {opTerminate}, providertest.OpRelease: {opDelKey},
	},
	Made: map[string]int{"machine": 2, "key": 1},
	// By the minute, from the launch to the end (fact sheet, section 7).
	Tariff: fakecloud.Tariff{Unit: time.Minute},
	Meters: (*fake).meters,
}

func TestReadme(t *testing.T) { standard.Readme(t) }

func TestOddRows(t *testing.T) { standard.OddRows(t) }

func TestUnseen(t *testing.T) { standard.Unseen(t, opList, opShow) }

func TestUnseenPool(t *testing.T) { standard.UnseenPool(t, opList, opShow) }

func TestGolden(t *testing.T) { standard.Golden(t, cloudtest.Written[Config]{File: "massedcompute"}) }

func TestGuardian(t *testing.T) { standard.Guardian(t) }

func TestStrangers(t *testing.T) { standard.Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

func TestKey(t *testing.T) { standard.Key(t, vendorVariable) }

func TestPool(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Node: cloudtest.Node{USD: 0.86, InstanceType: "gpu_1x_l40", Region: "us-central-1"}})
}

func TestPoolUnderFaults(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Faults: []fakecloud.Fault{
		{Op: opInventory, Answer: fakecloud.Failure(503, "", "")},
		{Op: opAddKey, After: true, Cut: true},
		{Op: opLaunch, After: true, Cut: true},
		{Op: opLaunch, Answer: failure(400, "no capacity available")},
		{Op: opLaunch, Answer: fakecloud.Failure(429, "Too Many Requests", "")},
		{Op: opList, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opShow, Answer: fakecloud.Garbage()},
		{Op: opTerminate, After: true, Cut: true},
		{Op: opTerminate, Answer: fakecloud.HTML()},
		{Op: opDelKey, Answer: fakecloud.Failure(502, "", "")},
	}})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad("ImageID", Config{ImageID: -1}),
		cloudtest.Bad("Coupon", Config{Coupon: "two words"}),
		cloudtest.Bad("RequestTimeout", Config{RequestTimeout: time.Millisecond}),
		cloudtest.Bad("Endpoint", Config{Endpoint: "vm.example.com"}),
		cloudtest.Bad("Endpoint", Config{Endpoint: "https://user:s3cret@vm.example.com"}),
		cloudtest.Bad("ImageID|Coupon|RequestTimeout", Config{ImageID: -1, Coupon: "two words", RequestTimeout: time.Millisecond}),
	})
}

// The table is that of the sheet, in each of the forms of a failure.
func TestErrors(t *testing.T) {
	standard.Errors(t, []cloudtest.Refusal{
		cloudtest.Refused("wrong key", opList, failure(401, "Invalid Token"), driver.ErrAuth),
		cloudtest.Refused("key for reading", opLaunch, failure(403, "Forbidden"), driver.ErrAuth),
		cloudtest.Refused("no recharge", opLaunch, failure(402, "Recharge amount is not set"), driver.ErrBalance),
		cloudtest.Refused("unknown product", opLaunch, failure(404, "Product not found"), driver.ErrInvalid),
		cloudtest.Refused("conflict", opLaunch, failure(409, ""), driver.ErrNoCapacity),
		cloudtest.Refused("no capacity", opLaunch, failure(400, "No Capacity available"), driver.ErrNoCapacity),
		cloudtest.Refused("out of stock", opLaunch, fakecloud.Failure(400, row{"error": "out of stock"}, ""), driver.ErrNoCapacity),
		cloudtest.Refused("no longer there", opLaunch, fakecloud.Failure(422, row{"error": row{"message": "it is no longer available"}}, ""), driver.ErrNoCapacity),
		cloudtest.Refused("no capacity, as text", opLaunch, fakecloud.Failure(400, "no capacity", ""), driver.ErrNoCapacity),
		cloudtest.Refused("quota", opLaunch, failure(400, "Instance limit exceeded"), driver.ErrQuota),
		cloudtest.Refused("wrong image", opLaunch, failure(400, "Product does not support the VM Image"), driver.ErrInvalid),
		cloudtest.Refused("rate limit", opLaunch, fakecloud.Failure(429, "Too Many Requests", ""), driver.ErrRateLimited),
		cloudtest.Refused("server at capacity", opList, fakecloud.Failure(503, "over capacity", ""), driver.ErrUnavailable),
		cloudtest.Refused("launch, at capacity", opLaunch, fakecloud.Failure(503, "over capacity", ""), driver.ErrUnavailable),
		cloudtest.Refused("list without its list", opList, fakecloud.Reply(200, row{}), driver.ErrUnavailable),
		cloudtest.Refused("list without UUIDs", opList, fakecloud.Reply(200, row{"runningInstances": []row{{"name": "x"}}}), driver.ErrUnavailable),
		cloudtest.Refused("keys without a list", opKeys, fakecloud.Reply(200, row{}), driver.ErrUnavailable),
		cloudtest.Refused("launch of nothing", opLaunch, fakecloud.Reply(202, row{"response": ""}), driver.ErrUnavailable),
	})
}
