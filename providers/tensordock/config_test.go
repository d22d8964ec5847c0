package tensordock

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The API may reject the token under a good status.
func TestToken(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	caps := cloudtest.Open(t, cfg).Capabilities()
	if caps.Account != "organization org-7" || caps.Spot || caps.Tags || caps.PrivateNetwork || caps.EndsBilling != "delete" || caps.HostKeys != driver.HostKeyInjected {
		t.Errorf("%+v", caps)
	}
	f.Inject(fakecloud.Fault{Op: opAuth, Answer: fakecloud.Reply(200, row{"success": true})})
	if account := cloudtest.Open(t, cfg).Capabilities().Account; account != cloud.KeyAccount(testToken) {
		t.Errorf("without its name the account is %q, as another may be", account)
	}
	f.Inject(fakecloud.Fault{Op: opAuth, Answer: fakecloud.Reply(200, row{"success": false, "error": "no such token"})})
	_, err := cfg.Open(t.Context())
	cloudtest.Is(t, err, driver.ErrAuth, "tensordock", "open", testToken)
	f.Do(func() { f.tokenBad = true })
	_, err = cfg.Open(t.Context())
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
