package hyperstack

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Hyperstack. The zero value works if HYPERSTACK_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. If empty, it is the
	// HYPERSTACK_API_KEY variable.
	APIKey driver.Secret
	// Regions are the regions of the nodes: "CANADA-1", "NORWAY-1", "US-1", in any letter case.
	// None means any. Spec.Regions narrows them further.
	Regions []string
	// Image is the name of the nodes' image. If empty, it is the region's newest Ubuntu with
	// CUDA or, if there is none, the newest Ubuntu.
	Image string
	// SSHUser is the user to log in as. If empty, it is "ubuntu", which has sudo.
	SSHUser string

	// NetworkOptimised restricts machines to those with the fast network: flavours, regions and
	// environments must have it.
	NetworkOptimised bool
	// NetworkOptimisedRegions are the regions with the fast network. None means CANADA-1 and
	// US-1.
	NetworkOptimisedRegions []string

	// RequestTimeout bounds one attempt at an API call. Zero means 30 seconds.
	RequestTimeout time.Duration
	// TeardownTimeout bounds the wait for a machine that is still being made and refuses to
	// end, and for an environment whose machines are being deleted. Zero means 2 minutes.
	TeardownTimeout time.Duration
	// TeardownPollInterval is the pause between two checks during these waits. Zero means 2
	// seconds.
	TeardownPollInterval time.Duration

	// Endpoint replaces the API's address: a proxy, a gateway, a test server. If empty, it is
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

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "hyperstack".
func (Config) Name() string { return providerName }

// Open checks the parameters, and the key by one call. It rents nothing.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
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
	return &hyperstackDriver{Driver: cloud.New(providerName, p, cloud.Options{}), p: p}, nil
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

// upper returns names of regions in the vendor's letter case, without duplicates.
func upper(names []string) []string {
	var all []string
	for _, name := range names {
		if name = strings.ToUpper(name); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// validate reports all faults at once.
func (c Config) validate() error {
	var f cloud.Faults
	for _, name := range slices.Concat(c.Regions, c.NetworkOptimisedRegions) {
		f.Word("Regions", name)
		f.Require(name != "", "Regions has an empty name; leave it out for anywhere")
	}
	for _, name := range c.Regions {
		f.Require(!c.NetworkOptimised || slices.Contains(c.NetworkOptimisedRegions, name),
			"NetworkOptimised is set, but region %s is not one of NetworkOptimisedRegions", name)
	}
	f.Word("SSHUser", c.SSHUser)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Require(c.TeardownTimeout > 0, "TeardownTimeout is %v; it must be positive", c.TeardownTimeout)
	f.Require(c.TeardownPollInterval > 0, "TeardownPollInterval is %v; it must be positive", c.TeardownPollInterval)
	f.Endpoint("Endpoint", c.Endpoint, defaultEndpoint)
	return f.Err()
}
