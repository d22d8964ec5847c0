package gcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// keyFile writes a service account's key into a file.
func keyFile(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A key is JSON, a path, or a reference to either.
func TestCredentials(t *testing.T) {
	f := startFake(t)
	f.tokens = true
	right := f.account(rightKey())
	path := keyFile(t, right)
	t.Setenv("GPUTRAIN_TEST_KEY", right)
	for name, given := range map[string]string{
		"text": right, "indented": "\n " + right, "path": path, "variable": "env://GPUTRAIN_TEST_KEY", "file": "file://" + path,
	} {
		d := f.open(func(c *Config) { c.Credentials, c.ProjectID = driver.Secret(given), "" })
		if _, err := d.List(t.Context(), ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if want := "project " + f.project; d.Capabilities().Account != want {
			t.Errorf("%s: %s, want the key's %s", name, d.Capabilities().Account, want)
		}
	}
	if tokens, calls := len(f.Records(opToken)), len(f.Records(opAll)); tokens != 5 || calls != 5 {
		t.Errorf("%d tokens for %d drivers", tokens, calls)
	}
	for name, given := range map[string]string{
		"no file":  filepath.Join(t.TempDir(), "none.json"),
		"no JSON":  "{private",
		"programs": `{"type":"external_account","credential_source":{"executable":{"command":"rm -rf /"}}}`,
		"half":     `{"type":"service_account","client_email":"a@b"}`,
		"variable": "env://GPUTRAIN_TEST_NONE",
	} {
		c := f.config()
		c.Credentials = driver.Secret(given)
		d, err := c.Open(t.Context())
		if err == nil { // a bad key may be found only when it signs
			_, err = d.List(t.Context(), "")
			d.Close()
			if err != nil {
				is(t, err, driver.ErrAuth, "list")
				continue
			}
		}
		is(t, err, driver.ErrAuth, "open")
		if err != nil && strings.Contains(err.Error(), "rm -rf") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If the token server is down, the error is ErrUnavailable: it does not blame the key.
func TestTokenServerIsDown(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.tokens = true
	f.Inject(fakecloud.Fault{Op: opToken, Cut: true, Times: -1})
	d := f.open(func(c *Config) { c.Credentials = driver.Secret(f.account(rightKey())) })
	_, err := d.List(t.Context(), "")
	is(t, err, driver.ErrUnavailable, "list")
}

// A router is the transport of a user's own client. It sends all calls to one server.
type router struct {
	to   string
	seen []string
}

func (r *router) RoundTrip(req *http.Request) (*http.Response, error) {
	r.seen = append(r.seen, req.URL.Host+" "+req.Header.Get("Authorization"))
	own := req.Clone(req.Context())
	own.URL.Scheme, own.URL.Host = "http", strings.TrimPrefix(r.to, "http://")
	return http.DefaultTransport.RoundTrip(own)
}

// With a user's own HTTP client, no Google credentials are needed. The variable still
// counts.
func TestHTTPClient(t *testing.T) {
	t.Setenv(keyVariable, "")
	f := startFake(t)
	r := &router{to: f.URL}
	cfg := Config{ProjectID: f.project, HTTPClient: &http.Client{Transport: r}}
	open := func() *gcpDriver {
		d, err := cfg.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d.(*gcpDriver)
	}
	cloudtest.AllOffers(t, open(), oneL4.Query())
	hosts := strings.Join(r.seen, "\n")
	if !strings.Contains(hosts, "compute.googleapis.com ") || !strings.Contains(hosts, "cloudbilling.googleapis.com ") || strings.Contains(hosts, "Bearer") {
		t.Errorf("%q", hosts)
	}
	f.Do(func() { f.tokens = true })
	t.Setenv(keyVariable, keyFile(t, f.account(rightKey())))
	cloudtest.AllOffers(t, open(), oneL4.Query())
	if last := r.seen[len(r.seen)-1]; !strings.HasSuffix(last, "Bearer "+testToken) {
		t.Errorf("%q", r.seen)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// An Endpoint that is not Google's gets no credentials except those in Config.
func TestEndpointGetsNoDefaultCredentials(t *testing.T) {
	f := startFake(t)
	t.Setenv(keyVariable, keyFile(t, f.account(rightKey())))
	if _, err := f.open().List(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for _, r := range f.Records() {
		if r.Header.Get("Authorization") != "" || r.Op == opToken {
			t.Errorf("%s has %q", r.Op, r.Header)
		}
		if r.Header.Get("X-Gputrain-Call") != "" {
			t.Errorf("%s has a header of the transport's own", r.Op)
		}
	}
	if !isGoogle("https://compute-eu.p.googleapis.com") || isGoogle("http://compute.googleapis.com") || isGoogle("https://googleapis.com.example.org") {
		t.Error("isGoogle")
	}
}

func TestProject(t *testing.T) {
	f := startFake(t)
	t.Setenv(projectVariable, "")
	t.Setenv(oldProjectVariable, "")
	_, err := Config{Endpoint: f.URL}.Open(t.Context())
	is(t, err, driver.ErrInvalid, "open")
	if !strings.Contains(fmt.Sprint(err), projectVariable) {
		t.Error(err)
	}
	for _, variable := range []string{oldProjectVariable, projectVariable} {
		t.Setenv(variable, strings.ToLower(strings.ReplaceAll(variable, "_", "-")))
		d, err := Config{Endpoint: f.URL}.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := "project " + os.Getenv(variable); d.Capabilities().Account != want {
			t.Errorf("%s, want %s", d.Capabilities().Account, want)
		}
		d.Close()
	}
	if n := len(f.Records()); n != 0 {
		t.Errorf("Open made %d calls", n)
	}
}

// A redirect to another server is not followed: the token is for one server only.
func TestRedirect(t *testing.T) {
	t.Parallel()
	f, other := startFake(t), startFake(t)
	f.tokens = true
	d := f.open(func(c *Config) { c.Credentials = driver.Secret(f.account(rightKey())) })
	to := fakecloud.Reply(302, "").With("Location", other.URL+"/compute/v1/projects/p/aggregated/instances")
	f.Inject(fakecloud.Fault{Op: opAll, Answer: to, Times: -1})
	f.Inject(fakecloud.Fault{Op: opDelete, Answer: to, Times: -1})
	if list, err := d.List(t.Context(), ""); err == nil {
		t.Errorf("%v", list)
	}
	if err := d.Terminate(t.Context(), testZone+"/p1-0"); err == nil {
		t.Error("a redirect is taken for success")
	}
	if got := other.Records(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// The token server cannot redirect the signed assertion to another server either.
func TestRedirectOfATokenCall(t *testing.T) {
	t.Parallel()
	f, other := startFake(t), startFake(t)
	f.tokens = true
	d := f.open(func(c *Config) { c.Credentials = driver.Secret(f.account(rightKey())) })
	f.Inject(fakecloud.Fault{Op: opToken, Answer: fakecloud.Reply(307, "").With("Location", other.URL+"/token"), Times: -1})
	if list, err := d.List(t.Context(), ""); err == nil {
		t.Errorf("%v", list)
	}
	if got := other.Records(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// Every call ends with its context, also a list, whose requests Google's client does
// not end by itself.
func TestListEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	for _, op := range []string{opTypes, opSKUs, opAll, opRules, opDisks} {
		ctx, cancel := context.WithCancel(t.Context())
		held := f.Inject(fakecloud.Fault{Op: op, Hold: t.Context().Done()})
		go func() {
			<-held.Reached()
			cancel()
		}()
		var err error
		if op == opTypes || op == opSKUs {
			for _, err = range d.Offers(ctx, oneL4.Query()) {
			}
		} else {
			_, err = d.List(ctx, "")
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", op, err)
		}
		cancel()
	}
}

// RequestTimeout bounds each try of each call: a server that never answers ends a list by itself.
func TestRequestTimeout(t *testing.T) {
	f := startFake(t)
	cfg := f.config()
	cfg.RequestTimeout = time.Second
	d, err := cfg.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	f.Inject(fakecloud.Fault{Times: -1, Hold: never})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second) // the first try may take 60 seconds by default
	defer cancel()
	if _, err := d.List(ctx, ""); !errors.Is(err, driver.ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}
