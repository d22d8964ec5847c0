package novita

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestMain(m *testing.M) { cloudtest.Main(m) }

var standard = cloudtest.Cloud[*fake, Config]{
	Name:       providerName,
	Spec:       rtx4090,
	Start:      startFake,
	Config:     (*fake).config,
	Account:    (*fake).account,
	Client:     func(c *Config, client *http.Client) { c.HTTPClient = client },
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) { c.APIKey = key }, Name: "NOVITA_API_KEY"},
	Secrets:    []string{testKey, testPassword, registryPassword},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {opProducts}, providertest.OpLaunch: {opCreate}, providertest.OpDescribe: {opInstance},
		providertest.OpList: {opList}, providertest.OpTerminate: {opEnd},
	},
	Nothing: "Prepare makes nothing: the API has no keys",
	Made:    map[string]int{"machine": 2},
	// By the second, from pulling the image to the end; the price is of one GPU, in 1/100,000 USD, and a disk of more than 60 GB costs
	// 0.005 USD a GB and day (fact sheet, sections 2 and 7).
	Tariff: fakecloud.Tariff{Free: []string{"toCreate", "creating", "toRemove", "removing", "removed"}},
	Meters: (*fake).meters,
}

func TestReadme(t *testing.T) { standard.Readme(t) }

func TestOddRows(t *testing.T) { standard.OddRows(t) }

func TestUnseen(t *testing.T) { standard.Unseen(t, opInstance, opList) }

func TestUnseenPool(t *testing.T) { standard.UnseenPool(t, opInstance, opList) }

func TestGolden(t *testing.T) { standard.Golden(t, cloudtest.Written[Config]{File: "novita"}) }

func TestGuardian(t *testing.T) { standard.Guardian(t) }

func TestStrangers(t *testing.T) { standard.Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

func TestKey(t *testing.T) { standard.Key(t) }

func TestPool(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Before: func(f *fake) { f.warm = 2 }})
}

func TestPoolUnderFaults(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Before: func(f *fake) { f.firstPage = 1 }, Faults: []fakecloud.Fault{
		{Op: opProducts, Answer: fakecloud.Failure(503, "", "")},
		{Op: opCreate, After: true, Cut: true},
		{Op: opCreate, Answer: failure(400, "INSUFFICIENT_RESOURCE", "insufficient resource")},
		{Op: opList, Skip: 1, Answer: fakecloud.Failure(500, "", "")},
		{Op: opInstance, Answer: failure(429, "RATE_LIMIT_EXCEEDED", "slow down")},
		{Op: opInstance, Answer: fakecloud.Garbage()},
		{Op: opEnd, After: true, Cut: true},
		{Op: opEnd, Answer: fakecloud.Failure(502, "", "")},
	}})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad("ClusterID|Image|MinCUDAVersion|RootFSSize|RequestTimeout|Endpoint", Config{ClusterID: "a b", Image: "a b", MinCUDAVersion: "12", RootFSSize: 5, RequestTimeout: 1, Endpoint: "novita"}),
		cloudtest.Bad("Endpoint", Config{Endpoint: "https://user:s3cret@novita.example"}),
		cloudtest.Bad("set Image too", Config{MinCUDAVersion: "10.2"}),
		cloudtest.Bad("501", Config{Image: strings.Repeat("a", 501)}),
	})
}

func TestErrors(t *testing.T) {
	standard.Errors(t, []cloudtest.Refusal{
		cloudtest.Refused("", opEnd, failure(400, "BALANCE_NOT_ENOUGH", "balance not enough"), driver.ErrBalance),
		cloudtest.Refused("", opEnd, failure(500, "WALLET_NOT_FOUND", "wallet"), driver.ErrBalance),
		cloudtest.Refused("", opEnd, failure(500, "", "a node of it: RESOURCE_NOT_FOUND"), driver.ErrUnavailable),
		cloudtest.Refused("", opEnd, failure(400, "OPERATION_LIMIT", ""), driver.ErrQuota),
		cloudtest.Refused("", opEnd, failure(403, "BANNED_USER", ""), driver.ErrAuth),
		cloudtest.Refused("", opEnd, failure(401, "INVALID_USER_TOKEN", ""), driver.ErrAuth),
		cloudtest.Refused("", opEnd, failure(403, "", "not for you"), driver.ErrAuth),
		cloudtest.Refused("", opEnd, failure(400, "IMAGE_NOT_FOUND", ""), driver.ErrInvalid),
		cloudtest.Refused("", opEnd, failure(400, "CLUSTER_STATUS", ""), driver.ErrNoCapacity),
		cloudtest.Refused("", opEnd, failure(409, "CONFLICT", ""), driver.ErrUnavailable),
		cloudtest.Refused("", opEnd, failure(400, "PREPAID_INSTANCE_NOT_SUPPORT_RELEASE", ""), driver.ErrUnsupported),
		cloudtest.Refused("", opEnd, fakecloud.Reply(400, row{"code": "VALIDATOR_PARAM"}), driver.ErrInvalid),
		cloudtest.Refused("", opEnd, fakecloud.Reply(400, row{"error": "rpc error: INSUFFICIENT_RESOURCE"}), driver.ErrNoCapacity),
		cloudtest.Refused("", opEnd, fakecloud.Reply(400, row{"message": "INSUFFICIENT_RESOURCE: try later"}), driver.ErrNoCapacity),
		cloudtest.Refused("", opEnd, fakecloud.Reply(400, "error: BALANCE_NOT_ENOUGH"), driver.ErrBalance),
		cloudtest.Refused("", opEnd, fakecloud.Reply(400, row{"error": row{"type": "EXPIRED_OR_BALANCE_NOT_ENOUGH"}}), driver.ErrBalance),
		cloudtest.Refused("", opEnd, fakecloud.Reply(200, row{"code": 403, "message": "not for you"}), driver.ErrAuth),
		cloudtest.Refused("", opEnd, fakecloud.Reply(404, "page not found"), driver.ErrUnavailable),
	})
}
