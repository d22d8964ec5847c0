package novita

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Novita. It works with only AllowPasswordAtFirstContact set if
// NOVITA_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. If empty, it is the
	// NOVITA_API_KEY variable.
	APIKey driver.Secret
	// ClusterID is the cluster of the nodes: "us-ca-6". Empty means any.
	ClusterID string
	// Image is the container image of the nodes. If empty, it is the spec's Image.Docker, or else
	// [DefaultImage], or an image with an older CUDA if no machine is free whose driver supports
	// that.
	Image string
	// RegistryUser and RegistryPassword are the login of Image's registry, if it is private. The
	// password may be a reference. Both are part of the call that makes an instance, so Novita
	// has them; they are not put on the node, and in no error, event or log.
	RegistryUser     string
	RegistryPassword driver.Secret
	// RegistryAuthID is the ID of a login that is stored in Novita's console, which is used
	// instead. Empty means none.
	RegistryAuthID string
	// MinCUDAVersion is the lowest version of CUDA that a machine's driver must support:
	// "12.4". If empty, it is that of the image, or of each image that is tried.
	MinCUDAVersion string
	// RootFSSize is the size of a node's disk in GB if Spec.DiskGiB is zero. It is 10 to 6144;
	// zero means 50. The part over 60 is billed.
	RootFSSize int
	// AllowPasswordAtFirstContact must be true: Novita's machines allow logins only by a
	// password, and the API reports no host key, so the password goes to any server that
	// answers at the proxy's address. See "Host keys" in the package's documentation.
	AllowPasswordAtFirstContact bool
	// RequestTimeout bounds one attempt at an API call. Zero means 30 seconds.
	RequestTimeout time.Duration

	// Endpoint replaces the API's address: a proxy, a gateway, a test server. If empty, it is
	// https://api.novita.ai/gpu-instance/openapi/v1. The account's balance is asked for beside it, at
	// https://api.novita.ai/openapi/v1, and not at all if Endpoint has another path.
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

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "novita".
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
	key, err := cloud.Credential(ctx, "APIKey", c.APIKey, "keys are made at "+keysPage, "NOVITA_API_KEY")
	if err != nil {
		return nil, err
	}
	password, err := cloud.Optional(ctx, "RegistryPassword", c.RegistryPassword)
	if err != nil {
		return nil, err
	}
	if c.RegistryUser != "" && password == "" {
		return nil, &driver.Error{Kind: driver.ErrAuth, Err: errors.New("RegistryPassword is empty"), Hint: "set it, or leave RegistryUser empty for a public image"}
	}
	c.APIKey, c.RegistryPassword = "", "" // a driver must not hold them in a field that could be printed
	c.RootFSSize = cmp.Or(c.RootFSSize, 50)
	client, err := newClient(c, key)
	if err != nil {
		return nil, err
	}
	if err := client.check(ctx); err != nil {
		client.close()
		return nil, err
	}
	a := &api{cfg: c, client: client, account: cloud.KeyAccount(key), registry: func() string { return "" }}
	if c.RegistryUser != "" {
		login := c.RegistryUser + ":" + password
		client.rest.Hide(login, password)
		a.registry = func() string { return login }
	}
	return cloud.New(providerName, a, cloud.Options{AtOnce: 2, ByID: true}), nil
}

// authID returns the stored login of the image's registry, unless there is another one: an image takes one.
func (c Config) authID(login string) string {
	if login != "" {
		return ""
	}
	return c.RegistryAuthID
}

// validate reports all faults at once.
func (c Config) validate() error {
	var f cloud.Faults
	f.Word("ClusterID", c.ClusterID)
	f.Word("Image", c.Image)
	f.Require(len(c.Image) <= 500, "Image has %d characters; the maximum is 500", len(c.Image))
	f.Word("RegistryAuthID", c.RegistryAuthID)
	f.Require(!strings.ContainsFunc(c.RegistryUser, func(r rune) bool { return r <= ' ' || r == ':' }), "RegistryUser contains a blank or a colon")
	f.Require(c.RegistryUser == "" == (c.RegistryPassword == ""), "only one of RegistryUser and RegistryPassword is set")
	f.Require(c.RegistryUser == "" || c.RegistryAuthID == "", "RegistryUser and RegistryAuthID are both set; an image takes one login")
	f.Require(c.Image != "" || c.RegistryUser == "" && c.RegistryAuthID == "", "a registry's login is set without Image; it would be sent for an image of another registry")
	f.Require(c.MinCUDAVersion == "" || versionForm.MatchString(c.MinCUDAVersion), "MinCUDAVersion %q is not like 12.4", c.MinCUDAVersion)
	f.Require(!versionForm.MatchString(c.MinCUDAVersion) || c.Image != "" || len(steps("", c.MinCUDAVersion, accelerators.Accelerator{})) > 0, "MinCUDAVersion %q is older than any default image: set Image too", c.MinCUDAVersion)
	f.Require(c.RootFSSize == 0 || c.RootFSSize >= minDiskGB && c.RootFSSize <= maxDiskGB, "RootFSSize is %d; it is %d to %d", c.RootFSSize, minDiskGB, maxDiskGB)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Endpoint("Endpoint", c.Endpoint, defaultEndpoint)
	return f.Err()
}
