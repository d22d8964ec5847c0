package vultr

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestCapabilities(t *testing.T) {
	f := startFake(t)
	own := metal(f)
	own.ProvisionTimeout, own.ImageID, own.Region = 2*time.Hour, "docker", Anywhere
	for _, tt := range []struct {
		cfg              Config
		provisionTimeout time.Duration
	}{
		{f.config(), 15 * time.Minute}, {metal(f), time.Hour}, {own, 2 * time.Hour},
	} {
		c := cloudtest.Open(t, tt.cfg).Capabilities()
		if c.ProvisionTimeout != tt.provisionTimeout || c.Account != "a@example.com" || c.Spot || c.PrivateNetwork || c.DiskResizable || c.Mounts || !c.Tags ||
			c.HostKeys != driver.HostKeyInjected || c.LateEffect == 0 {
			t.Errorf("%+v", c)
		}
	}
}

func TestOpenWithoutAnAccount(t *testing.T) {
	f := startFake(t)
	f.Inject(fakecloud.Fault{Op: opAccount, Answer: fakecloud.Reply(200, row{"plans": []row{}})})
	if _, err := f.config().Open(t.Context()); err == nil {
		t.Error("what answers is not Vultr, and is taken for it")
	}
	f.Inject(fakecloud.Fault{Op: opAccount, Answer: failure(403, "Unauthorized IP address: 203.0.113.7")})
	_, err := f.config().Open(t.Context())
	cloudtest.Is(t, err, driver.ErrAuth, "vultr", "open", testKey)
	if e, _ := errors.AsType[*driver.Error](err); e == nil || !strings.Contains(e.Hint, keysPage) {
		t.Error(err)
	}
}

// There are no codes: the status and the text determine the kind.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		op     string
		status int
		text   string
		kind   error
	}{
		{"launch", 400, "Invalid plan chosen.", driver.ErrInvalid}, {"launch", 503, "Out of capacity", driver.ErrUnavailable},
		{"describe", 404, "Invalid instance ID.", driver.ErrNotFound}, {"describe", 400, "Out of stock", driver.ErrInvalid},
	} {
		err := cloud.Fail(providerName, tt.op, fmt.Errorf("p1-0: %w", &rest.Error{Status: tt.status, Message: tt.text}), classify)
		cloudtest.Is(t, err, tt.kind, "vultr", tt.op)
		if e, _ := errors.AsType[*driver.Error](err); e == nil || e.Hint != "" {
			t.Errorf("%+v: a hint that does not help", e)
		}
	}
	for text, want := range map[string]bool{
		`{"error":"Invalid plan chosen.","status":400}`: true, `{"error":"x"}`: true, `{"error":""}`: false, `{"instance":{}}`: false, "<html>": false, "": false, "[]": false,
	} {
		if got := fault(400, []byte(text)); (got != nil) != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
	for _, tt := range []struct {
		status int
		text   string
		want   bool
	}{
		{400, "Server is currently being installed", true}, {409, "Operation pending", true}, {423, "Server is locked", true},
		{400, "Invalid ID", false}, {404, "Not installed", false}, {401, "This key is locked", false}, {503, "Installing updates", false},
	} {
		if got := installing(&rest.Error{Status: tt.status, Message: tt.text}); got != tt.want {
			t.Errorf("installing by %d %q: %v", tt.status, tt.text, got)
		}
	}
	if installing(nil) {
		t.Error("a success is a refusal")
	}
}
