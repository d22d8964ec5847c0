package massedcompute

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Massed Compute. The zero value works when MASSED_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. Empty means the
	// MASSED_API_KEY variable, and where that is empty too MASSED_COMPUTE_API_KEY.
	APIKey gputrain.Secret
	// ImageID is the image that nodes start from, by its number: see GET /images of the
	// API. Zero means DefaultImage.
	ImageID int
	// Coupon is named at every launch. The service ignores one that it does not know.
	// Empty means none.
	Coupon string
	// KeepPassword leaves a node's password usable, by which the account's owner can
	// otherwise log in. False locks it at the first boot.
	KeepPassword bool
	// RequestTimeout bounds one attempt at a call of the API. Zero means 30 seconds.
	RequestTimeout time.Duration

	// Endpoint replaces the API's address: a proxy, a gateway, a test server. Empty means
	// https://vm.massedcompute.com.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

// DefaultImage is the nodes' image where Config.ImageID is zero: Ubuntu Server 24.04, with
// NVIDIA's driver.
const DefaultImage = 184

const (
	providerName    = "massedcompute"
	defaultEndpoint = "https://vm.massedcompute.com"
	keyVariable     = "MASSED_API_KEY"
	vendorVariable  = "MASSED_COMPUTE_API_KEY"
	keyHint         = "make one with full access: https://vm-docs.massedcompute.com/docs/settings/api-settings"
)

var _ gputrain.Provider = Config{}

// Name returns "massedcompute".
func (Config) Name() string { return providerName }

// Open checks the parameters, and by one call the key. It rents nothing.
func (c Config) Open(ctx context.Context) (gputrain.Driver, error) {
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

// validate returns every fault at once.
func (c Config) validate() error {
	var f cloud.Faults
	f.Require(c.ImageID >= 0, "ImageID is %d; images are numbered, and zero is the default", c.ImageID)
	f.Word("Coupon", c.Coupon)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Endpoint("Endpoint", c.Endpoint, defaultEndpoint)
	return f.Err()
}
