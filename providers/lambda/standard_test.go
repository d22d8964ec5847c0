package lambda

import (
	"net/http"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestMain(m *testing.M) { cloudtest.Main(m) }

var standard = cloudtest.Cloud[*fake, Config]{
	Name:       providerName,
	Spec:       oneA10,
	Start:      func(t *testing.T) *fake { return startFake(t) },
	Still:      func(f *fake) { f.noMachines = true },
	Config:     (*fake).config,
	Account:    (*fake).account,
	Dialed:     cloudtest.Port22,
	Client:     func(c *Config, client *http.Client) { c.HTTPClient = client },
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) { c.APIKey = key }, Name: keyVariable},
	Secrets:    []string{testKey},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {opTypes}, providertest.OpPrepare: {opAddKey}, providertest.OpLaunch: {opLaunch}, providertest.OpDescribe: {opList},
		providertest.OpList: {opList}, providertest.OpTerminate: {opTerminate}, providertest.OpRelease: {opDelKey},
	},
	Made: map[string]int{"machine": 2, "key": 1},
	// From the moment health checks pass until terminate is accepted, per minute (fact sheet, section 7).
	Tariff: fakecloud.Tariff{Unit: time.Minute, Free: []string{"booting", "unhealthy", "terminating", "terminated"}},
	Meters: (*fake).meters,
}

func TestReadme(t *testing.T) { standard.Readme(t) }

func TestOddRows(t *testing.T) { standard.OddRows(t) }

func TestUnseen(t *testing.T) { standard.Unseen(t, opList, opShow) }

func TestUnseenPool(t *testing.T) { standard.UnseenPool(t, opList, opShow) }

func TestGolden(t *testing.T) { standard.Golden(t, cloudtest.Written[Config]{File: "lambda"}) }

func TestGuardian(t *testing.T) { standard.Guardian(t) }

func TestStrangers(t *testing.T) { standard.Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

func TestKey(t *testing.T) { standard.Key(t) }

func TestPool(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Node: cloudtest.Node{USD: 0.75, InstanceType: "gpu_1x_a10"}})
}

func TestPoolUnderFaults(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Faults: []fakecloud.Fault{
		{Op: opTypes, Answer: failure(500, "global/internal-error", "oops")},
		{Op: opAddKey, After: true, Cut: true},
		{Op: opLaunch, After: true, Answer: fakecloud.HTML()},
		{Op: opLaunch, Answer: failure(400, "instance-operations/launch/insufficient-capacity", "Not enough capacity to fulfill launch request.")},
		{Op: opLaunch, Answer: fakecloud.Failure(429, "Too Many Requests", "")},
		{Op: opList, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opShow, Answer: fakecloud.Garbage()},
		{Op: opTerminate, After: true, Cut: true},
		{Op: opTerminate, Answer: fakecloud.Failure(502, "<html>Bad Gateway</html>", "")},
		{Op: opDelKey, Cut: true},
	}})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad("Region", Config{Region: "us west"}),
		cloudtest.Bad("ImageFamily", Config{ImageFamily: "lambda\nstack"}),
		cloudtest.Bad("set Region", Config{FileSystems: []string{"data"}}),
		cloudtest.Bad("empty name", Config{Region: "us-west-1", FileSystems: []string{""}}),
		cloudtest.Bad("RequestTimeout", Config{RequestTimeout: time.Millisecond}),
		cloudtest.Bad("LaunchInterval", Config{LaunchInterval: -1}),
		cloudtest.Bad("Endpoint", Config{Endpoint: "https://user:s3cret@proxy"}),
		cloudtest.Bad("Region|ImageFamily|RequestTimeout", Config{Region: "us west", ImageFamily: "lambda\nstack", RequestTimeout: time.Millisecond}),
	})
}

// The table is that of the sheet.
func TestErrors(t *testing.T) {
	standard.Errors(t, []cloudtest.Refusal{
		cloudtest.Refused("wrong key", opList, failure(401, "global/invalid-api-key", "API key was invalid, expired, or deleted."), driver.ErrAuth),
		cloudtest.Refused("forbidden", opList, fakecloud.Failure(403, "no", ""), driver.ErrAuth),
		cloudtest.Refused("inactive account", opList, failure(403, "global/account-inactive", "Your account is inactive."), driver.ErrQuota),
		cloudtest.Refused("no billing address", opLaunch, failure(403, "global/invalid-address", "Your billing address is invalid."), driver.ErrQuota),
		cloudtest.Refused("no capacity", opLaunch, failure(400, "instance-operations/launch/insufficient-capacity", "Not enough capacity to fulfill launch request."), driver.ErrNoCapacity),
		cloudtest.Refused("no capacity, alias", opLaunch, failure(400, "global/insufficient-capacity", "Not enough capacity."), driver.ErrNoCapacity),
		cloudtest.Refused("quota", opLaunch, failure(400, "global/quota-exceeded", "Quota exceeded."), driver.ErrQuota),
		cloudtest.Refused("invalid", opLaunch, failure(400, "global/invalid-parameters", "Region moon-1 does not exist"), driver.ErrInvalid),
		cloudtest.Refused("file system elsewhere", opLaunch, failure(400, "instance-operations/launch/file-system-in-wrong-region", "Requested file system is not in the requested region."), driver.ErrInvalid),
		cloudtest.Refused("unknown part, 404", opLaunch, failure(404, "global/object-does-not-exist", "Image does not exist."), driver.ErrInvalid),
		cloudtest.Refused("unknown part, 400", opLaunch, failure(400, "global/object-does-not-exist", "Image does not exist."), driver.ErrInvalid),
		cloudtest.Refused("rate limit, text", opLaunch, fakecloud.Failure(429, "Too Many Requests", ""), driver.ErrRateLimited),
		cloudtest.Refused("failure in a 200", opList, failure(200, "global/internal-error", "oops"), nil),
		cloudtest.Refused("server fails", opList, failure(500, "global/internal-error", "oops"), driver.ErrUnavailable),
		cloudtest.Refused("provider is unavailable", opLaunch, failure(503, "provider/internal-unavailable", "oops"), driver.ErrUnavailable),
		cloudtest.Refused("no list", opList, fakecloud.Reply(200, row{}), driver.ErrUnavailable),
		cloudtest.Refused("list of null", opList, data(nil), driver.ErrUnavailable),
		cloudtest.Refused("list without IDs", opList, data([]row{{"status": "active"}}), driver.ErrUnavailable),
		cloudtest.Refused("launch of nothing", opLaunch, data(row{"instance_ids": []string{}}), driver.ErrUnavailable),
	})
}
