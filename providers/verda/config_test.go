package verda

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Both credentials are needed, and have variables.
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
	t.Setenv("VERDA_CLIENT_ID", testID)
	t.Setenv("VERDA_CLIENT_SECRET", testSecret)
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
}
