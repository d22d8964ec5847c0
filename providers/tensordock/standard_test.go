package tensordock

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

var standard = cloudtest.Cloud[*fake, Config]{
	Name:       providerName,
	Spec:       rtx4090,
	Start:      func(t *testing.T) *fake { return startFake(t) },
	Still:      func(f *fake) { f.noMachines = true },
	Config:     (*fake).config,
	Account:    (*fake).everything,
	Client:     func(c *Config, client *http.Client) { c.HTTPClient = client },
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) { c.APIToken = key }, Name: "TENSORDOCK_API_TOKEN"},
	Secrets:    []string{testToken, testKey},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {opLocations}, providertest.OpLaunch: {opCreate}, providertest.OpDescribe: {opGet},
		providertest.OpList: {opList}, providertest.OpTerminate: {opDelete},
	},
	Nothing: "nothing is made for a pool but its machines: the create call has its key",
	Made:    map[string]int{"machine": 2},
	// By the second, with its disk (fact sheet, section 6).
	Tariff: fakecloud.Tariff{},
	Meters: (*fake).meters,
}

func TestReadme(t *testing.T) { standard.Readme(t) }

func TestOddRows(t *testing.T) { standard.OddRows(t) }

func TestUnseen(t *testing.T) { standard.Unseen(t, opList, opGet) }

func TestUnseenPool(t *testing.T) { standard.UnseenPool(t, opList, opGet) }

func TestGolden(t *testing.T) {
	standard.Golden(t, cloudtest.Written[Config]{File: "tensordock", Query: rtx4090.Query()})
}

func TestGuardian(t *testing.T) { standard.Guardian(t) }

func TestStrangers(t *testing.T) { standard.Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

func TestKey(t *testing.T) { standard.Key(t, "TENSORDOCK_API_KEY") }

func TestConformance(t *testing.T) {
	standard.Conformance(t, func(f *fake) providertest.Harness {
		return providertest.Harness{
			Foreign: f.foreign,
			States:  f.states,
			Stall:   func() { f.Do(func() { f.status = "queued" }) },
			Room:    func(n int) { f.Do(func() { f.room = n }) },
			Funds:   func(usd float64) { f.Do(func() { f.usd = usd }) },
			Unpriced: func() {
				f.Do(func() {
					for _, l := range f.locations {
						for _, g := range l["gpus"].([]row) {
							g["pricing"] = row{"per_vcpu_hr": 0.003}
						}
					}
				})
			},
			Without: map[string]string{
				"PagedOffers": "all locations are one answer", "Allow": "the API tells no quota", "Tags": "there are no tags, and a name has no room for them",
			},
		}
	})
}

// states returns the API's states, one of them in each spelling, and one that the API does not
// have.
func (f *fake) states() []providertest.StateCase {
	words := map[string]driver.InstanceState{
		"Stopped_Disassociated": driver.InstancePreempted, "RUNNING": driver.InstanceRunning, "relocating": driver.InstanceUnknown,
	}
	maps.Copy(words, states)
	return cloudtest.States(words, func(id, word string) { f.set(id, row{"status": word}) })()
}

func TestPool(t *testing.T) { standard.Pool(t, cloudtest.Pool[*fake]{}) }

func TestPoolUnderFaults(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Before: func(f *fake) { f.thinList = true }, Faults: []fakecloud.Fault{
		{Op: opLocations, Answer: failure(502, "Bad gateway")},
		{Op: opAuth, Cut: true},
		{Op: opCreate, After: true, Cut: true},
		{Op: opCreate, Answer: refusal(400, "Hostnode unavailable")},
		{Op: opList, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opList, Answer: fakecloud.Reply(500, "oops")},
		{Op: opGet, Answer: fakecloud.Reply(429, row{"message": "slow down"})},
		{Op: opDelete, Answer: refusal(500, "try again")},
		{Op: opDelete, After: true, Cut: true},
	}})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad("MarketplaceEndpoint", Config{MarketplaceEndpoint: "marketplace.tensordock.com"}),
		cloudtest.Bad("MinTier is 5", Config{MinTier: 5}),
		cloudtest.Bad("OperatingSystem", Config{OperatingSystem: "Ubuntu 22.04 LTS"}),
		cloudtest.Bad("SSHUser", Config{SSHUser: "a b"}),
		cloudtest.Bad("StorageGB is 50", Config{StorageGB: 50}),
		cloudtest.Bad("MinVCPUs is -1", Config{MinVCPUs: -1}),
		cloudtest.Bad("MinRAMGB is 513", Config{MinRAMGB: 513}),
		cloudtest.Bad("RequestTimeout is 1ms", Config{RequestTimeout: time.Millisecond}),
		cloudtest.Bad("Endpoint", Config{Endpoint: "dashboard.tensordock.com"}),
		cloudtest.Bad("Endpoint", Config{Endpoint: "https://user:s3cret@dashboard.tensordock.com"}),
		cloudtest.Bad("MinTier|StorageGB", Config{MinTier: 9, StorageGB: 1}),
	})
}

func TestErrors(t *testing.T) {
	standard.Errors(t, []cloudtest.Refusal{
		cloudtest.Refused("", opCreate, failure(401, "Unauthorized"), driver.ErrAuth),
		cloudtest.Refused("", opCreate, failure(403, "Forbidden"), driver.ErrAuth),
		cloudtest.Refused("", opCreate, refusal(401, "Unauthorized"), driver.ErrAuth),
		cloudtest.Refused("", opCreate, refusal(400, "Hostnode unavailable"), driver.ErrNoCapacity),
		cloudtest.Refused("", opCreate, failure(400, "Not enough GPUs"), driver.ErrNoCapacity),
		cloudtest.Refused("", opCreate, fakecloud.Reply(200, row{"error": "No available hostnodes"}), driver.ErrNoCapacity),
		cloudtest.Refused("", opCreate, fakecloud.Reply(400, row{"errors": []row{{"title": "Bad", "detail": "no available GPU"}}}), driver.ErrNoCapacity),
		cloudtest.Refused("", opCreate, refusal(400, "You need at least $1 in your account"), driver.ErrBalance),
		cloudtest.Refused("", opCreate, fakecloud.Reply(400, "Insufficient funds"), driver.ErrBalance),
		cloudtest.Refused("", opCreate, refusal(400, "vcpu_count must be even"), driver.ErrInvalid),
		cloudtest.Refused("", opCreate, refusal(400, "Location not found"), driver.ErrNotFound),
		cloudtest.Refused("", opCreate, refusal(400, "An unexpected error has occurred"), driver.ErrUnavailable),
		cloudtest.Refused("", opCreate, refusal(500, "Internal"), driver.ErrUnavailable),
		cloudtest.Refused("", opCreate, failure(502, "Bad gateway"), driver.ErrUnavailable),
		cloudtest.Refused("", opCreate, failure(409, "The machine must be stopped"), driver.ErrUnavailable),
		cloudtest.Refused("", opCreate, fakecloud.Failure(429, row{"message": "slow down"}, ""), driver.ErrRateLimited),
		cloudtest.Refused("", opCreate, fakecloud.Reply(404, "<html>no such page</html>"), driver.ErrUnavailable),
	})
}
