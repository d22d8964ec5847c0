package scaleway

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Scaleway. The zero value works when SCW_SECRET_KEY and
// SCW_DEFAULT_PROJECT_ID are set.
type Config struct {
	// SecretKey is the secret half of an API key, a UUID. It may be a reference. Empty
	// means the SCW_SECRET_KEY variable. The access key is not needed.
	SecretKey gputrain.Secret
	// ProjectID is the project that everything is made in, a UUID. Empty means the
	// SCW_DEFAULT_PROJECT_ID variable.
	ProjectID string
	// Zone is the zone that machines are in: "fr-par-2". Empty means any.
	Zone string
	// Image is what the volumes of machines are made of: the label of one of Scaleway's
	// images, or, where Zone is set, the ID of any image there. Empty means the first
	// of [DefaultImages] that there is for the type of machine.
	Image string
	// USDPerEUR is what a euro is worth in US dollars. Scaleway's prices are in euros,
	// and all of gputrain's in dollars. Zero means [DefaultUSDPerEUR].
	USDPerEUR float64
	// RequestTimeout bounds one attempt at a call of the API. Zero means 30 seconds.
	RequestTimeout time.Duration

	// Endpoint replaces the API's address: a proxy, a gateway, a test server. Empty means
	// https://api.scaleway.com.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

// DefaultUSDPerEUR is a round figure of October 2026. It is not kept up to date: where
// limits in dollars matter to the cent, set Config.USDPerEUR.
const DefaultUSDPerEUR = 1.10

// DefaultImages returns the labels of the images that are tried in turn where Config.Image
// is empty: those with NVIDIA's driver first.
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

// zones are those that there are, with the ones first that have most GPUs.
var zones = []string{
	"fr-par-2", "fr-par-1", "pl-waw-2", "pl-waw-3", "nl-ams-1", "nl-ams-2", "fr-par-3", "nl-ams-3", "pl-waw-1", "it-mil-1",
}

var (
	zoneForm  = regexp.MustCompile(`^[a-z]{2}-[a-z]{3}-[0-9]$`)
	uuidForm  = regexp.MustCompile(`(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	labelForm = regexp.MustCompile(`^[a-z0-9_.-]+$`)
)

var _ gputrain.Provider = Config{}

// Name returns "scaleway".
func (Config) Name() string { return providerName }

// Open checks the parameters, and by one call the key. It rents nothing.
func (c Config) Open(ctx context.Context) (gputrain.Driver, error) {
	d, err := c.open(ctx)
	if err != nil {
		return nil, cloud.Fail(providerName, "open", err, classify)
	}
	return d, nil
}

func (c Config) open(ctx context.Context) (*driver, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	key, err := cloud.Credential(ctx, "SecretKey", c.SecretKey, "keys are made at "+keysPage, "SCW_SECRET_KEY")
	if err != nil {
		return nil, err
	}
	c.SecretKey = "" // which a driver must not hold where something could print it
	if c.ProjectID, err = cloud.Credential(ctx, "ProjectID", gputrain.Secret(c.ProjectID), "the projects are listed at https://console.scaleway.com/project", "SCW_DEFAULT_PROJECT_ID"); err != nil {
		return nil, err
	}
	var f cloud.Faults
	f.Require(uuidForm.MatchString(c.ProjectID), "ProjectID %q is not a UUID", c.ProjectID)
	if err := f.Err(); err != nil {
		return nil, err
	}
	c.USDPerEUR = cmp.Or(c.USDPerEUR, DefaultUSDPerEUR)
	client, err := newClient(c, key)
	if err != nil {
		return nil, err
	}
	a := newAPI(c, client)
	if err := client.check(ctx, a.zones[0]); err != nil {
		client.close()
		return nil, err
	}
	return &driver{cloud.New(providerName, a, cloud.Options{}), client}, nil
}

// validate returns every fault at once.
func (c Config) validate() error {
	var f cloud.Faults
	f.Require(c.ProjectID == "" || uuidForm.MatchString(c.ProjectID), "ProjectID %q is not a UUID", c.ProjectID)
	f.Require(c.Zone == "" || zoneForm.MatchString(c.Zone), "Zone %q is not like fr-par-2", c.Zone)
	f.Require(c.Image == "" || uuidForm.MatchString(c.Image) || labelForm.MatchString(c.Image), "Image %q is neither a label nor a UUID", c.Image)
	f.Require(c.Zone != "" || !uuidForm.MatchString(c.Image), "Image is an ID, which is known in one zone: set Zone too, or Image to a label")
	f.Require(c.USDPerEUR == 0 || c.USDPerEUR >= 0.1 && c.USDPerEUR <= 10, "USDPerEUR is %v", c.USDPerEUR)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Endpoint("Endpoint", c.Endpoint, defaultEndpoint)
	return f.Err()
}

// within is whether a zone is in one of the regions that a spec names, or is one of them.
func within(zone string, regions []string) bool {
	for _, r := range regions {
		if zone == r || strings.HasPrefix(zone, r+"-") {
			return true
		}
	}
	return len(regions) == 0
}
