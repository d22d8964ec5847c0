package hyperstack

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Hyperstack. The zero value works when HYPERSTACK_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. Empty means the
	// HYPERSTACK_API_KEY variable.
	APIKey gputrain.Secret
	// Regions are where nodes may be: "CANADA-1", "NORWAY-1", "US-1", in any letter case.
	// None means anywhere. Spec.Regions narrows it further.
	Regions []string
	// Image is the name of the nodes' image. Empty means the newest Ubuntu with CUDA that
	// the region has, and where it has none the newest Ubuntu.
	Image string
	// SSHUser is whom to log in as. Empty means "ubuntu", who has sudo.
	SSHUser string

	// NetworkOptimised takes machines only that have the fast network: of flavours, in
	// regions and in environments that have it.
	NetworkOptimised bool
	// NetworkOptimisedRegions are the regions that have the fast network. None means
	// CANADA-1 and US-1.
	NetworkOptimisedRegions []string

	// RequestTimeout bounds one attempt at a call of the API. Zero means 30 seconds.
	RequestTimeout time.Duration
	// TeardownTimeout bounds how long a machine that is still being made may refuse to be
	// ended, and how long an environment is waited for whose machines are being deleted.
	// Zero means 2 minutes.
	TeardownTimeout time.Duration
	// TeardownPollInterval is how long it is until the next look meanwhile. Zero means 2
	// seconds.
	TeardownPollInterval time.Duration

	// Endpoint replaces the API's address: a proxy, a gateway, a test server. Empty means
	// https://infrahub-api.nexgencloud.com/v1.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

const (
	providerName    = "hyperstack"
	keyVariable     = "HYPERSTACK_API_KEY"
	defaultEndpoint = "https://infrahub-api.nexgencloud.com/v1"
)

var _ gputrain.Provider = Config{}

// Name returns "hyperstack".
func (Config) Name() string { return providerName }

// Open checks the parameters, and by one call the key. It rents nothing.
func (c Config) Open(ctx context.Context) (gputrain.Driver, error) {
	fail := func(err error) error { return cloud.Fail(providerName, "open", err, classify) }
	c = c.complete()
	if err := c.validate(); err != nil {
		return nil, fail(err)
	}
	key, err := cloud.Credential(ctx, "APIKey", c.APIKey, "a key is made in Hyperstack's console under API keys", keyVariable)
	if err != nil {
		return nil, fail(err)
	}
	c.APIKey = ""
	api, err := newClient(c, key)
	if err != nil {
		return nil, fail(err)
	}
	me, err := api.me(ctx)
	if err != nil {
		api.close()
		return nil, fail(err)
	}
	p := &provider{cfg: c, api: api, account: cmp.Or(me.Username, me.Name), making: make(chan struct{}, 1), sites: map[string]site{}}
	return &driver{Driver: cloud.New(providerName, p, cloud.Options{}), p: p}, nil
}

// complete returns the configuration with its defaults, and with lists of its own.
func (c Config) complete() Config {
	c.Regions = upper(c.Regions)
	c.NetworkOptimisedRegions = upper(c.NetworkOptimisedRegions)
	if len(c.NetworkOptimisedRegions) == 0 {
		c.NetworkOptimisedRegions = []string{"CANADA-1", "US-1"}
	}
	c.SSHUser = cmp.Or(c.SSHUser, "ubuntu")
	c.TeardownTimeout = cmp.Or(c.TeardownTimeout, 120*cloud.Second)
	c.TeardownPollInterval = cmp.Or(c.TeardownPollInterval, 2*cloud.Second)
	c.Endpoint = cmp.Or(c.Endpoint, defaultEndpoint)
	return c
}

// upper returns names of regions in the vendor's letter case, each once.
func upper(names []string) []string {
	var all []string
	for _, name := range names {
		if name = strings.ToUpper(name); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// validate returns every fault at once.
func (c Config) validate() error {
	var f cloud.Faults
	for _, name := range slices.Concat(c.Regions, c.NetworkOptimisedRegions) {
		f.Word("Regions", name)
		f.Require(name != "", "Regions has an empty name; leave it out for anywhere")
	}
	for _, name := range c.Regions {
		f.Require(!c.NetworkOptimised || slices.Contains(c.NetworkOptimisedRegions, name),
			"NetworkOptimised is set, and region %s is not one of NetworkOptimisedRegions", name)
	}
	f.Word("SSHUser", c.SSHUser)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Require(c.TeardownTimeout > 0, "TeardownTimeout is %v; it is more than nothing", c.TeardownTimeout)
	f.Require(c.TeardownPollInterval > 0, "TeardownPollInterval is %v; it is more than nothing", c.TeardownPollInterval)
	f.Endpoint("Endpoint", c.Endpoint, defaultEndpoint)
	return f.Err()
}
