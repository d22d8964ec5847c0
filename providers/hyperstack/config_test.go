package hyperstack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestConfigFaultsAllAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Config{
		APIKey: testKey, Regions: []string{"", "CANADA 1", "NORWAY-1"}, NetworkOptimised: true, SSHUser: "a b", RequestTimeout: time.Millisecond,
		TeardownTimeout: -1, TeardownPollInterval: -1, Endpoint: "https://u:secret@example.com/v1?key=1",
	}.Open(t.Context())
	cloudtest.Is(t, err, driver.ErrInvalid, providerName, "open", testKey, "secret")
	for _, field := range []string{"Regions has an empty name", "CANADA 1", "region NORWAY-1 is not one of NetworkOptimisedRegions", "SSHUser", "RequestTimeout", "TeardownTimeout", "TeardownPollInterval", "Endpoint"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v; want something about %s", err, field)
		}
	}
}

func TestConfigFromTheEnvironment(t *testing.T) {
	f := startFake(t)
	t.Setenv(keyVariable, " "+testKey+"\n")
	d := cloudtest.Open(t, Config{Endpoint: f.URL + "/v1/"})
	if caps := d.Capabilities(); caps.Account != "ada" || !caps.Spot || caps.Mounts {
		t.Errorf("%+v", caps)
	}
	if n := len(f.Records()); n != 1 {
		t.Errorf("Open makes %d calls", n)
	}
}

// Changing a Config after Open does not change its driver.
func TestConfigIsAValue(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.Regions = []string{"US-1"}
	d := cloudtest.Open(t, cfg)
	cfg.Regions[0] = "NORWAY-1"
	if all := cloudtest.AllOffers(t, d, h100.Query()); len(all) != 1 || all[0].Region != "US-1" {
		t.Errorf("%+v", all)
	}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		if text := fmt.Sprintf(verb, d); strings.Contains(text, testKey) {
			t.Errorf("%s prints the key", verb)
		}
	}
}

func TestImageAndUserOfTheConfig(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.Image, cfg.SSHUser = "Ubuntu Server 22.04 LTS R535 CUDA 12.2", "ada"
	d := cloudtest.Prepared(t, cfg)
	in := cloudtest.MustLaunch(t, d, h100.Query(), 0)
	if _, asked := f.created(); asked.ImageName != cfg.Image {
		t.Errorf("%+v", asked)
	}
	if now := cloudtest.Describe(t, d, in.ID); now.SSH.User != "ada" {
		t.Errorf("%+v", now)
	}
	cfg.Image = "Mine"
	_, err := cloudtest.Launch(t, cloudtest.Prepared(t, cfg), h100.Query(), 1)
	cloudtest.Is(t, err, driver.ErrUnsupported, providerName, "launch", testKey)
}
