package lambda

import (
	"cmp"
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Lambda Cloud. The zero value works if LAMBDA_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. If empty, it is the
	// LAMBDA_API_KEY variable, then api_key in ~/.lambda_cloud/lambda_keys.
	APIKey driver.Secret
	// Region is the region of the nodes: "us-south-2". Empty means any with room.
	Region string
	// ImageFamily is the family of images that nodes start from, in its newest build:
	// "lambda-stack-24-04", "gpu-base-24-04" with only a driver, "ubuntu-24-04" without one. If
	// empty, it is the newest Lambda Stack.
	ImageFamily string
	// FileSystems are the names of file systems of Region, which nodes have at
	// /lambda/nfs/NAME. They must exist. Empty means none.
	FileSystems []string
	// RequestTimeout bounds one attempt at an API call. Zero means 30 seconds.
	RequestTimeout time.Duration
	// LaunchInterval is the minimum time between two launches by this program. Zero means 12
	// seconds, Lambda's limit.
	LaunchInterval time.Duration

	// Endpoint replaces the API's address: a proxy, a gateway, a test server. If empty, it is
	// https://cloud.lambda.ai.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

const (
	providerName    = "lambda"
	defaultEndpoint = "https://cloud.lambda.ai"
	keyVariable     = "LAMBDA_API_KEY"
	keyHint         = "make one at https://cloud.lambda.ai/api-keys/cloud-api"
)

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "lambda".
func (Config) Name() string { return providerName }

// Open checks the parameters, and the key by one call. It rents nothing.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	a, err := c.open(ctx)
	if err != nil {
		return nil, cloud.Fail(providerName, "open", err, (*api)(nil).Classify)
	}
	return cloud.New(providerName, a, cloud.Options{AtOnce: 1, ByList: true}), nil
}

func (c Config) open(ctx context.Context) (*api, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	key, err := cloud.CredentialOr(ctx, "APIKey", c.APIKey, keyHint, keyInFile, keyVariable)
	if err != nil {
		return nil, err
	}
	c.Endpoint = strings.TrimRight(cmp.Or(c.Endpoint, defaultEndpoint), "/")
	client, err := newClient(c, key)
	if err != nil {
		return nil, err
	}
	if _, err := client.keys(ctx); err != nil {
		client.close()
		return nil, err
	}
	return &api{
		OnlyKeys: keysOf(client), client: client, account: cloud.KeyAccount(key), local: localnet.IsURL(c.Endpoint),
		region: c.Region, imageFamily: c.ImageFamily, fileSystems: slices.Clone(c.FileSystems),
	}, nil
}

// validate reports all faults at once.
func (c Config) validate() error {
	var f cloud.Faults
	f.Word("Region", c.Region)
	f.Word("ImageFamily", c.ImageFamily)
	f.Require(!slices.Contains(c.FileSystems, ""), "FileSystems has an empty name")
	f.Require(len(c.FileSystems) == 0 || c.Region != "", "FileSystems are in one region, which must be the nodes' too: set Region")
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Require(c.LaunchInterval >= 0, "LaunchInterval is %v", c.LaunchInterval)
	f.Endpoint("Endpoint", c.Endpoint, defaultEndpoint)
	return f.Err()
}

// keyInFile returns the key in the file in which Lambda's users keep it, if it exists.
func keyInFile() (string, error) {
	text, err := cloud.KeyFile(filepath.Join(".lambda_cloud", "lambda_keys"))
	return cloud.Setting(text, "api_key"), err
}
