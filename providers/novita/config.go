package novita

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Novita. It works with AllowPasswordAtFirstContact alone when
// NOVITA_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. Empty means the
	// NOVITA_API_KEY variable.
	APIKey gputrain.Secret
	// ClusterID is the cluster that nodes are in: "us-ca-6". Empty means any.
	ClusterID string
	// Image is the container image of the nodes. Empty means [DefaultImage], and where no
	// machine is free whose driver takes that, one of an older CUDA.
	Image string
	// MinCUDAVersion is the version of CUDA that the driver of a machine must be good for at least:
	// "12.4". Empty means that of the image, or of each that is tried.
	MinCUDAVersion string
	// RootFSSize is the size of a node's disk in GB, where Spec.DiskGiB is zero. Zero means
	// 50; it is 10 to 6144. What is over 60 is billed.
	RootFSSize int
	// AllowPasswordAtFirstContact must be true: Novita's machines take no login but a password,
	// and the API tells no host key, so that the password goes to whoever answers at the proxy's
	// address. See the package's word on host keys.
	AllowPasswordAtFirstContact bool
	// RequestTimeout bounds one attempt at a call of the API. Zero means 30 seconds.
	RequestTimeout time.Duration

	// Endpoint replaces the API's address: a proxy, a gateway, a test server. Empty means
	// https://api.novita.ai/gpu-instance/openapi/v1.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

const (
	providerName    = "novita"
	defaultEndpoint = "https://api.novita.ai/gpu-instance/openapi/v1"
	keysPage        = "https://novita.ai/settings/key-management"

	minDiskGB, freeDiskGB, maxDiskGB = 10, 60, 6144
)

var _ gputrain.Provider = Config{}

// Name returns "novita".
func (Config) Name() string { return providerName }

// Open checks the parameters, and by one call the key. It rents nothing.
func (c Config) Open(ctx context.Context) (gputrain.Driver, error) {
	d, err := c.open(ctx)
	if err != nil {
		return nil, cloud.Fail(providerName, "open", err, classify)
	}
	return d, nil
}

func (c Config) open(ctx context.Context) (gputrain.Driver, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	key, err := cloud.Credential(ctx, "APIKey", c.APIKey, "keys are made at "+keysPage, "NOVITA_API_KEY")
	if err != nil {
		return nil, err
	}
	c.APIKey = "" // which a driver must not hold where something could print it
	c.RootFSSize = cmp.Or(c.RootFSSize, 50)
	client, err := newClient(c, key)
	if err != nil {
		return nil, err
	}
	if err := client.check(ctx); err != nil {
		client.close()
		return nil, err
	}
	return cloud.New(providerName, &api{cfg: c, client: client, account: cloud.KeyAccount(key)}, cloud.Options{AtOnce: 2, ByID: true}), nil
}

// validate returns every fault at once.
func (c Config) validate() error {
	var f cloud.Faults
	f.Word("ClusterID", c.ClusterID)
	f.Word("Image", c.Image)
	f.Require(len(c.Image) <= 500, "Image has %d characters; the most is 500", len(c.Image))
	f.Require(c.MinCUDAVersion == "" || versionForm.MatchString(c.MinCUDAVersion), "MinCUDAVersion %q is not like 12.4", c.MinCUDAVersion)
	f.Require(!versionForm.MatchString(c.MinCUDAVersion) || c.Image != "" || len(steps("", c.MinCUDAVersion, accelerators.Accelerator{})) > 0, "MinCUDAVersion %q is older than any default image: set Image too", c.MinCUDAVersion)
	f.Require(c.RootFSSize == 0 || c.RootFSSize >= minDiskGB && c.RootFSSize <= maxDiskGB, "RootFSSize is %d; it is %d to %d", c.RootFSSize, minDiskGB, maxDiskGB)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Endpoint("Endpoint", c.Endpoint, defaultEndpoint)
	return f.Err()
}
