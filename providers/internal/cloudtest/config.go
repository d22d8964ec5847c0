package cloudtest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

// A BadConfig is a Config that Open refuses. Says are parts of the error's text, separated by "|": one for each fault, since all
// of them are told at once. Passwords in it are called s3cret.
type BadConfig[C driver.Provider] struct {
	Says   string
	Config C
}

// Bad returns a [BadConfig].
func Bad[C driver.Provider](says string, cfg C) BadConfig[C] {
	return BadConfig[C]{Says: says, Config: cfg}
}

// ConfigFaults opens what is wrong. Each is refused as ErrInvalid before any call, by an error that says what is wrong and shows
// no secret.
func (c Cloud[F, C]) ConfigFaults(t *testing.T, bad []BadConfig[C]) {
	t.Parallel()
	for _, b := range bad {
		calls := &refused{}
		c.Credential.Set(&b.Config, driver.Secret(c.Secrets[0]))
		if c.Client != nil {
			c.Client(&b.Config, &http.Client{Transport: calls})
		}
		d, err := b.Config.Open(t.Context())
		Is(t, err, driver.ErrInvalid, c.Name, "open", append([]string{"s3cret"}, c.Secrets...)...)
		if d != nil || calls.n > 0 {
			t.Errorf("%s: a driver %v after %d calls", b.Says, d, calls.n)
		}
		for _, word := range strings.Split(b.Says, "|") {
			if !strings.Contains(fmt.Sprint(err), word) {
				t.Errorf("%v does not say %q", err, word)
			}
		}
	}
}

// refused counts calls, and makes none.
type refused struct{ n int }

func (r *refused) RoundTrip(req *http.Request) (*http.Response, error) {
	r.n++
	return nil, errors.New("no call may be made")
}

// Key checks where the credential comes from: the Config's field, which may be a reference, or else its variable, with blanks
// around it. Without any, nothing is called, and the error names the variable. others are the other variables that Open looks at.
func (c Cloud[F, C]) Key(t *testing.T, others ...string) {
	f := c.Start(t)
	cfg, right := c.Config(f), c.Secrets[0]
	open := func(field driver.Secret) (driver.Driver, error) {
		c.Credential.Set(&cfg, field)
		return cfg.Open(t.Context())
	}
	works := func(what string, field driver.Secret) {
		t.Helper()
		d, err := open(field)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer d.Close()
		if who := d.Capabilities().Account; strings.Contains(who, right) {
			t.Errorf("%s: the account is called %q", what, who)
		}
	}
	fails := func(what string, field driver.Secret, says string) {
		t.Helper()
		d, err := open(field)
		Is(t, err, driver.ErrAuth, c.Name, "open", c.Secrets...)
		if d != nil || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: %v, %v; want %q", what, d, err, says)
		}
	}
	for _, name := range append(others, c.Credential.Name) {
		t.Setenv(name, "")
	}
	calls := len(f.Records())
	fails("no key", "", c.Credential.Name)
	t.Setenv("GPUTRAIN_TEST_MINE", "")
	fails("a reference to nothing", "env://GPUTRAIN_TEST_MINE", "GPUTRAIN_TEST_MINE")
	if n := len(f.Records()); n != calls {
		t.Errorf("without a key there are %d calls", n-calls)
	}
	t.Setenv("GPUTRAIN_TEST_MINE", right)
	works("a reference", "env://GPUTRAIN_TEST_MINE")
	t.Setenv(c.Credential.Name, " "+right+"\n")
	works("the variable", "")
	t.Setenv(c.Credential.Name, "wrong")
	works("the field, beside a wrong variable", driver.Secret(right))
	fails("a wrong variable", "", "")
}
