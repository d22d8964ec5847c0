package verda

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Verda. The zero value works if VERDA_CLIENT_ID and VERDA_CLIENT_SECRET are
// set.
type Config struct {
	// ClientID is the ID of an OAuth2 client. If empty, it is the VERDA_CLIENT_ID variable.
	ClientID string
	// ClientSecret is the client's secret. It may be a reference. If empty, it is the
	// VERDA_CLIENT_SECRET variable.
	ClientSecret driver.Secret
	// Region is the preferred location: its machines are offered first. Spec.Regions restricts
	// the locations. If empty, it is DefaultRegion.
	Region string
	// Image is the image that nodes start from: the image_type or the ID of an image of
	// Verda's. If empty, it is the machine's image with Ubuntu 24.04 and CUDA.
	Image string
	// CUDA is the version in the image of a machine with GPUs, such as "13.0", if Image is
	// empty. If empty, it is the newest.
	CUDA string
	// SSHKeyID names another key of the project that may log in to the nodes. It is never
	// removed. Empty means only the pool's key.
	SSHKeyID string
	// RequestTimeout bounds one attempt at an API call. Zero means 30 seconds.
	RequestTimeout time.Duration
	// Endpoint replaces the API's address: a proxy, a gateway, a test server. If empty, it is
	// https://api.verda.com/v1.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

// DefaultRegion is the Region of a Config that has none: Finland.
const DefaultRegion = "FIN-01"

const (
	providerName    = "verda"
	defaultEndpoint = "https://api.verda.com/v1"
	whereClients    = "clients are made at https://console.verda.com, at Keys, Cloud API credentials"
)

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "verda".
func (Config) Name() string { return providerName }

// Open checks the parameters, and the credentials by one call. It rents nothing.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	d, err := c.open(ctx)
	if err != nil {
		return nil, cloud.Fail(providerName, "open", err, classify)
	}
	return d, nil
}

func (c Config) open(ctx context.Context) (*verdaDriver, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	id, err := cloud.Credential(ctx, "ClientID", driver.Secret(c.ClientID), whereClients, "VERDA_CLIENT_ID")
	if err != nil {
		return nil, err
	}
	secret, err := cloud.Credential(ctx, "ClientSecret", c.ClientSecret, whereClients, "VERDA_CLIENT_SECRET")
	if err != nil {
		return nil, err
	}
	c.ClientID, c.ClientSecret = id, ""
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 30*time.Second)
	client, err := newClient(c, secret)
	if err != nil {
		return nil, err
	}
	if _, _, err := client.balance(ctx); err != nil {
		client.Close()
		return nil, err
	}
	v := &verda{client: client, cfg: c, images: map[string][]string{}, keyIDs: map[string]string{}, ended: map[string]bool{}, disks: map[string]string{}}
	return &verdaDriver{Driver: cloud.New(providerName, v, cloud.Options{}), api: v}, nil
}

// validate reports all faults at once.
func (c Config) validate() error {
	var f cloud.Faults
	f.Word("ClientID", strings.TrimSpace(c.ClientID))
	f.Word("Region", c.Region)
	f.Word("Image", c.Image)
	f.Require(c.CUDA == "" || cudaForm.MatchString(c.CUDA), "CUDA %q is not like 13.0", c.CUDA)
	f.Word("SSHKeyID", c.SSHKeyID)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Endpoint("Endpoint", c.Endpoint, defaultEndpoint)
	return f.Err()
}
