package hyperstack

import (
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, Config{APIKey: testKey, Endpoint: f.URL + "/v1/"})
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
