package gcp

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

var standard = cloudtest.Cloud[*fake, Config]{
	Name:    providerName,
	Spec:    oneL4,
	Start:   func(t *testing.T) *fake { return startFake(t) },
	Still:   func(f *fake) { f.noMachines = true },
	Config:  (*fake).config,
	Account: (*fake).everything,
	Dialed: func(d driver.Driver) driver.Driver {
		return struct {
			*gcpDriver
			cloudtest.Dialer
		}{gcpDriver: d.(*gcpDriver)}
	},
	Client:     func(c *Config, client *http.Client) { c.HTTPClient = client },
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) { c.Credentials = key }, Name: keyVariable},
	Secrets:    []string{testToken},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {opTypes}, providertest.OpPrepare: {opAddRule}, providertest.OpLaunch: {opInsert}, providertest.OpDescribe: {opGet},
		providertest.OpList: {opAll}, providertest.OpTerminate: {opDelete}, providertest.OpRelease: {opDelRule},
	},
	Alone:   true,
	Made:    map[string]int{"machine": 2, kindFirewall: 2},
	Repeats: true,
	NoMeter: "its prices are sums of the catalogue of prices: TestOffers has those",
}

func inTestZone(c *Config) { c.Region, c.Zone = "us-central1", testZone }

func TestReadme(t *testing.T) {
	standard.With(oneL4, withAccount).Readme(t)
}

func TestUnseen(t *testing.T) { standard.Unseen(t, opGet, opAll) }

func TestUnseenPool(t *testing.T) { standard.UnseenPool(t, opGet, opAll) }

func TestGolden(t *testing.T) {
	standard.With(oneL4, inTestZone).Golden(t, cloudtest.Written[Config]{File: "gcp", Query: oneL4.Query()})
}

// withAccount gives machines an account, as which they end themselves.
func withAccount(c *Config) { c.ServiceAccount = "node@p.iam.gserviceaccount.com" }

func TestStrangers(t *testing.T) { standard.Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

func TestDetachFromWhatEndsItself(t *testing.T) {
	c := standard.With(oneL4, withAccount)
	c.EndsItself = true
	c.Detach(t)
}

// Without an account, nothing but a guardian ends a killed program's machines.
func TestGuardian(t *testing.T) { standard.Guardian(t) }

func TestPool(t *testing.T) {
	for name, spec := range map[string]gputrain.Spec{
		"on demand": {Accelerator: accelerators.L4(), TTL: time.Hour},
		"spot":      {Accelerator: accelerators.L4(), Allocation: driver.Spot, MaxHourlyUSD: 1, DiskGiB: 60},
		"no GPU":    {},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "on demand" {
				t.Skip("scripts/test -deep runs it: a short run has one pool")
			}
			standard.With(spec, nil).Pool(t, cloudtest.Pool[*fake]{
				Before: func(f *fake) { f.runScripts, f.bootAfter = true, 50*time.Millisecond },
				Node:   cloudtest.Node{Region: testZone},
				After: func(t *testing.T, f *fake) {
					for _, r := range f.Records(opInsert) {
						if strings.Contains(r.Body, `"SPOT"`) != (name == "spot") || strings.Contains(r.Body, "maxRunDuration") != (name == "on demand") {
							t.Errorf("%s: %s", name, r.Body)
						}
					}
				},
			})
		})
	}
}

