package vultr

import (
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
	Spec:    l40s(),
	Start:   func(t *testing.T) *fake { return startFake(t) },
	Still:   func(f *fake) { f.noMachines = true },
	Config:  (*fake).config,
	Account: (*fake).account,
	Dialed: func(d driver.Driver) driver.Driver {
		return struct {
			*vultrDriver
			cloudtest.Dialer
		}{vultrDriver: d.(*vultrDriver)}
	},
	Client:     func(c *Config, client *http.Client) { c.HTTPClient = client },
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) { c.APIKey = key }, Name: keyVariable},
	Secrets:    []string{testKey},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {opStock}, providertest.OpLaunch: {opCreate}, providertest.OpDescribe: {opShow},
		providertest.OpList: {opMetalList}, providertest.OpTerminate: {opEnd},
	},
	Nothing: "nothing is made for a pool but machines",
	Made:    map[string]int{"machine": 2},
	// By the hour, rounded up, also while it is halted (fact sheet, section 7).
	Tariff: fakecloud.Tariff{Unit: time.Hour},
	Meters: (*fake).meters,
}

func TestReadme(t *testing.T) { standard.Readme(t) }

func TestOddRows(t *testing.T) { standard.OddRows(t) }

func TestUnseen(t *testing.T) { standard.Unseen(t, opList, opShow) }

func TestUnseenPool(t *testing.T) { standard.UnseenPool(t, opList, opShow) }

func TestGolden(t *testing.T) {
	standard.Golden(t,
		cloudtest.Written[Config]{File: "vultr", Query: l40s().Query(), Change: in(Cloud)},
		cloudtest.Written[Config]{File: "vultr-metal", Query: h100s.Query(), Change: in(BareMetal)})
}

func TestGuardian(t *testing.T) { standard.Guardian(t) }

func TestStrangers(t *testing.T) { standard.Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

func TestKey(t *testing.T) { standard.Key(t) }

func TestPool(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Open: func(t *testing.T, _ *fake, pool *gputrain.Compute) {
		if addr := pool.Nodes()[0].PrivateAddr; addr != "" {
			t.Errorf("a private address: %s", addr)
		}
	}})
}

func TestPoolUnderFaults(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{
		Faults: []fakecloud.Fault{
			{Op: opAccount, Answer: fakecloud.Failure(503, "", "")},
			{Op: opPlans, Cut: true},
			{Op: opStock, Answer: fakecloud.Failure(502, "", "")},
			{Op: opCreate, After: true, Cut: true},
			{Op: opCreate, After: true, Answer: failure(500, "Internal error")},
			{Op: opList, Lag: fakecloud.Lag{Calls: 3}, Times: 2},
			{Op: opMetalList, Answer: fakecloud.Failure(503, "", "")},
			{Op: opShow, Answer: fakecloud.Garbage()},
			{Op: opChange, Answer: failure(500, "Internal error")},
			{Op: opEnd, Answer: failure(429, "Rate limit exceeded")},
			{Op: opEnd, After: true, Cut: true},
		},
		After: func(t *testing.T, f *fake) {
			if n := len(f.Records(opCreate)); n != 2 {
				t.Errorf("%d creates of two nodes", n)
			}
		},
	})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad(`"cloud" nor "bare-metal"|Region|OSID is -1|both set|ImageID|ProvisionTimeout|RequestTimeout|Endpoint`, Config{
			Mode: "metal", Region: "New Jersey", OSID: -1, ImageID: "a b", ProvisionTimeout: 1, RequestTimeout: -1, Endpoint: "api.vultr.com",
		}),
		cloudtest.Bad("Endpoint", Config{Endpoint: "https://user:s3cret@api.vultr.com"}),
	})
}

// There are no codes: the text of a refused launch determines its kind.
func TestErrors(t *testing.T) {
	standard.Errors(t, []cloudtest.Refusal{
		cloudtest.Refused("", opCreate, failure(400, "Invalid plan chosen."), driver.ErrInvalid),
		cloudtest.Refused("", opCreate, failure(404, "Invalid region."), driver.ErrInvalid),
		cloudtest.Refused("", opCreate, failure(400, "Server add failed: Out of stock"), driver.ErrNoCapacity),
		cloudtest.Refused("", opCreate, failure(400, "The plan is not available in the selected region"), driver.ErrNoCapacity),
		cloudtest.Refused("", opCreate, failure(422, "Plan currently unavailable."), driver.ErrNoCapacity),
		cloudtest.Refused("", opCreate, failure(400, "Insufficient capacity in ewr"), driver.ErrNoCapacity),
		cloudtest.Refused("", opCreate, failure(400, "You have reached the maximum monthly fee limit for this account."), driver.ErrQuota),
		cloudtest.Refused("", opCreate, failure(402, "Your account balance is insufficient"), driver.ErrBalance),
		cloudtest.Refused("", opCreate, failure(402, "Payment required"), driver.ErrBalance),
		cloudtest.Refused("", opCreate, failure(400, "Insufficient quota"), driver.ErrQuota),
		cloudtest.Refused("", opCreate, failure(412, "Instance quota exceeded"), driver.ErrQuota),
		cloudtest.Refused("", opCreate, failure(401, "Invalid API token."), driver.ErrAuth),
		cloudtest.Refused("", opCreate, failure(403, "This key is not available at this address"), driver.ErrAuth),
		cloudtest.Refused("", opCreate, failure(429, "Rate limit exceeded"), driver.ErrRateLimited),
		cloudtest.Refused("", opCreate, failure(503, "Out of capacity"), driver.ErrUnavailable),
		cloudtest.Refused("", opList, failure(500, ""), driver.ErrUnavailable),
	})
}
