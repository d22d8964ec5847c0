package scaleway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestMain(m *testing.M) { cloudtest.Main(m) }

var standard = cloudtest.Cloud[*fake, Config]{
	Name:    providerName,
	Spec:    l4,
	Start:   startFake,
	Config:  (*fake).config,
	Account: (*fake).account,
	Dialed: func(d driver.Driver) driver.Driver {
		return struct {
			*scalewayDriver
			cloudtest.Dialer
		}{scalewayDriver: d.(*scalewayDriver)}
	},
	Client:     func(c *Config, client *http.Client) { c.HTTPClient = client },
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) { c.SecretKey = key }, Name: "SCW_SECRET_KEY"},
	Secrets:    []string{testKey},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {opProducts}, providertest.OpLaunch: {opCreate}, providertest.OpDescribe: {opServer, opServers},
		providertest.OpList: {opServers}, providertest.OpTerminate: {opAction, opDelete}, providertest.OpRelease: {opVolumes},
	},
	Nothing: "Prepare makes nothing: each server is made with the pool's key",
	Made:    map[string]int{"machine": 2, "volume": 2},
	// By the minute, from power-on through standby, but RENDER-S by the hour (fact sheet, section 6). No API tells what a volume costs.
	Tariff: fakecloud.Tariff{Unit: time.Minute, Free: []string{"stopped"}},
	Meters: (*fake).meters,
}

func TestReadme(t *testing.T) { standard.Readme(t) }

func TestOddRows(t *testing.T) { standard.OddRows(t) }

func TestUnseenPool(t *testing.T) { standard.UnseenPool(t, opServers, opServer) }

func TestGolden(t *testing.T) {
	standard.Golden(t, cloudtest.Written[Config]{File: "scaleway", Query: driver.Query{Accelerator: accelerators.H100()}})
}

func TestGuardian(t *testing.T) { standard.Guardian(t) }

func TestStrangers(t *testing.T) { standard.Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

func TestKey(t *testing.T) { standard.Key(t) }

func TestPool(t *testing.T) { standard.Pool(t, cloudtest.Pool[*fake]{}) }

func TestPoolUnderFaults(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Faults: []fakecloud.Fault{
		{Op: opProducts, Answer: fakecloud.Failure(503, "", "")},
		{Op: opCreate, After: true, Cut: true},
		{Op: opUserData, After: true, Cut: true},
		{Op: opAction, Skip: 1, After: true, Cut: true},
		{Op: opTagVolume, Answer: fakecloud.Failure(502, "", "")},
		{Op: opServer, Skip: 2, Answer: fakecloud.Failure(429, "", "")},
		{Op: opServers, Answer: fakecloud.Failure(500, "", "")},
		{Op: opGetUserData, Answer: fakecloud.Failure(500, "", "")},
		{Op: opDeleteVolume, After: true, Cut: true},
	}})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad("ProjectID|Zone|Image|USDPerEUR|RequestTimeout|Endpoint", Config{ProjectID: "p", Zone: "paris", Image: "a b", USDPerEUR: -1, RequestTimeout: 1, Endpoint: "scaleway"}),
		cloudtest.Bad("Endpoint", Config{Endpoint: "https://user:s3cret@scaleway.example"}),
	})
}

// A project of the variable is checked, too.
func TestProjectOfTheVariable(t *testing.T) {
	t.Setenv("SCW_DEFAULT_PROJECT_ID", "my project")
	_, err := Config{SecretKey: testKey}.Open(t.Context())
	cloudtest.Is(t, err, driver.ErrInvalid, "scaleway", "open")
	if err == nil || !strings.Contains(err.Error(), "ProjectID") {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	standard.Errors(t, []cloudtest.Refusal{
		cloudtest.Refused("", opCreate, failure(401, "denied_authentication", "authentication is denied", nil), driver.ErrAuth),
		cloudtest.Refused("", opCreate, failure(403, "permissions_denied", "insufficient permissions", nil), driver.ErrAuth),
		cloudtest.Refused("", opCreate, failure(403, "quotas_exceeded", "quota(s) exceeded for this resource", nil), driver.ErrQuota, "identity"),
		cloudtest.Refused("", opCreate, failure(403, "invalid_request_error", "Quota exceeded for this resource.", nil), driver.ErrQuota, "identity"),
		cloudtest.Refused("", opCreate, failure(403, "invalid_request_error", "forbidden", nil), driver.ErrAuth),
		cloudtest.Refused("", opCreate, failure(400, "out_of_stock", "resource out of stock", nil), driver.ErrNoCapacity),
		cloudtest.Refused("", opCreate, failure(400, "resource", "There is no more L4-1-24G available.", nil), driver.ErrNoCapacity),
		cloudtest.Refused("", opCreate, fakecloud.Failure(502, "no more connections available", ""), driver.ErrUnavailable),
		cloudtest.Refused("", opCreate, failure(400, "invalid_arguments", "invalid argument(s)", nil), driver.ErrInvalid),
		cloudtest.Refused("", opCreate, failure(403, "locked", "the account is locked", nil), driver.ErrAuth),
		cloudtest.Refused("", opCreate, failure(410, "resource_expired", "resource has expired", nil), driver.ErrUnsupported),
		cloudtest.Refused("", opCreate, failure(409, "transient_state", "busy", nil), driver.ErrUnavailable),
	})
}
