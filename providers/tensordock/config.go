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
	// TENSORDOCK_API_TOKEN variable.
	APIToken driver.Secret
	// Location restricts machines to one country: by its two letters, its name or a part of
	// that: "US", "Germany". Empty means anywhere.
	Location string
	// MinTier excludes locations of a lower tier. Tiers are 0 to 4. Zero means 2, a negative
	// number any.
	MinTier int
	// OperatingSystem is the image that nodes start from. If empty, it is DefaultImage.
	OperatingSystem string
	// StorageGB is the size of the disk if Spec.DiskGiB is zero. Zero means 100, the minimum.
	// Spec.DiskGiB is rounded up to a multiple of 50 GB.
	StorageGB int
	// MinVCPUs and MinRAMGB are a node's size if the spec asks for less. Both are rounded up:
	// vCPUs to an even number, memory to the next step. Zero means 4 and 16.
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
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

// DefaultImage is the nodes' image if Config.OperatingSystem is empty: Ubuntu 24.04 with a
// driver.
const DefaultImage = "ubuntu2404_ml_everything"

const (
	providerName    = "tensordock"
	defaultEndpoint = "https://dashboard.tensordock.com/api/v2"
	whereTokens     = "tokens are made at https://dashboard.tensordock.com/developers; the authorization ID, a UUID, is not a token"
)

var _ driver.Provider = Config{}

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

func (c Config) open(ctx context.Context) (*cloud.Driver, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	token, err := cloud.Credential(ctx, "APIToken", c.APIToken, whereTokens, "TENSORDOCK_API_TOKEN")
	if err != nil {
		return nil, err
	}
	c = c.complete()
	client, err := newClient(c, token)
	if err != nil {
		return nil, err
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
	c.APIToken = ""
	c.Location = countryOf(c.Location)
	c.MinTier = cmp.Or(c.MinTier, 2)
	c.OperatingSystem = cmp.Or(c.OperatingSystem, DefaultImage)
	c.StorageGB = cmp.Or(c.StorageGB, minStorageGB)
	c.MinVCPUs, c.MinRAMGB = cmp.Or(c.MinVCPUs, 4), cmp.Or(c.MinRAMGB, 16)
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
	return f.Err()
}
