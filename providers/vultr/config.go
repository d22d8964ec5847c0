package vultr

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A Mode is one of the two kinds of machines that Vultr rents.
type Mode string

const (
	// Cloud rents virtual machines, with GPUs or parts of them: the default.
	Cloud Mode = "cloud"
	// BareMetal rents physical servers. They take half an hour to come up.
	BareMetal Mode = "bare-metal"
)

// Config rents from Vultr. The zero value works if VULTR_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. If empty, it is the VULTR_API_KEY
	// variable. Vultr also lists its plans without a key, but then some have wrong types and no stock,
	// so gputrain.Plan needs one too.
	APIKey driver.Secret
	// Mode is the kind of machines. Empty means Cloud.
	Mode Mode
	// Region is the region by Vultr's code: "ewr" is New Jersey. Anywhere means all of them. If
	// empty, Spec.Regions and Spec.Countries apply, or DefaultRegion if those are empty too.
	Region string
	// OSID is the operating system that nodes start from, by Vultr's number: 1743 is Ubuntu
	// 22.04. Zero means DefaultOSID, or DefaultMetalImage on bare metal.
	OSID int
	// ImageID is an application of Vultr's marketplace that nodes start from instead of an
	// operating system: "docker". Empty means none.
	ImageID string
	// ProvisionTimeout bounds the time until a node's SSH answers. Zero means 15 minutes, or an
	// hour on bare metal.
	ProvisionTimeout time.Duration
	// RequestTimeout bounds one attempt at an API call. Zero means 30 seconds.
	RequestTimeout time.Duration

	// Endpoint replaces the API's address: a proxy, a gateway, a test server. If empty, it is
	// https://api.vultr.com/v2.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

const (
	// Anywhere, as a value of Config.Region, means every region.
	Anywhere = "all"
	// DefaultRegion is the region of nodes if neither Config nor Spec names one.
	DefaultRegion = "ewr"
	// DefaultOSID is Ubuntu 24.04. Vultr's own images of it have the driver for GPUs of cloud
	// plans.
	DefaultOSID = 2284
	// DefaultMetalImage is Ubuntu with NVIDIA's driver and Docker: plain Ubuntu has no driver
	// on bare metal.
	DefaultMetalImage = "docker"
)

const (
	providerName    = "vultr"
	defaultEndpoint = "https://api.vultr.com/v2"
	keyVariable     = "VULTR_API_KEY"
)

var (
	_ driver.Provider = Config{}

	regionForm = regexp.MustCompile(`^[a-z0-9-]{2,20}$`)
)

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "vultr".
func (Config) Name() string { return providerName }

// Open checks the parameters, and the key by one call. It rents nothing.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	d, err := c.open(ctx)
	if err != nil {
		return nil, cloud.Fail(providerName, "open", err, classify)
	}
	return d, nil
}

func (c Config) open(ctx context.Context) (driver.Driver, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	key, err := cloud.Credential(ctx, "APIKey", c.APIKey, "a key from "+keysPage, keyVariable)
	if err != nil {
		return nil, err
	}
	cfg := c.complete()
	calls, err := newClient(cfg, key)
	if err != nil {
		return nil, err
	}
	me, err := calls.account(ctx)
	if err == nil && me == "" {
		err = errors.New("GET /account: the answer has no account")
	}
	if err != nil {
		calls.close()
		return nil, err
	}
	a := &api{cfg: cfg, client: calls, account: me}
	return &vultrDriver{Driver: cloud.New(providerName, a, cloud.Options{}), api: a}, nil
}

// complete returns the configuration with its defaults and without the key, which a driver must
// not hold in a field that could be printed.
func (c Config) complete() Config {
	c.APIKey = ""
	c.Mode = cmp.Or(c.Mode, Cloud)
	c.ProvisionTimeout = cmp.Or(c.ProvisionTimeout, products[c.Mode].provisionTimeout)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 30*time.Second)
	c.Endpoint = strings.TrimRight(cmp.Or(c.Endpoint, defaultEndpoint), "/")
	return c
}

// validate reports all faults at once.
func (c Config) validate() error {
	var f cloud.Faults
	f.Require(c.Mode == "" || products[c.Mode].list != "", "Mode %q is neither %q nor %q", c.Mode, Cloud, BareMetal)
	f.Require(c.Region == "" || regionForm.MatchString(c.Region), "Region %q is not like %q, nor is it %q", c.Region, DefaultRegion, Anywhere)
	f.Require(c.OSID >= 0, "OSID is %d", c.OSID)
	f.Require(c.OSID == 0 || c.ImageID == "", "OSID and ImageID are both set; a node starts from one of them")
	f.Word("ImageID", c.ImageID)
	f.Timeout("ProvisionTimeout", c.ProvisionTimeout)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Endpoint("Endpoint", c.Endpoint, defaultEndpoint)
	return f.Err()
}

// image returns the operating system or the application that nodes of a mode start from; the
// other is zero.
func (c Config) image(mode Mode) (osID int, imageID string) {
	switch {
	case c.OSID != 0 || c.ImageID != "":
		return c.OSID, c.ImageID
	case mode == BareMetal:
		return 0, DefaultMetalImage
	}
	return DefaultOSID, ""
}
