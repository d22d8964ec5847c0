package verda

import (
	"net/http"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

var h100 = gputrain.Spec{Accelerator: accelerators.H100()}

var standard = cloudtest.Cloud[*fake, Config]{
	Name:    providerName,
	Spec:    h100,
	Start:   func(t *testing.T) *fake { return startFake(t) },
	Still:   func(f *fake) { f.noMachines = true },
	Config:  (*fake).config,
	Account: (*fake).everything,
	Dialed: func(d driver.Driver) driver.Driver {
		return struct {
			*verdaDriver
			cloudtest.Dialer
		}{verdaDriver: d.(*verdaDriver)}
	},
	Client:     func(c *Config, client *http.Client) { c.HTTPClient = client },
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) { c.ClientSecret = key }, Name: "VERDA_CLIENT_SECRET"},
	Secrets:    []string{testSecret},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {opTypes}, providertest.OpPrepare: {opAddKey}, providertest.OpLaunch: {opCreate}, providertest.OpDescribe: {opGet},
		providertest.OpList: {opList}, providertest.OpTerminate: {opAct}, providertest.OpRelease: {opDelKey},
	},
	Made: map[string]int{"machine": 2, "key": 1},
	// Prepaid in steps of ten minutes, of which the unused part is refunded; a volume while it exists (fact sheet, section 7).
	Tariff: fakecloud.Tariff{Unit: 10 * time.Minute, Refunds: true},
	Meters: (*fake).meters,
}

func TestReadme(t *testing.T) { standard.Readme(t) }

func TestOddRows(t *testing.T) { standard.OddRows(t) }

func TestUnseen(t *testing.T) { standard.Unseen(t, opList, opGet) }

func TestUnseenPool(t *testing.T) { standard.UnseenPool(t, opList, opGet) }

func TestGolden(t *testing.T) {
	standard.Golden(t, cloudtest.Written[Config]{File: "verda", Query: h100.Query()})
}

func TestGuardian(t *testing.T) { standard.Guardian(t) }

func TestStrangers(t *testing.T) { standard.Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

func TestKey(t *testing.T) { standard.Key(t) }

func TestPool(t *testing.T) { standard.Pool(t, cloudtest.Pool[*fake]{}) }

func TestPoolUnderFaults(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Before: func(f *fake) { f.leaves = "detached" }, Faults: []fakecloud.Fault{
		{Op: opTypes, Answer: failure(500, "server_error", "try again")},
		{Op: opToken, Answer: failure(500, "server_error", "try again")},
		{Op: opAddKey, After: true, Cut: true},
		{Op: opCreate, After: true, Cut: true},
		{Op: opCreate, Answer: failure(503, "service_unavailable", "No capacity available")},
		{Op: opList, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opGet, Answer: failure(401, "unauthorized_request", "The token has expired")},
		{Op: opAct, Answer: fakecloud.Failure(429, row{"code": "rate_limit_exceeded", "message": "slow down"}, "")},
		{Op: opAct, After: true, Cut: true},
		{Op: opDelVolume, After: true, Cut: true},
		{Op: opDelKey, Answer: failure(502, "", "")},
	}})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad("ClientID", Config{ClientID: "a b"}),
		cloudtest.Bad(`Region "FIN 01"`, Config{Region: "FIN 01"}),
		cloudtest.Bad("Image", Config{Image: "ubuntu 24"}),
		cloudtest.Bad(`CUDA "13"`, Config{CUDA: "13"}),
		cloudtest.Bad("SSHKeyID", Config{SSHKeyID: "a\nb"}),
		cloudtest.Bad("RequestTimeout is 1ms", Config{RequestTimeout: time.Millisecond}),
		cloudtest.Bad("Endpoint", Config{Endpoint: "api.verda.com"}),
		cloudtest.Bad("Endpoint", Config{Endpoint: "https://user:s3cret@api.verda.com"}),
		cloudtest.Bad("Region|; the minimum", Config{Region: "a b", RequestTimeout: -time.Second}),
		cloudtest.Bad("Region|Image", Config{Region: "a b", Image: "c d"}),
	})
}

// The API's text determines the kind of a failure before the status does.
func TestErrors(t *testing.T) {
	standard.Errors(t, []cloudtest.Refusal{
		cloudtest.Refused("", opList, failure(401, "unauthorized_request", "Invalid client id or client secret"), driver.ErrAuth),
		cloudtest.Refused("", opList, failure(403, "forbidden_action", "Insufficient scope"), driver.ErrAuth),
		cloudtest.Refused("", opList, failure(402, "insufficient_funds", "Top up"), driver.ErrBalance),
		cloudtest.Refused("", opList, failure(402, "payment_required", "pay"), driver.ErrBalance),
		cloudtest.Refused("", opList, failure(400, "invalid_request", "Volume limit exceeded"), driver.ErrQuota),
		cloudtest.Refused("", opList, failure(400, "invalid_request", "Storage quota reached"), driver.ErrQuota),
		cloudtest.Refused("", opList, failure(400, "invalid_request", "hostname is too long"), driver.ErrInvalid),
		cloudtest.Refused("", opList, failure(503, "service_unavailable", "No capacity available"), driver.ErrNoCapacity),
		cloudtest.Refused("", opList, failure(503, "service_unavailable", "Maintenance"), driver.ErrUnavailable),
		cloudtest.Refused("", opList, failure(500, "server_error", "oops"), driver.ErrUnavailable),
		cloudtest.Refused("", opList, failure(404, "not_found", "Instance not found"), driver.ErrNotFound),
		cloudtest.Refused("of a gateway", opList, fakecloud.Failure(404, "<html>not here</html>", ""), driver.ErrUnavailable),
		cloudtest.Refused("", opList, failure(400, "invalid_request", "Invalid instance id"), driver.ErrNotFound),
		cloudtest.Refused("", opList, failure(403, "forbidden_action", "Can't discontinue a discontinued instance"), driver.ErrNotFound),
		cloudtest.Refused("", opList, failure(403, "forbidden_action", "Can't discontinue a provisioning instance"), driver.ErrUnavailable),
		cloudtest.Refused("", opList, failure(429, "rate_limit_exceeded", "slow down"), driver.ErrRateLimited),
	})
}
