package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The zero value works, and fields left out have the documented defaults.
func TestDefaults(t *testing.T) {
	t.Parallel()
	c := Config{}.complete()
	if err := c.validate(); err != nil {
		t.Error(err)
	}
	if c.UbuntuVersion != "24.04" || c.DiskGB != 100 || c.AllocationStrategy != PriceCapacityOptimized || c.InstanceTimeout != 5*time.Minute ||
		c.RequestTimeout != 30*time.Second || c.AddressURL == "" {
		t.Errorf("%+v", c)
	}
	f := startFake(t)
	d := f.open()
	if d.api.region != "us-east-1" || d.Capabilities().Account != "123456789012/us-east-1" {
		t.Errorf("%s, %s", d.api.region, d.Capabilities().Account)
	}
}

// Credentials and region are found where AWS's command line finds them. Those in Config
// come first.
func TestCredentials(t *testing.T) {
	f := startFake(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	_, err := f.config().Open(t.Context())
	is(t, err, driver.ErrAuth, "open")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", write("credentials", "[work]\naws_access_key_id = "+testKeyID+"\naws_secret_access_key = "+testSecret+"\n"))
	t.Setenv("AWS_CONFIG_FILE", write("config", "[profile work]\nregion = eu-west-1\n"))
	if d := f.open(func(c *Config) { c.Profile = "work" }); d.api.region != "eu-west-1" {
		t.Error(d.api.region)
	}
	_, err = Config{Endpoint: f.URL, Profile: "nobody"}.Open(t.Context())
	is(t, err, driver.ErrAuth, "open")

	t.Setenv("TEST_AWS_SECRET", testSecret)
	byReference := func(c *Config) {
		c.AccessKeyID, c.SecretAccessKey = testKeyID, driver.Secret("file://"+write("secret", testSecret+"\n"))
	}
	t.Setenv("AWS_REGION", "ap-south-1")
	d := f.open(byReference)
	if d.api.region != "ap-south-1" {
		t.Error(d.api.region)
	}
	if text := fmt.Sprintf("%+v %#v", d, d); strings.Contains(text, testSecret) {
		t.Errorf("the driver prints its key")
	}
	for _, c := range []Config{
		{AccessKeyID: testKeyID, SecretAccessKey: "file:///nowhere/at/all"},
		{AccessKeyID: testKeyID, SecretAccessKey: "wrong"},
	} {
		c.Endpoint = f.URL
		_, err := c.Open(t.Context())
		is(t, err, driver.ErrAuth, "open")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// All calls use the user's HTTP client and go to Endpoint.
func TestHTTPClient(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	var mu sync.Mutex
	hosts := map[string]bool{}
	own := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		hosts[r.URL.Host] = true
		return http.DefaultTransport.RoundTrip(r)
	})}
	d := f.open(func(c *Config) { c.HTTPClient = own })
	cloudtest.AllOffers(t, d, a10g.Query())
	if _, err := d.launcher.images.forNode(t.Context(), "amd64", plain); err != nil {
		t.Error(err)
	}
	if len(hosts) != 1 || !hosts[strings.TrimPrefix(f.URL, "http://")] || own.Timeout != 0 {
		t.Errorf("%v", hosts)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// Without Endpoint, calls go to AWS, each service at its own address.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, tt := range [][3]string{
		{"ssm", "eu-west-1", "https://ssm.eu-west-1.amazonaws.com"},
		{"ssm", "cn-north-1", "https://ssm.cn-north-1.amazonaws.com.cn"},
		{"pricing", pricingRegion("eu-west-1"), "https://api.pricing.eu-central-1.amazonaws.com"},
		{"pricing", pricingRegion("ap-northeast-1"), "https://api.pricing.ap-south-1.amazonaws.com"},
		{"pricing", pricingRegion("sa-east-1"), "https://api.pricing.us-east-1.amazonaws.com"},
		{"servicequotas", "eu-west-1", "https://servicequotas.eu-west-1.amazonaws.com"},
		{"iam", iamRegion("eu-west-1"), "https://iam.amazonaws.com"},
		{"iam", iamRegion("us-gov-east-1"), "https://iam.us-gov.amazonaws.com"},
		{"iam", iamRegion("cn-northwest-1"), "https://iam.cn-north-1.amazonaws.com.cn"},
	} {
		if got := addressOf(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%s in %s: %s", tt[0], tt[1], got)
		}
	}
}

// If a server does not answer, a try takes no longer than RequestTimeout.
func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	own := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		deadline, ok := r.Context().Deadline()
		if !ok || time.Until(deadline) > time.Minute {
			return nil, errors.New("it has no deadline")
		}
		return nil, context.DeadlineExceeded
	})}
	_, err := Config{Endpoint: "http://192.0.2.1", HTTPClient: own}.Open(t.Context())
	is(t, err, driver.ErrUnavailable, "open")
	if strings.Contains(fmt.Sprint(err), "no deadline") {
		t.Error(err)
	}
}
