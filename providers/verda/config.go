package verda

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Verda. The zero value works when VERDA_CLIENT_ID and
// VERDA_CLIENT_SECRET are set.
type Config struct {
	// ClientID is the OAuth2 client's. Empty means the VERDA_CLIENT_ID variable.
	ClientID string
	// ClientSecret goes with ClientID. It may be a reference. Empty means the
	// VERDA_CLIENT_SECRET variable.
	ClientSecret gputrain.Secret
	// Region is the location whose machines are offered before those of others.
	// Spec.Regions are the only ones that are allowed. Empty means DefaultRegion.
	Region string
	// Image is what nodes start from: the image_type or the ID of an image of Verda's.
	// Empty means the one for the machine that has Ubuntu 24.04 and CUDA.
	Image string
	// CUDA is the version that is in the image of a machine with GPUs, such as "13.0", where
	// Image is empty. Empty means the newest.
	CUDA string
	// SSHKeyID names a key of the project that may log in to the nodes, too. It is
	// never removed. Empty means none but the pool's.
	SSHKeyID string
	// RequestTimeout bounds one attempt at a call of the API. Zero means 30 seconds.
	RequestTimeout time.Duration
	// Endpoint replaces the API's address: a proxy, a gateway, a test server. Empty
	// means https://api.verda.com/v1.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

// DefaultRegion is what Config.Region means where it is empty: Finland.
const DefaultRegion = "FIN-01"

const (
	providerName    = "verda"
	defaultEndpoint = "https://api.verda.com/v1"
	whereClients    = "clients are made at https://console.verda.com, at Keys, Cloud API credentials"
)

var _ gputrain.Provider = Config{}

// Name returns "verda".
func (Config) Name() string { return providerName }

// Open checks the parameters, and by one call the credentials. It rents nothing.
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
	id, err := cloud.Credential(ctx, "ClientID", gputrain.Secret(c.ClientID), whereClients, "VERDA_CLIENT_ID")
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
	if _, err := client.balance(ctx); err != nil {
		client.Close()
		return nil, err
	}
	v := &verda{client: client, cfg: c, images: map[string][]string{}, keyIDs: map[string]string{}, ended: map[string]bool{}}
	return &driver{Driver: cloud.New(providerName, v, cloud.Options{}), api: v}, nil
}

// validate returns every fault at once.
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
