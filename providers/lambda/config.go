package lambda

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Lambda Cloud. The zero value works when LAMBDA_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. Empty means the
	// LAMBDA_API_KEY variable.
	APIKey gputrain.Secret
	// Region is where nodes are: "us-south-2". Empty means where there is room.
	Region string
	// ImageFamily is what nodes start from, in its newest build: "lambda-stack-24-04",
	// "gpu-base-24-04", with a driver only, "ubuntu-24-04", without one. Empty means the newest
	// Lambda Stack.
	ImageFamily string
	// FileSystems are the names of file systems of Region that nodes have at
	// /lambda/nfs/NAME. They must exist. Empty means none.
	FileSystems []string
	// RequestTimeout bounds one attempt at a call of the API. Zero means 30 seconds.
	RequestTimeout time.Duration
	// LaunchInterval is the least time between two launches by this program. Zero means 12
	// seconds, which is what Lambda allows.
	LaunchInterval time.Duration

	// Endpoint replaces the API's address: a proxy, a gateway, a test server. Empty means
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

var _ gputrain.Provider = Config{}

// Name returns "lambda".
func (Config) Name() string { return providerName }

// Open checks the parameters, and by one call the key. It rents nothing.
func (c Config) Open(ctx context.Context) (gputrain.Driver, error) {
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
	key, err := cloud.Credential(ctx, "APIKey", c.APIKey, keyHint, keyVariable)
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

// validate returns every fault at once.
func (c Config) validate() error {
	var f cloud.Faults
	f.Word("Region", c.Region)
	f.Word("ImageFamily", c.ImageFamily)
	f.Require(!slices.Contains(c.FileSystems, ""), "FileSystems has an empty name")
	f.Require(len(c.FileSystems) == 0 || c.Region != "", "FileSystems are in one region, and nodes must be in the same: set Region")
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Require(c.LaunchInterval >= 0, "LaunchInterval is %v", c.LaunchInterval)
	f.Endpoint("Endpoint", c.Endpoint, defaultEndpoint)
	return f.Err()
}
