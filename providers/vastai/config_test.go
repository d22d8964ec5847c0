package vastai

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
)

// Bad parameters are rejected before any call.
func TestBadParameters(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for says, c := range map[string]Config{
		"Image":                             {Image: "a b"},
		"DiskGB is 9":                       {DiskGB: 9},
		"DiskGB is NaN":                     {DiskGB: math.NaN()},
		"MinReliability is 95":              {MinReliability: 95},
		"MinCUDA is +Inf":                   {MinCUDA: math.Inf(1)},
		`"Mars"`:                            {Geolocation: []string{"US", "Mars"}},
		`"U1"`:                              {Geolocation: []string{"U1"}},
		"MinInetDown is -1":                 {MinInetDown: -1},
		"MinInetUp is NaN":                  {MinInetUp: math.NaN()},
		"MaxTrafficUSDPerGB is -1":          {MaxTrafficUSDPerGB: -1},
		"below 1 no bid wins":               {BidMultiplier: 0.9},
		"InstanceTimeout is 1ms":            {InstanceTimeout: time.Millisecond},
		"RequestTimeout is -1s":             {RequestTimeout: -time.Second},
		"OverlayTimeout is 1ns":             {OverlayTimeout: 1},
		`Endpoint "http://a'b"`:             {Endpoint: "http://a'b"},
		"Endpoint: the API's address":       {Endpoint: "console.vast.ai"},
		"belong together":                   {RegistryToken: "token"},
		"Image names no registry":           {Image: "team/train:1", RegistryUser: "u", RegistryToken: "token"},
		"RegistryUser":                      {Image: "r.example/train", RegistryUser: "a b", RegistryToken: "token"},
		"RegistryHost":                      {RegistryHost: "a b", RegistryUser: "u", RegistryToken: "token"},
		"RegistryToken has a blank":         {Image: "r.example/train", RegistryUser: "u", RegistryToken: "a b"},
		"Ports has 64":                      {Ports: make([]int, 64)},
		"Ports[1] is 22":                    {Ports: []int{8000, 22}},
		"Ports[1] is 8000":                  {Ports: []int{8000, 8000}},
		"Ports[0] is 65536":                 {Ports: []int{65536}},
		"DiskGB is 1; the minimum is 10\nv": {DiskGB: 1, MinInetUp: -1}, // every fault is reported at once
	} {
		c.APIKey = testKey
		if c.Endpoint == "" {
			c.Endpoint = f.URL
		}
		d, err := c.Open(t.Context())
		is(t, err, driver.ErrInvalid, "open")
		if d != nil {
			t.Errorf("%s: a driver was returned", says)
		}
		if first, _, _ := strings.Cut(says, "\n"); err != nil && !strings.Contains(err.Error(), first) {
			t.Errorf("%v; want %q", err, first)
		}
		if strings.HasSuffix(says, "\nv") && !strings.Contains(err.Error(), "MinInetUp") {
			t.Errorf("not every fault: %v", err)
		}
	}
	if n := len(f.Records()); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// The key comes from the field, the variable, or the file of Vast's own command line.
func TestKey(t *testing.T) {
	f := startFake(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	t.Setenv("VAST_API_KEY", "")
	_, err := Config{Endpoint: f.URL}.Open(t.Context())
	is(t, err, driver.ErrAuth, "open")
	if err == nil || !strings.Contains(err.Error(), "VAST_API_KEY") || !strings.Contains(err.Error(), "https://cloud.vast.ai/manage-keys/") {
		t.Errorf("%v", err)
	}
	if n := len(f.Records()); n != 0 {
		t.Errorf("%d calls were made without a key", n)
	}
	opens := func(c Config) {
		t.Helper()
		c.Endpoint = f.URL
		d, err := c.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
	}
	file := filepath.Join(home, ".config", "vastai", "vast_api_key")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(testKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	opens(Config{})
	if err := os.WriteFile(file, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VAST_API_KEY", testKey)
	opens(Config{})
	t.Setenv("VAST_API_KEY", "wrong as well")
	opens(Config{APIKey: testKey})
	t.Setenv("KEY_OF_MINE", testKey)
	opens(Config{APIKey: "env://KEY_OF_MINE"})
	_, err = Config{Endpoint: f.URL, APIKey: "env://NO_KEY_OF_MINE"}.Open(t.Context())
	is(t, err, driver.ErrAuth, "open")
	if err == nil || !strings.Contains(err.Error(), "NO_KEY_OF_MINE") {
		t.Errorf("%v", err)
	}
	_, err = Config{Endpoint: f.URL}.Open(t.Context())
	is(t, err, driver.ErrAuth, "open")
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
