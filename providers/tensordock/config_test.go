package tensordock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Bad parameters are rejected before any call, all of them in one error.
func TestBadParameters(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for says, change := range map[string]func(*Config){
		"MarketplaceEndpoint":   func(c *Config) { c.MarketplaceEndpoint = "marketplace.tensordock.com" },
		"MinTier is 5":          func(c *Config) { c.MinTier = 5 },
		"OperatingSystem":       func(c *Config) { c.OperatingSystem = "Ubuntu 22.04 LTS" },
		"SSHUser":               func(c *Config) { c.SSHUser = "a b" },
		"StorageGB is 50":       func(c *Config) { c.StorageGB = 50 },
		"MinVCPUs is -1":        func(c *Config) { c.MinVCPUs = -1 },
		"MinRAMGB is 513":       func(c *Config) { c.MinRAMGB = 513 },
		"RequestTimeout is 1ms": func(c *Config) { c.RequestTimeout = time.Millisecond },
		"Endpoint":              func(c *Config) { c.Endpoint = "dashboard.tensordock.com" },
	} {
		c := f.config()
		change(&c)
		d, err := c.Open(t.Context())
		cloudtest.Is(t, err, driver.ErrInvalid, "tensordock", "open", testToken)
		if d != nil || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%v, %v; want %q", d, err, says)
		}
	}
	c := f.config()
	c.MinTier, c.StorageGB = 9, 1
	if _, err := c.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "MinTier") || !strings.Contains(err.Error(), "StorageGB") {
		t.Errorf("not every fault: %v", err)
	}
	if n := len(f.Records()); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// The token comes from the field, a reference, or the variable. The API may reject it under a
// good status.
func TestToken(t *testing.T) {
	f := startFake(t)
	t.Setenv("TENSORDOCK_API_TOKEN", "")
	none := Config{Endpoint: f.URL + "/api/v2"}
	t.Setenv("TENSORDOCK_API_KEY", "")
	_, err := none.Open(t.Context())
	cloudtest.Is(t, err, driver.ErrAuth, "tensordock", "open")
	if err == nil || !strings.Contains(err.Error(), "TENSORDOCK_API_TOKEN") || len(f.Records()) != 0 {
		t.Errorf("%v", err)
	}
	t.Setenv("TOKEN_OF_MINE", testToken)
	referred := none
	referred.APIToken = "env://TOKEN_OF_MINE"
	cloudtest.Open(t, referred)
	t.Setenv("TENSORDOCK_API_TOKEN", testToken+"\n")
	d := cloudtest.Open(t, none)
	caps := d.Capabilities()
	if caps.Account != "organization org-7" || caps.Spot || caps.Tags || caps.PrivateNetwork || caps.EndsBilling != "delete" || caps.HostKeys != driver.HostKeyInjected {
		t.Errorf("%+v", caps)
	}
	f.Inject(fakecloud.Fault{Op: opAuth, Answer: fakecloud.Reply(200, row{"success": true})})
	if account := cloudtest.Open(t, none).Capabilities().Account; account != cloud.KeyAccount(testToken) {
		t.Errorf("without its name the account is %q, as another may be", account)
	}
	f.Inject(fakecloud.Fault{Op: opAuth, Answer: fakecloud.Reply(200, row{"success": false, "error": "no such token"})})
	_, err = none.Open(t.Context())
	cloudtest.Is(t, err, driver.ErrAuth, "tensordock", "open", testToken)
	if text := fmt.Sprintf("%+v %#v", d, d); strings.Contains(text, testToken) {
		t.Error("the driver shows the token")
	}
	f.Do(func() { f.tokenBad = true })
	_, err = none.Open(t.Context())
	cloudtest.Is(t, err, driver.ErrAuth, "tensordock", "open", testToken)
	if err == nil || !strings.Contains(err.Error(), "success is false") {
		t.Errorf("%v", err)
	}
}

// A page, or nothing, under a good status does not mean that the token is wrong: the call is
// repeated, and then is ErrUnavailable.
func TestOddAnswerIsNotTheTokensFault(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for name, answer := range map[string]fakecloud.Answer{"a page": fakecloud.HTML(), "empty": fakecloud.Empty(), "garbage": fakecloud.Garbage()} {
		f.Inject(fakecloud.Fault{Op: opAuth, Answer: answer, Times: 2})
		cloudtest.Open(t, f.config())
		lasting := f.Inject(fakecloud.Fault{Op: opAuth, Answer: answer, Times: -1})
		_, err := f.config().Open(t.Context())
		cloudtest.Is(t, err, driver.ErrUnavailable, "tensordock", "open", testToken)
		if errors.Is(err, driver.ErrAuth) || lasting.Hits() < 2 {
			t.Errorf("%s: after %d calls %v", name, lasting.Hits(), err)
		}
		lasting.Remove()
	}
}
