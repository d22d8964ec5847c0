package vastai

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// After the variable comes the file of Vast's own command line.
func TestKeyOfTheFile(t *testing.T) {
	f := startFake(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	t.Setenv("VAST_API_KEY", "")
	_, err := Config{Endpoint: f.URL}.Open(t.Context())
	is(t, err, driver.ErrAuth, "open")
	if err == nil || !strings.Contains(err.Error(), "https://cloud.vast.ai/manage-keys/") {
		t.Errorf("%v", err)
	}
	file := filepath.Join(home, ".config", "vastai", "vast_api_key")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(key string) {
		if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(testKey + "\n")
	cloudtest.Open(t, Config{Endpoint: f.URL})
	write("wrong")
	_, err = Config{Endpoint: f.URL}.Open(t.Context())
	is(t, err, driver.ErrAuth, "open")
	t.Setenv("VAST_API_KEY", testKey)
	cloudtest.Open(t, Config{Endpoint: f.URL})
}

// No verb prints a key: of a Config, a driver, or an instance.
func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	got := mustLaunch(t, d, gputrain.Spec{}, 0)
	f.Inject(fakecloud.Fault{Op: opList, Answer: fakecloud.Failure(400, `{"instance_api_key":"`+instanceKey(asInt(got.ID))+`","said":"`+testKey+`"}`, "")})
	_, err := d.List(t.Context(), "p1")
	for _, text := range []string{
		fmt.Sprintf("%v %+v %#v", f.config(), f.config(), f.config()), fmt.Sprintf("%v %+v %#v", d, d, d), fmt.Sprintf("%+v %#v", d.p.client, d.p.client.rest),
		fmt.Sprintf("%+v", got), fmt.Sprint(err), d.Scripts(got).SelfDestruct,
	} {
		if strings.Contains(text, testKey) || strings.Contains(text, instanceKey(asInt(got.ID))) {
			t.Errorf("a key shows: %.2000s", text)
		}
	}
	if err == nil {
		t.Error("a list that failed is none")
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	d := startFake(t).open()
	c := d.Capabilities()
	if c.Account != "user 456" || c.EndsBilling != "destroy" || !c.Spot || !c.Tags || !c.DiskResizable || c.PrivateNetwork || c.Free || c.Adopts ||
		c.HostKeys != driver.HostKeyPublished || c.PreemptionNotice != 0 || c.LateEffect < 30*time.Second || c.ListLag == 0 || c.Mounts {
		t.Errorf("%+v", c)
	}
	if c := startFake(t).open(func(c *Config) { c.TrustFirstContact = true }).Capabilities(); c.HostKeys != driver.HostKeyFirstContact {
		t.Errorf("for images that do not print their keys: %+v", c)
	}
	if c := startFake(t).open(overlayed).Capabilities(); !c.PrivateNetwork {
		t.Errorf("with overlay networks: %+v", c)
	}
}

// "EU" is not a code of the API: it stands for 27 countries.
func TestGeolocationIsCountries(t *testing.T) {
	t.Parallel()
	if eu, err := countries([]string{"EU"}); err != nil || len(eu) != 27 {
		t.Errorf("%v, %v", eu, err)
	}
	if got, err := countries([]string{"us", "CA", "North_America", "US"}); err != nil || len(got) != 23 || got[0] != "AG" {
		t.Errorf("%v, %v", got, err)
	}
	for name := range regions {
		if got, err := countries([]string{name}); err != nil || len(got) < 10 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for place, want := range map[string]string{"Washington, US": "US", "Yutaka, Tokyo, JP ": "JP", "US": "US", "California, United States": "", "": ""} {
		if got := countryOf(place); got != want {
			t.Errorf("%q is in %q; want %q", place, got, want)
		}
	}
}