func TestPoolUnderFaults(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Unpriced: true, Faults: []fakecloud.Fault{
		{Op: opTypes, Answer: fakecloud.Failure(503, "", "")},
		{Op: opSKUs, Answer: fakecloud.GoogleError(403, "forbidden", "Cloud Billing API has not been used")},
		{Op: opAddRule, After: true, Cut: true},
		{Op: opInsert, After: true, Answer: fakecloud.HTML()},
		{Op: opInsert, Answer: fakecloud.GoogleError(403, "rateLimitExceeded", "Rate Limit Exceeded")},
		{Op: opZoneOp, Answer: fakecloud.Garbage()},
		{Op: opGet, Answer: fakecloud.GoogleError(500, "internalError", "Internal error")},
		{Op: opKeys, Cut: true},
		{Op: opDelete, Answer: fakecloud.GoogleError(400, "resourceNotReady", "The resource is not ready")},
		{Op: opDelete, After: true, Cut: true},
		{Op: opDelRule, After: true, Answer: fakecloud.Failure(502, "", "")},
	}})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad("ProjectID", Config{ProjectID: "My Project"}),
		cloudtest.Bad("Region", Config{Region: "us-central1-a"}),
		cloudtest.Bad("Zone", Config{Zone: "us-central1"}),
		cloudtest.Bad("is not in", Config{Zone: "us-central1-a", Region: "us-east1"}),
		cloudtest.Bad("MachineType", Config{MachineType: "zones/z/machineTypes/m"}),
		cloudtest.Bad("Image", Config{Image: "ubuntu-2404"}),
		cloudtest.Bad("DiskSizeGB", Config{DiskSizeGB: 9}),
		cloudtest.Bad("DiskType", Config{DiskType: "PD_SSD"}),
		cloudtest.Bad("Network", Config{Network: "https://www.googleapis.com/default"}),
		cloudtest.Bad("Subnet", Config{Subnet: "10.0.0.0/8"}),
		cloudtest.Bad("SourceRanges", Config{SourceRanges: []string{"10.0.0.1"}}),
		cloudtest.Bad("ServiceAccount", Config{ServiceAccount: "default"}),
		cloudtest.Bad("Reservation", Config{Reservation: "Mine!", Zone: "us-central1-a"}),
		cloudtest.Bad("without Zone", Config{Reservation: "mine"}),
		cloudtest.Bad("with Region", Config{Reservation: "mine", Region: "us-central1", Zone: "us-central1-a"}),
		cloudtest.Bad("SSHUser", Config{SSHUser: "root"}),
		cloudtest.Bad("SSHPort", Config{SSHPort: 1 << 16}),
		cloudtest.Bad("InstanceTimeout", Config{InstanceTimeout: time.Millisecond}),
		cloudtest.Bad("MaxRunDuration", Config{MaxRunDuration: 121 * 24 * time.Hour}),
		cloudtest.Bad("ThreadPoolSize", Config{ThreadPoolSize: -1}),
		cloudtest.Bad("RequestTimeout", Config{RequestTimeout: time.Millisecond}),
		cloudtest.Bad("Endpoint", Config{Endpoint: "http://x/?a=b"}),
		cloudtest.Bad("Zone|DiskSizeGB", Config{Zone: "nowhere", DiskSizeGB: 1}),
		cloudtest.Bad("Endpoint", Config{ProjectID: "p1", Endpoint: "ftp://x"}),
		cloudtest.Bad("Endpoint", Config{ProjectID: "p1", Endpoint: "https://me:s3cret@x"}),
		cloudtest.Bad("Endpoint", Config{ProjectID: "p1", Endpoint: "https://x/?key=s3cret"}),
		cloudtest.Bad("Endpoint", Config{ProjectID: "p1", Endpoint: "x"}),
	})
}

func TestErrors(t *testing.T) {
	standard.Errors(t, []cloudtest.Refusal{
		cloudtest.Refused("wrong token", opInsert, fakecloud.GoogleError(401, "authError", "Invalid Credentials"), driver.ErrAuth, "permissions"),
		cloudtest.Refused("forbidden", opInsert, fakecloud.GoogleError(403, "forbidden", "Required 'compute.instances.create' permission"), driver.ErrAuth, "permissions"),
		cloudtest.Refused("not enabled", opInsert, fakecloud.GoogleError(403, "accessNotConfigured", "Access Not Configured."), driver.ErrAuth, "gcloud services enable"),
		cloudtest.Refused("rate", opInsert, fakecloud.GoogleError(403, "rateLimitExceeded", "Rate Limit Exceeded"), driver.ErrRateLimited, "try again"),
		cloudtest.Refused("user's rate", opInsert, fakecloud.GoogleError(403, "userRateLimitExceeded", "User Rate Limit Exceeded"), driver.ErrRateLimited),
		cloudtest.Refused("429", opInsert, fakecloud.GoogleError(429, "", "Too many"), driver.ErrRateLimited),
		cloudtest.Refused("quota", opInsert, fakecloud.GoogleError(403, "quotaExceeded", "Quota 'NVIDIA_L4_GPUS' exceeded. Limit: 1.0 in region us-central1."), driver.ErrQuota, "iam-admin/quotas"),
		cloudtest.Refused("new project", opInsert, fakecloud.GoogleError(403, "quotaExceeded", "Quota 'GPUS_ALL_REGIONS' exceeded. Limit: 0.0 globally."), driver.ErrQuota, "a new project"),
		cloudtest.Refused("not ready", opInsert, fakecloud.GoogleError(400, "resourceNotReady", "The resource is not ready"), driver.ErrUnavailable),
		cloudtest.Refused("invalid", opInsert, fakecloud.GoogleError(400, "invalid", "Invalid value for field"), driver.ErrInvalid),
		cloudtest.Refused("no such type", opInsert, fakecloud.GoogleError(404, "notFound", "The resource 'projects/p/zones/z/machineTypes/g2' was not found"), driver.ErrNoCapacity),
		cloudtest.Refused("no such GPU", opInsert, fakecloud.GoogleError(400, "invalid", "Invalid value for field 'acceleratorType': 'projects/p/zones/z/acceleratorTypes/t4'. The referenced resource does not exist."), driver.ErrNoCapacity),
		cloudtest.Refused("no such image", opInsert, fakecloud.GoogleError(404, "notFound", "The resource 'projects/p/global/images/i' was not found"), driver.ErrNotFound),
		cloudtest.Refused("org policy", opInsert, fakecloud.GoogleError(412, "conditionNotMet", "Constraint constraints/compute.vmExternalIpAccess violated"), driver.ErrUnsupported, "organisation"),
		cloudtest.Refused("conflict", opInsert, fakecloud.GoogleError(409, "alreadyExists", "exists"), driver.ErrUnavailable),
		cloudtest.Refused("server", opInsert, fakecloud.GoogleError(503, "backendError", "Backend Error"), driver.ErrUnavailable),
	})
}
