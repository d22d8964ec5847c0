package jarvislabs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestConfigFaultsAllAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Config{
		APIKey: testKey, Region: "IN9", Template: "../pytorch", StorageGB: 2001, ThreadPoolSize: -1, RequestTimeout: time.Millisecond,
		Endpoint: "https://u:secret@example.com?key=1", RegionEndpoints: map[string]string{noida: "", "x": "ftp://example.com"},
	}.Open(t.Context())
	cloudtest.Is(t, err, driver.ErrInvalid, providerName, "open", testKey, "secret")
	for _, field := range []string{`Region "IN9"`, "Template", "StorageGB", "ThreadPoolSize", "RequestTimeout", "Endpoint is", "an empty name or address", "RegionEndpoints is"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v; want something about %s", err, field)
		}
	}
}

func TestConfigFromTheEnvironment(t *testing.T) {
	f := startFake(t)
	t.Setenv(keyVariable, " "+testKey+"\n")
	cfg := f.config()
	cfg.APIKey = ""
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

// The driver copies the Config's table of regions, and does not print the key.
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
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		if text := fmt.Sprintf(verb, d); strings.Contains(text, testKey) {
			t.Errorf("%s prints the key", verb)
		}
	}
}
