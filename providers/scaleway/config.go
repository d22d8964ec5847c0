package scaleway

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/currency"
)

// Config rents from Scaleway. The zero value works if SCW_SECRET_KEY and SCW_DEFAULT_PROJECT_ID
// are set.
type Config struct {
	// SecretKey is the secret half of an API key, a UUID. It may be a reference. If empty, it
	// is the SCW_SECRET_KEY variable. The access key is not needed. Without a key gputrain.Plan shows
	// the public list of types, prices and stock, and nothing can be rented.
	SecretKey driver.Secret
	// ProjectID is the project for everything that is made, a UUID. If empty, it is the
	// SCW_DEFAULT_PROJECT_ID variable.
	ProjectID string
	// Zone is the zone of the machines: "fr-par-2". Empty means any.
	Zone string
	// Image is the image of the machines' volumes: the label of one of Scaleway's images, or the
	// ID of any image, the user's own too. An ID is valid in one zone, which is looked up if Zone
	// is empty. If empty, it is the first of [DefaultImages] that exists for the type of machine.
	Image string
	// USDPerEUR is the value of a euro in US dollars. Scaleway's prices are in euros,
	// gputrain's in dollars. Zero means the rate in the GPUTRAIN_USD_RATES variable
	// ("EUR=1.17@2026-11-20") or, without one, a round figure. A warning of each offer names the
	// rate.
	USDPerEUR float64
	// RequestTimeout bounds one attempt at an API call. Zero means 30 seconds.
	RequestTimeout time.Duration

	// Endpoint replaces the API's address: a proxy, a gateway, a test server. If empty, it is
	// https://api.scaleway.com.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

// DefaultImages returns the labels of the images that are tried in turn if Config.Image is
// empty, those with NVIDIA's driver first.
func DefaultImages() []string {
	return []string{
		"ubuntu_noble_gpu_os_13_nvidia", "ubuntu_noble_gpu_os_12", "ubuntu_jammy_gpu_os_12",
		"ubuntu_noble", "ubuntu_jammy", "ubuntu_resolute",
	}
}

const (
	providerName    = "scaleway"
	defaultEndpoint = "https://api.scaleway.com"
	keysPage        = "https://console.scaleway.com/iam/api-keys"
)

// zones are all zones, those with the most GPUs first.
var zones = []string{
	"fr-par-2", "fr-par-1", "pl-waw-2", "pl-waw-3", "nl-ams-1", "nl-ams-2", "fr-par-3", "nl-ams-3", "pl-waw-1", "it-mil-1",
}

// countries are the countries of regions, by their names.
var countries = map[string]string{"fr-par": "FR", "nl-ams": "NL", "pl-waw": "PL", "it-mil": "IT"}

// countryOf returns the country of a zone, or "" for one that is newer than this package.
func countryOf(zone string) string { return countries[zone[:max(strings.LastIndex(zone, "-"), 0)]] }

var (
	zoneForm  = regexp.MustCompile(`^[a-z]{2}-[a-z]{3}-[0-9]$`)
	uuidForm  = regexp.MustCompile(`(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	labelForm = regexp.MustCompile(`^[a-z0-9_.-]+$`)
)

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "scaleway".
func (Config) Name() string { return providerName }

// Open checks the parameters, and the key by one call. It rents nothing.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	d, err := c.open(ctx)
	if err != nil {
		return nil, cloud.Fail(providerName, "open", err, classify)
	}
	return d, nil
}

// OpenPublic opens the public lists of types, prices and stock, which Scaleway shows without a key. Whether there is an
// image for a type is not known by them.
func (c Config) OpenPublic(ctx context.Context) (driver.Driver, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return cloud.OpenPublic(ctx, c.key, func() (driver.Driver, error) {
		rate, err := currency.Of("EUR", c.USDPerEUR)
		if err != nil {
			return nil, err
		}
		client, err := newClient(c, "")
		if err != nil {
			return nil, err
		}
		a := newAPI(c, client, rate)
		a.public = true
		return cloud.New(providerName, a, cloud.Options{}), nil
	})
}

func (c Config) key(ctx context.Context) (string, error) {
	return cloud.Credential(ctx, "SecretKey", c.SecretKey, "keys are made at "+keysPage, "SCW_SECRET_KEY")
}

func (c Config) open(ctx context.Context) (*scalewayDriver, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	key, err := c.key(ctx)
	if err != nil {
		return nil, err
	}
	c.SecretKey = "" // a driver must not hold it in a field that could be printed
	if c.ProjectID, err = cloud.Credential(ctx, "ProjectID", driver.Secret(c.ProjectID), "the projects are listed at https://console.scaleway.com/project", "SCW_DEFAULT_PROJECT_ID"); err != nil {
		return nil, err
	}
	var f cloud.Faults
	f.Require(uuidForm.MatchString(c.ProjectID), "ProjectID %q is not a UUID", c.ProjectID)
	if err := f.Err(); err != nil {
		return nil, err
	}
	rate, err := currency.Of("EUR", c.USDPerEUR)
	if err != nil {
		return nil, err
	}
	client, err := newClient(c, key)
	if err != nil {
		return nil, err
	}
	a := newAPI(c, client, rate)
	if err := client.check(ctx, a.zones[0]); err != nil {
		client.close()
		return nil, err
	}
	return &scalewayDriver{Driver: cloud.New(providerName, a, cloud.Options{}), client: client}, nil
}

// validate reports all faults at once.
func (c Config) validate() error {
	var f cloud.Faults
	f.Require(c.ProjectID == "" || uuidForm.MatchString(c.ProjectID), "ProjectID %q is not a UUID", c.ProjectID)
	f.Require(c.Zone == "" || zoneForm.MatchString(c.Zone), "Zone %q is not like fr-par-2", c.Zone)
	f.Require(c.Image == "" || uuidForm.MatchString(c.Image) || labelForm.MatchString(c.Image), "Image %q is neither a label nor a UUID", c.Image)
	f.Require(c.USDPerEUR == 0 || c.USDPerEUR >= 0.1 && c.USDPerEUR <= 10, "USDPerEUR is %v", c.USDPerEUR)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Endpoint("Endpoint", c.Endpoint, defaultEndpoint)
	return f.Err()
}
