package verda

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Bad parameters are rejected before any call, all of them in one error.
func TestBadParameters(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for says, change := range map[string]func(*Config){
		"ClientID":              func(c *Config) { c.ClientID = "a b" },
		`Region "FIN 01"`:       func(c *Config) { c.Region = "FIN 01" },
		"Image":                 func(c *Config) { c.Image = "ubuntu 24" },
		`CUDA "13"`:             func(c *Config) { c.CUDA = "13" },
		"SSHKeyID":              func(c *Config) { c.SSHKeyID = "a\nb" },
		"RequestTimeout is 1ms": func(c *Config) { c.RequestTimeout = time.Millisecond },
		"Endpoint":              func(c *Config) { c.Endpoint = "api.verda.com" },
		"; the minimum":         func(c *Config) { c.Region, c.RequestTimeout = "a b", -time.Second },
	} {
		c := f.config()
		change(&c)
		d, err := c.Open(t.Context())
		cloudtest.Is(t, err, driver.ErrInvalid, "verda", "open", testSecret)
		if d != nil || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%v, %v; want %q", d, err, says)
		}
	}
	c := f.config()
	c.Region, c.Image = "a b", "c d"
	if _, err := c.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "Region") || !strings.Contains(err.Error(), "Image") {
		t.Errorf("not every fault: %v", err)
	}
	if n := len(f.Records()); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// The credentials come from the fields, references, or the variables.
func TestCredentials(t *testing.T) {
	f := startFake(t)
	t.Setenv("VERDA_CLIENT_ID", "")
	t.Setenv("VERDA_CLIENT_SECRET", "")
	for _, c := range []Config{{}, {ClientID: testID}, {ClientSecret: testSecret}} {
		c.Endpoint = f.URL + "/v1"
		_, err := c.Open(t.Context())
		cloudtest.Is(t, err, driver.ErrAuth, "verda", "open", testSecret)
		if err == nil || !strings.Contains(err.Error(), "VERDA_CLIENT_") || !strings.Contains(err.Error(), "https://console.verda.com") {
			t.Errorf("%v", err)
		}
	}
	t.Setenv("SECRET_OF_MINE", testSecret)
	cloudtest.Open(t, Config{ClientID: testID, ClientSecret: "env://SECRET_OF_MINE", Endpoint: f.URL + "/v1/"})
	t.Setenv("VERDA_CLIENT_ID", testID)
	t.Setenv("VERDA_CLIENT_SECRET", testSecret+"\n")
	d := cloudtest.Open(t, Config{Endpoint: f.URL + "/v1"})
	caps := d.Capabilities()
	if caps.Account != "client "+testID || !caps.Spot || !caps.Tags || caps.PrivateNetwork || caps.HostKeys != driver.HostKeyFirstContact || caps.EndsBilling != "delete" {
		t.Errorf("%+v", caps)
	}
}

// A token is fetched once, and again when it is refused. It is never shown.
func TestTokens(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	if _, err := d.List(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if n := len(f.Records(opToken)); n != 1 {
		t.Errorf("%d tokens were fetched", n)
	}
	f.Inject(fakecloud.Fault{Op: opList, Answer: failure(401, "unauthorized_request", "The token has expired")})
	if _, err := d.List(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if n := len(f.Records(opToken)); n != 2 {
		t.Errorf("%d tokens were fetched", n)
	}
	f.Inject(fakecloud.Fault{Op: opList, Answer: failure(400, "invalid_request", "not with "+testToken)})
	_, err := d.List(t.Context(), "")
	cloudtest.Is(t, err, driver.ErrInvalid, "verda", "list", testToken, testSecret)
	if text := fmt.Sprintf("%+v %#v", d, d); strings.Contains(text, testToken) || strings.Contains(text, testSecret) {
		t.Error("the driver shows a secret")
	}
}
