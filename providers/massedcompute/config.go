package massedcompute

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Massed Compute. The zero value works if MASSED_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. If empty, it is the
	// MASSED_API_KEY variable, then MASSED_COMPUTE_API_KEY.
	APIKey driver.Secret
	// ImageID is the image that nodes start from, by its number: see GET /images of the
	// API. Zero means DefaultImage.
	ImageID int
	// Coupon is sent with every launch. The service ignores an unknown one. Empty means none.
	Coupon string
	// KeepPassword leaves a node's password usable, with which the account's owner can also log
	// in. False locks it at the first boot.
	KeepPassword bool
	// RequestTimeout bounds one attempt at an API call. Zero means 30 seconds.
	RequestTimeout time.Duration

	// Endpoint replaces the API's address: a proxy, a gateway, a test server. If empty, it is
	// https://vm.massedcompute.com.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

// DefaultImage is the nodes' image if Config.ImageID is zero: Ubuntu Server 24.04, with
// NVIDIA's driver.
const DefaultImage = 184

const (
	providerName    = "massedcompute"
	defaultEndpoint = "https://vm.massedcompute.com"
	keyVariable     = "MASSED_API_KEY"
	vendorVariable  = "MASSED_COMPUTE_API_KEY"
	keyHint         = "make one with full access: https://vm-docs.massedcompute.com/docs/settings/api-settings"
)

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "massedcompute".
func (Config) Name() string { return providerName }

// Open checks the parameters, and the key by one call. It rents nothing.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	a, err := c.open(ctx)
	if err != nil {
		return nil, cloud.Fail(providerName, "open", err, (*api)(nil).Classify)
	}
	return cloud.New(providerName, a, cloud.Options{AtOnce: 2, ByList: true, SpotVanishes: true}), nil
}

func (c Config) open(ctx context.Context) (*api, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	key, err := cloud.Credential(ctx, "APIKey", c.APIKey, keyHint, keyVariable, vendorVariable)
	if err != nil {
		return nil, err
	}
	c.Endpoint = strings.TrimRight(cmp.Or(c.Endpoint, defaultEndpoint), "/")
	client, err := newClient(c, key)
	if err != nil {
		return nil, err
	}
	if err := client.validate(ctx); err != nil {
		client.close()
		return nil, err
	}
	a := &api{OnlyKeys: keysOf(client), client: client, account: cloud.KeyAccount(key), local: localnet.IsURL(c.Endpoint), image: cmp.Or(c.ImageID, DefaultImage), coupon: c.Coupon}
	if !c.KeepPassword {
		a.command = `sudo -n passwd --lock "$(id -un)"`
	}
	return a, nil
}

// validate reports all faults at once.
func (c Config) validate() error {
	var f cloud.Faults
	f.Require(c.ImageID >= 0, "ImageID is %d; images are numbered, and zero is the default", c.ImageID)
	f.Word("Coupon", c.Coupon)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Endpoint("Endpoint", c.Endpoint, defaultEndpoint)
	return f.Err()
}
