package jarvislabs

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	d := cloudtest.Open(t, cfg)
	if caps := d.Capabilities(); caps.Account == "" || strings.Contains(caps.Account, testKey) || !caps.Spot || caps.Tags || caps.Mounts || !caps.DiskResizable {
		t.Errorf("%+v", caps)
	}
	if n := len(f.Records()); n != 1 {
		t.Errorf("Open makes %d calls", n)
	}
	f.Inject(fakecloud.Fault{Op: opBalance, Answer: fakecloud.Reply(200, row{"balance": "12.3"})})
	cloudtest.Open(t, cfg)
	f.Inject(fakecloud.Fault{Op: opBalance, Answer: fakecloud.Reply(200, row{})})
	_, err := cfg.Open(t.Context())
	cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "open", testKey)
}

// The driver copies the Config's table of regions.
func TestConfigIsAValue(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.RegionEndpoints = map[string]string{"mars-01": f.URL}
	cfg.Region = "mars-01"
	d := cloudtest.Prepared(t, cfg)
	cfg.RegionEndpoints["mars-01"] = "https://example.invalid"
	if all := cloudtest.Offers(t, d, l4.Query()); len(all) != 1 || all[0].Region != "mars-01" {
		t.Errorf("%+v", all)
	}
}
