package jarvislabs

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Jarvis Labs. The zero value works if JL_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. If empty, it is the JL_API_KEY
	// variable.
	APIKey driver.Secret
	// Region is the region of the nodes: "IN1", "IN2" or "EU1", or the API's name, such as
	// "india-noida-01". Empty means any. Spec.Regions narrows it further.
	Region string
	// Template is the kind of node: a container with a framework, such as "tensorflow", or
	// "vm", a machine with a kernel of its own. If empty, it is DefaultTemplate.
	Template string
	// StorageGB is the size of a node's disk if Spec.DiskGiB is zero. It is billed. Zero means
	// 50. It is raised to the minimum of the region or template: 100 in EU1 and for "vm". The
	// maximum is 2000.
	StorageGB int
	// ThreadPoolSize bounds the nodes that are created, or destroyed, at the same time. Zero
	// means 8.
	ThreadPoolSize int

	// RequestTimeout bounds one attempt at an API call, except a create, which may take at
	// least 2 minutes. Zero means 30 seconds.
	RequestTimeout time.Duration

	// Endpoint replaces all addresses of the API, the account's and the regions': a proxy, a
	// gateway, a test server. If empty, they are the vendor's own.
	Endpoint string
	// RegionEndpoints adds regions, or replaces their addresses, by the API's names:
	// "india-noida-01". Nil means the known regions.
	RegionEndpoints map[string]string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

// DefaultTemplate is the nodes' template if Config.Template is empty.
const DefaultTemplate = "pytorch"

const (
	providerName    = "jarvislabs"
	keyVariable     = "JL_API_KEY"
	accountEndpoint = "https://backendn.jarvislabs.net"
	maxStorage      = 2000
	vmTemplate      = "vm"
)

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "jarvislabs".
func (Config) Name() string { return providerName }

// Open checks the parameters, and the key by one call. It rents nothing.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	fail := func(err error) error { return cloud.Fail(providerName, "open", err, classify) }
	if err := c.validate(); err != nil {
		return nil, fail(err)
	}
	key, err := cloud.Credential(ctx, "APIKey", c.APIKey, "a key is made in Jarvis Labs' console under Settings, API Keys", keyVariable)
	if err != nil {
		return nil, fail(err)
	}
	c.APIKey = ""
	c.Template = cmp.Or(c.Template, DefaultTemplate)
	c.StorageGB = cmp.Or(c.StorageGB, 50)
	api, err := newClient(c, key)
	if err != nil {
		return nil, fail(err)
	}
	if _, err := api.balance(ctx); err != nil {
		api.close()
		return nil, fail(err)
	}
	p := &provider{cfg: c, api: api, account: cloud.KeyAccount(key), made: map[string]instance{}}
	p.Keys = cloud.Keys{List: api.keys, Add: api.addKey, Delete: api.deleteKey, Gone: isGone}
	return cloud.New(providerName, p, cloud.Options{AtOnce: cmp.Or(c.ThreadPoolSize, 8), SpotVanishes: true}), nil
}

// A region is a region with the host of its machines. A region that is unknown has none.
type region struct{ public, internal, host string }

// country returns the ISO code of a region's country, or "". It is not documented in which country EU1 is.
func (r region) country() string {
	if strings.HasPrefix(r.internal, "india-") {
		return "IN"
	}
	return ""
}

// name returns the region's name in offers.
func (r region) name() string { return cmp.Or(r.public, r.internal) }

// is reports whether a name means the region.
func (r region) is(name string) bool {
	return strings.EqualFold(name, r.internal) || r.public != "" && strings.EqualFold(name, r.public)
}

// regions returns the known regions, in the order in which they are tried, and Config's. IN1
// was at another host, as india-01, until April 2026.
func (c Config) regions() []region {
	all := []region{
		{"IN2", "india-noida-01", accountEndpoint},
		{"IN1", "india-chennai-01", "https://backendc.jarvislabs.net"},
		{europe, "europe-01", "https://backendeu.jarvislabs.net"},
	}
	for _, name := range slices.Sorted(maps.Keys(c.RegionEndpoints)) {
		i := slices.IndexFunc(all, func(r region) bool { return r.internal == name })
		if i < 0 {
			i, all = len(all), append(all, region{internal: name})
		}
		all[i].host = c.RegionEndpoints[name]
	}
	if c.Endpoint != "" {
		for i := range all {
			all[i].host = c.Endpoint
		}
	}
	return all
}

// isLocal reports whether any address of the API is on this computer, or its link.
func (c Config) isLocal() bool {
	return localnet.IsURL(c.Endpoint) || slices.ContainsFunc(c.regions(), func(r region) bool { return localnet.IsURL(r.host) })
}

// europe has no spot, and only machines with one GPU or eight.
const europe = "EU1"

var templateForm = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// validate reports all faults at once.
func (c Config) validate() error {
	var f cloud.Faults
	f.Require(c.Region == "" || slices.ContainsFunc(c.regions(), func(r region) bool { return r.is(c.Region) }),
		"Region %q is not IN1, IN2, EU1 or one of RegionEndpoints", c.Region)
	f.Require(c.Template == "" || templateForm.MatchString(c.Template), "Template %q is not a template name", c.Template)
	f.Require(c.StorageGB >= 0 && c.StorageGB <= maxStorage, "StorageGB is %d; the maximum is %d", c.StorageGB, maxStorage)
	f.Require(c.ThreadPoolSize >= 0, "ThreadPoolSize is %d; it must not be negative", c.ThreadPoolSize)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Endpoint("Endpoint", c.Endpoint, accountEndpoint)
	for name, address := range c.RegionEndpoints {
		f.Require(name != "" && address != "", "RegionEndpoints has an empty name or address")
		f.Endpoint("RegionEndpoints", address, accountEndpoint)
	}
	return f.Err()
}

// storage returns the size of a node's disk in a region.
func (c Config) storage(spec driver.Query, r region) int {
	size := c.StorageGB
	if spec.DiskGiB > 0 {
		size = int(math.Ceil(min(spec.DiskGiB, maxStorage+1)))
	}
	if r.public == europe || c.Template == vmTemplate {
		size = max(size, 100)
	}
	return size
}
