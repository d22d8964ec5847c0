package jarvislabs

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
	Spec:       l4,
	Start:      func(t *testing.T) *fake { return startFake(t) },
	Still:      func(f *fake) { f.noMachines = true },
	Config:     (*fake).config,
	Account:    (*fake).everything,
	Client:     func(c *Config, client *http.Client) { c.HTTPClient = client },
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) { c.APIKey = key }, Name: keyVariable},
	Secrets:    []string{testKey},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {opGroups}, providertest.OpPrepare: {opAddKey}, providertest.OpLaunch: {opCreate}, providertest.OpDescribe: {opShow, opList},
		providertest.OpList: {opList}, providertest.OpTerminate: {opDestroy}, providertest.OpRelease: {opDelKey},
	},
	Made: map[string]int{"machine": 2, "key": 1},
	// By the minute, without refunds, and a disk of about 0.00014 USD a GB and hour on top (fact sheet, section 6).
	Tariff: fakecloud.Tariff{Unit: time.Minute},
	Meters: (*fake).meters,
}

func TestReadme(t *testing.T) { standard.Readme(t) }

func TestOddRows(t *testing.T) {
	c := standard
	c.Client = func(cfg *Config, client *http.Client) {
		cfg.HTTPClient = &http.Client{Transport: toFake{cfg.HTTPClient.Transport.(toFake).to, client.Transport}}
	}
	c.OddRows(t)
}

func TestUnseen(t *testing.T) { standard.Unseen(t, opList, opShow) }

func TestUnseenPool(t *testing.T) { standard.UnseenPool(t, opList, opShow) }

func TestGolden(t *testing.T) {
	standard.With(l4, ownClient).Golden(t, cloudtest.Written[Config]{File: "jarvislabs", Query: l4.Query()})
}

// No other process has the test's client.
func TestGuardian(t *testing.T) { standard.With(l4, ownClient).Guardian(t) }

func TestStrangers(t *testing.T) { standard.With(l4, ownClient).Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

func TestKey(t *testing.T) { standard.Key(t) }

func TestPool(t *testing.T) { standard.Pool(t, cloudtest.Pool[*fake]{}) }

func TestPoolUnderFaults(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Faults: []fakecloud.Fault{
		{Op: opGroups, Answer: fakecloud.Failure(503, "", "")},
		{Op: opAddKey, After: true, Cut: true},
		{Op: opCreate, After: true, Cut: true},
		{Op: opCreate, Answer: refuse(200, "Requested GPU is not available at the moment")},
		{Op: opList, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opShow, Answer: fakecloud.Reply(200, row{"success": false})},
		{Op: opDestroy, Answer: fakecloud.Failure(502, "", "")},
		{Op: opDestroy, After: true, Cut: true},
		{Op: opDelKey, After: true, Answer: fakecloud.Failure(500, "", "")},
	}})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad(`Region "IN9"|Template|StorageGB|ThreadPoolSize|RequestTimeout|Endpoint is|an empty name or address|RegionEndpoints is`, Config{
			Region: "IN9", Template: "../pytorch", StorageGB: 2001, ThreadPoolSize: -1, RequestTimeout: time.Millisecond,
			Endpoint: "https://u:s3cret@example.com?key=1", RegionEndpoints: map[string]string{noida: "", "x": "ftp://example.com"},
		}),
	})
}

func TestErrors(t *testing.T) {
	var all []cloudtest.Refusal
	for _, tt := range []struct {
		status         int
		body           any
		launch, others error // nil is not tried
		says           string
	}{
		{401, row{"message": "Invalid token"}, driver.ErrAuth, driver.ErrAuth, ""},
		{403, row{"message": "Not authenticated"}, driver.ErrAuth, driver.ErrAuth, ""},
		{403, row{"message": "Insufficient balance"}, driver.ErrBalance, driver.ErrBalance, ""},
		{404, row{"detail": "Not Found"}, driver.ErrUnsupported, driver.ErrUnavailable, ""},
		{404, "<html>", driver.ErrUnavailable, driver.ErrUnavailable, ""},
		{422, row{"detail": []row{{"loc": []any{"query", 1}, "msg": "field required"}}}, driver.ErrInvalid, driver.ErrInvalid, "query.1: field required"},
		{400, row{"error": "out of stock"}, driver.ErrNoCapacity, driver.ErrInvalid, ""},
		{409, row{"detail": "no capacity"}, driver.ErrNoCapacity, driver.ErrUnavailable, ""},
		{400, row{"message": "limit reached"}, driver.ErrQuota, driver.ErrInvalid, ""},
		{429, row{"message": "rate limit"}, driver.ErrRateLimited, driver.ErrRateLimited, ""},
		{503, "", driver.ErrUnavailable, driver.ErrUnavailable, ""},
		{200, row{"success": false}, nil, driver.ErrUnavailable, ""},
	} {
		for op, want := range map[string]error{opCreate: tt.launch, opList: tt.others} {
			if want != nil {
				all = append(all, cloudtest.Refusal{Op: op, Answer: fakecloud.Reply(tt.status, tt.body), Want: want, Says: tt.says})
			}
		}
	}
	standard.Errors(t, all)
}
