package vastai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/secretref"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cudaimage"
)

// Config rents from Vast.ai. The zero value works if VAST_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. If empty, it is the VAST_API_KEY
	// variable, then the content of ~/.config/vastai/vast_api_key (or below
	// XDG_CONFIG_HOME) or ~/.vast_api_key. Without a key gputrain.Plan shows
	// the public list of offers, and nothing can be rented.
	APIKey driver.Secret
	// Image is the Docker image of the nodes. It needs apt, as Vast installs an SSH server in
	// it. If empty, it is the spec's Image.Docker, or else DefaultImage. [Ubuntu] names NVIDIA's
	// images. Vast stores the name: it must have no secret.
	Image string
	// RegistryUser and RegistryToken log in to the registry of a private Image. The token may be a
	// reference. It goes to Vast alone, in the call that rents a node, and to no node. Empty means
	// that the image is public.
	RegistryUser  string
	RegistryToken driver.Secret
	// RegistryHost is that registry. If empty, it is the host in Image's name.
	RegistryHost string
	// DiskGB is the size of a node's disk if Spec.DiskGiB is zero. It cannot be changed later, so it
	// must have room for the image's layers, caches and checkpoints. It is billed as long as the
	// node exists, running or not. Zero means 100; the minimum is 10.
	DiskGB float64
	// Ports are TCP ports of the nodes that the internet can reach, beside SSH's. Vast maps each to
	// a random port of the machine: Instance.Ports has the addresses of a running node. At most 63,
	// as Vast maps 64, and one is SSH's. None means only SSH's.
	Ports []int

	// MinReliability excludes machines with a lower reliability by Vast's measure, from 0 to 1.
	// Zero means 0.95, a negative number any.
	MinReliability float64
	// AllowUnverified also accepts machines that Vast has not verified.
	AllowUnverified bool
	// MinCUDA excludes machines whose driver is too old for that version of CUDA. Zero means the
	// version in Image's name ("cuda:12.9.1", "cu126"), or 12.0 if it has none; a negative number
	// means any. Machines with AMD's GPUs are not compared.
	MinCUDA float64
	// Geolocation restricts machines to some places: countries by their two letters ("US"),
	// "EU", or the regions of Vast's command line: "Europe", "North_America", "South_America",
	// "Asia", "Oceania", "Africa". Empty means anywhere.
	Geolocation []string
	// AllowProxy also accepts machines without a direct port. Their SSH goes through Vast's proxy,
	// which is slow, and meant for less than a GB.
	AllowProxy bool
	// MinInetDown and MinInetUp exclude machines with slower links, in Mbit/s. Zero means any.
	MinInetDown, MinInetUp float64
	// MaxTrafficUSDPerGB excludes machines whose host charges more per GB of traffic, in either
	// direction. Zero means any price.
	MaxTrafficUSDPerGB float64

	// BidMultiplier times the lowest bid that a machine accepts is the bid for it. Zero means
	// 1.2; the minimum is 1.
	BidMultiplier float64
	// InstanceTimeout bounds how long a started node waits for its pool; then it destroys
	// itself. Zero means 5 minutes. It does not bound a node's life after that: see Spec.Lease
	// and Spec.TTL.
	InstanceTimeout time.Duration
	// TrustFirstContact accepts the host key that a node shows at the first contact, for images
	// whose nodes do not print their keys in their log.
	TrustFirstContact bool
	// RequestTimeout bounds one attempt at an API call. Zero means 30 seconds.
	RequestTimeout time.Duration

	// UseOverlay puts the nodes of a pool of several on an overlay network, within one physical
	// cluster, as Spec.Network of NetworkPrivate does for one pool. Few machines support that; all
	// others are rejected. So it is off by default.
	UseOverlay bool
	// OverlayTimeout bounds the wait for an overlay network to exist. Zero means 2 minutes.
	OverlayTimeout time.Duration

	// Endpoint replaces the API's address: a proxy, a gateway, a test server. Nodes that
	// destroy themselves call it, and then Vast itself, as a node cannot reach 127.0.0.1 of the
	// user's computer. If empty, it is https://console.vast.ai.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

