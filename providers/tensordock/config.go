package tensordock

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from TensorDock. The zero value works if TENSORDOCK_API_TOKEN is set.
type Config struct {
	// APIToken authenticates every call. It may be a reference. If empty, it is the
	// TENSORDOCK_API_TOKEN variable. Without a token gputrain.Plan shows the public list of
	// locations, and nothing can be rented.
	APIToken driver.Secret
	// APIKey is the token's authorization ID, a UUID, with which the older API tells the
	// account's money. It may be a reference. If empty, it is the TENSORDOCK_API_KEY variable,
	// and without that the money is not asked for.
	APIKey driver.Secret
	// Location restricts machines to one country: by its two letters, its name or a part of
	// that: "US", "Germany". Empty means anywhere.
	Location string
	// MinTier excludes locations of a lower tier. Tiers are 0, people's homes, to 4. Zero or less
	// means any.
	MinTier int
	// OperatingSystem is the image that nodes start from. If empty, it is DefaultImage. As every
	// node has a GPU, and the plain Ubuntu 24.04 has no driver for it, "ubuntu2404" is sent as
	// "ubuntu2404_ml_everything".
	OperatingSystem string
	// StorageGB is the size of the disk if Spec.DiskGiB is zero. Zero means 100, the minimum.
	// Spec.DiskGiB is rounded up to a multiple of 50 GB.
	StorageGB int
	// MinVCPUs and MinRAMGB are a node's size if the spec asks for less. Both are rounded up:
	// vCPUs to an even number, memory to the next step. Zero means no minimum: a node then has 4
	// vCPUs and 16 GB, or what the location has, if that is less.
	MinVCPUs, MinRAMGB int
	// DedicatedIP restricts machines to those with an address of their own.
	DedicatedIP bool
	// SSHUser is the user to log in as. Empty means root, for which cloud-init gets the pool's
	// key and the node's host key. With another user the first contact decides the host key.
	SSHUser string
	// RequestTimeout bounds one attempt at an API call. Zero means 2 minutes, as the API is
	// slow.
	RequestTimeout time.Duration
	// Endpoint replaces the API's address: a proxy, a gateway, a test server. If empty, it is
	// https://dashboard.tensordock.com/api/v2.
	Endpoint string
	// MarketplaceEndpoint replaces the older API's address, which is used with APIKey alone. If
	// empty, it is https://marketplace.tensordock.com/api/v0, and there is none if Endpoint is set.
	MarketplaceEndpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

// DefaultImage is the nodes' image if Config.OperatingSystem is empty: Ubuntu 24.04.
const DefaultImage = "ubuntu2404"

const (
	providerName       = "tensordock"
	defaultEndpoint    = "https://dashboard.tensordock.com/api/v2"
	defaultMarketplace = "https://marketplace.tensordock.com/api/v0"
	imageWithDriver    = "ubuntu2404_ml_everything" // is sent for DefaultImage
	whereTokens        = "tokens are made at https://dashboard.tensordock.com/developers; the authorization ID, a UUID, is not a token"
)

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "tensordock".
func (Config) Name() string { return providerName }

// Open checks the parameters, and the token by one call. It rents nothing.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	d, err := c.open(ctx)
	if err != nil {
		return nil, cloud.Fail(providerName, "open", err, classify)
	}
	return d, nil
}

// OpenPublic opens the public list of locations. TensorDock shows it without a token.
func (c Config) OpenPublic(ctx context.Context) (driver.Driver, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return cloud.OpenPublic(ctx, c.token, func() (driver.Driver, error) {
		c = c.complete()
		client, err := newClient(c, "")
		if err != nil {
			return nil, err
		}
		return cloud.New(providerName, &dock{client: client, cfg: c}, cloud.Options{}), nil
	})
}

func (c Config) token(ctx context.Context) (string, error) {
	return cloud.Credential(ctx, "APIToken", c.APIToken, whereTokens, "TENSORDOCK_API_TOKEN")
}

func (c Config) open(ctx context.Context) (*cloud.Driver, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	token, err := c.token(ctx)
	if err != nil {
		return nil, err
	}
	key, err := cloud.Optional(ctx, "APIKey", c.APIKey, "TENSORDOCK_API_KEY")
	if err != nil {
		return nil, err
	}
	c = c.complete()
	client, err := newClient(c, token)
	if err != nil {
		return nil, err
	}
	if key != "" && c.MarketplaceEndpoint != "" {
		if client.market, err = newMarketplace(c, key, token); err != nil {
			client.Close()
			return nil, err
		}
	}
	organization, err := client.authTest(ctx)
	if err != nil {
		client.Close()
		return nil, err
	}
	account := cloud.KeyAccount(token)
	if organization != "" {
		account = "organization " + organization
	}
	return cloud.New(providerName, &dock{client: client, cfg: c, account: account}, cloud.Options{}), nil
}

// complete returns the configuration with its defaults and without the token.
func (c Config) complete() Config {
	c.APIToken, c.APIKey = "", ""
	if c.Endpoint == "" {
		c.MarketplaceEndpoint = cmp.Or(c.MarketplaceEndpoint, defaultMarketplace)
	}
	c.Location = countryOf(c.Location)
	if c.OperatingSystem = cmp.Or(c.OperatingSystem, DefaultImage); c.OperatingSystem == DefaultImage {
		c.OperatingSystem = imageWithDriver
	}
	c.StorageGB = cmp.Or(c.StorageGB, minStorageGB)
	c.SSHUser = cmp.Or(c.SSHUser, "root")
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 2*time.Minute)
	return c
}

// byCloudInit reports whether nodes get their keys by cloud-init.
func (c Config) byCloudInit() bool { return c.SSHUser == "root" }

// validate reports all faults at once.
func (c Config) validate() error {
	var f cloud.Faults
	f.Require(c.MinTier <= 4, "MinTier is %d; the highest is 4", c.MinTier)
	f.Word("OperatingSystem", c.OperatingSystem)
	f.Word("SSHUser", c.SSHUser)
	f.Require(c.StorageGB == 0 || c.StorageGB >= minStorageGB, "StorageGB is %d; the minimum is %d", c.StorageGB, minStorageGB)
	f.Require(c.MinVCPUs >= 0, "MinVCPUs is %d", c.MinVCPUs)
	f.Require(c.MinRAMGB >= 0 && c.MinRAMGB <= maxRAM, "MinRAMGB is %d; the maximum is %d", c.MinRAMGB, maxRAM)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Endpoint("Endpoint", c.Endpoint, defaultEndpoint)
	f.Endpoint("MarketplaceEndpoint", c.MarketplaceEndpoint, defaultMarketplace)
	return f.Err()
}