// DefaultImage is the nodes' image if Config.Image is empty.
const DefaultImage = "nvidia/cuda:12.9.1-runtime-ubuntu24.04"

// Ubuntu returns NVIDIA's image of an Ubuntu with CUDA's runtime: Ubuntu("24.04", "12.9.1") is
// [DefaultImage]. It does not check that the image exists.
func Ubuntu(version, cuda string) string { return cudaimage.Ubuntu("", version, cuda) }

const (
	providerName    = "vastai"
	defaultEndpoint = "https://console.vast.ai"
	keyHint         = "make one at https://cloud.vast.ai/manage-keys/"
	minDiskGB       = 10
	// Vast maps maxPorts of an instance, SSH's included.
	maxPorts = 64
	// defaultCUDA is the MinCUDA of an image whose name has no version of CUDA.
	defaultCUDA = 12
)

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "vastai".
func (Config) Name() string { return providerName }

// Open checks the parameters, and the key by one call. It rents nothing.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	p, err := c.open(ctx)
	if err != nil {
		return nil, cloud.Fail(providerName, "open", err, p.Classify)
	}
	return newDriver(p), nil
}

// OpenPublic opens the public list of offers. Vast.ai shows it without a key.
func (c Config) OpenPublic(ctx context.Context) (driver.Driver, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return cloud.OpenPublic(ctx, c.key, func() (driver.Driver, error) {
		p, err := newProvider(c, "")
		if err != nil {
			return nil, err
		}
		return newDriver(p), nil
	})
}

func (c Config) key(ctx context.Context) (string, error) {
	return cloud.CredentialOr(ctx, "APIKey", c.APIKey, keyHint, keyInFile, "VAST_API_KEY")
}

func (c Config) open(ctx context.Context) (*provider, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	key, err := c.key(ctx)
	if err != nil {
		return nil, err
	}
	token, err := c.registryToken(ctx)
	if err != nil {
		return nil, err
	}
	p, err := newProvider(c, key)
	if err != nil {
		return nil, err
	}
	if token != "" {
		login := "-u " + c.RegistryUser + " -p " + token + " " + c.registry()
		p.login = func() string { return login }
		p.client.rest.Hide(token)
	}
	me, err := p.client.user(ctx)
	if err != nil {
		p.Close()
		return nil, err
	}
	p.account = fmt.Sprintf("user %d", me.ID)
	return p, nil
}

// keyInFile returns the key in the file of Vast's command line, if it exists: its place has changed.
func keyInFile() (string, error) {
	name := filepath.Join("vastai", "vast_api_key")
	return cloud.KeyFile(cloud.ConfigHome(name), filepath.Join(".config", name), ".vast_api_key")
}

// registryToken returns the credential for the image's registry, or "" if Image is public.
func (c Config) registryToken(ctx context.Context) (string, error) {
	if c.RegistryToken == "" {
		return "", nil
	}
	token, err := secretref.Resolve(ctx, string(c.RegistryToken))
	token = strings.TrimSpace(token)
	switch {
	case err != nil:
		return "", &driver.Error{Kind: driver.ErrAuth, Err: fmt.Errorf("looking up Config.RegistryToken: %w", err)}
	case token == "":
		return "", &driver.Error{Kind: driver.ErrAuth, Err: errors.New("Config.RegistryToken leads to an empty text"), Hint: "it is the registry's password or access token"}
	case strings.ContainsAny(token, " \t\r\n\x00"):
		return "", fmt.Errorf("%w: RegistryToken has a blank, which Vast's API does not accept", driver.ErrInvalid)
	}
	return token, nil
}

// registry returns the host of the image's registry, or "" if neither RegistryHost nor the image's name has it.
func (c Config) registry() string {
	host, _, found := strings.Cut(c.Image, "/")
	if c.RegistryHost != "" || !found || !strings.ContainsAny(host, ".:") {
		return c.RegistryHost
	}
	return host
}

// needsCUDA returns the version of CUDA that a machine's driver must support, or 0 for any.
func (c Config) needsCUDA() float64 {
	if c.MinCUDA != 0 {
		return max(c.MinCUDA, 0)
	}
	version, err := strconv.ParseFloat(cudaimage.Version(c.Image), 64)
	if err != nil {
		return defaultCUDA
	}
	return version
}

// running returns a complete configuration for nodes that run an image, with that image's version of CUDA unless least
// names another one.
func (c Config) running(image string, least float64) Config {
	c.Image, c.MinCUDA = image, least
	c.MinCUDA = c.needsCUDA()
	return c
}

// complete returns the configuration with its defaults and without secrets, which a driver must
// not hold in a field that could be printed.
func (c Config) complete() Config {
	c.APIKey, c.RegistryToken = "", ""
	c.Image = cmp.Or(c.Image, DefaultImage)
	c.Ports = slices.Clone(c.Ports)
	c.DiskGB = cmp.Or(c.DiskGB, 100)
	c.MinReliability = max(cmp.Or(c.MinReliability, 0.95), 0)
	c.MinCUDA = c.needsCUDA()
	c.BidMultiplier = cmp.Or(c.BidMultiplier, 1.2)
	c.InstanceTimeout = cmp.Or(c.InstanceTimeout, 5*time.Minute)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 30*time.Second)
	c.OverlayTimeout = cmp.Or(c.OverlayTimeout, 2*time.Minute)
	c.Endpoint = strings.TrimRight(cmp.Or(c.Endpoint, defaultEndpoint), "/")
	c.Geolocation, _ = countries(c.Geolocation)
	return c
}

// validate reports all faults at once.
func (c Config) validate() error {
	var f cloud.Faults
	f.Require(!strings.ContainsAny(c.Image, " \t\n\x00"), "Image %q is not an image name", c.Image)
	f.Require((c.DiskGB == 0 || c.DiskGB >= minDiskGB) && !math.IsInf(c.DiskGB, 0), "DiskGB is %v; the minimum is %d", c.DiskGB, minDiskGB)
	f.Require(c.MinReliability <= 1 && !math.IsInf(c.MinReliability, 0), "MinReliability is %v; it is at most 1", c.MinReliability)
	f.Require(!math.IsNaN(c.MinCUDA) && !math.IsInf(c.MinCUDA, 0), "MinCUDA is %v; it is a version, like 12.4", c.MinCUDA)
	f.Require((c.RegistryToken == "") == (c.RegistryUser == ""), "RegistryUser and RegistryToken belong together")
	f.Require(c.RegistryToken == "" || c.registry() != "", "RegistryHost is empty, and Image names no registry; set it to the host of the registry")
	f.Word("RegistryUser", c.RegistryUser)
	f.Word("RegistryHost", c.RegistryHost)
	f.Require(len(c.Ports) < maxPorts, "Ports has %d; the maximum is %d, and SSH's", len(c.Ports), maxPorts-1)
	for i, p := range c.Ports {
		f.Require(p > 0 && p <= 65535 && p != 22 && !slices.Contains(c.Ports[:i], p), "Ports[%d] is %d; each is from 1 to 65535, another one, and not SSH's, which is always mapped", i, p)
	}
	_, err := countries(c.Geolocation)
	f.Require(err == nil, "Geolocation: %v", err)
	for name, v := range map[string]float64{"MinInetDown": c.MinInetDown, "MinInetUp": c.MinInetUp, "MaxTrafficUSDPerGB": c.MaxTrafficUSDPerGB} {
		f.Require(v >= 0 && !math.IsInf(v, 0), "%s is %v", name, v)
	}
	f.Require((c.BidMultiplier == 0 || c.BidMultiplier >= 1) && !math.IsInf(c.BidMultiplier, 0), "BidMultiplier is %v; below 1 no bid wins", c.BidMultiplier)
	f.Timeout("InstanceTimeout", c.InstanceTimeout)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Timeout("OverlayTimeout", c.OverlayTimeout)
	f.Require(!strings.ContainsAny(c.Endpoint, "'\"\\ \n\x00"), "Endpoint %q is not like %s", c.Endpoint, defaultEndpoint)
	return f.Err()
}
