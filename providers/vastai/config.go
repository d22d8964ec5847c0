package vastai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/secretref"
)

// Config rents from Vast.ai. The zero value works when VAST_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. Empty means the
	// VAST_API_KEY variable, and where that is empty too the file
	// ~/.config/vastai/vast_api_key.
	APIKey gputrain.Secret
	// Image is the Docker image of the nodes: one with apt, as Vast installs an SSH
	// server in it. Empty means DefaultImage.
	Image string
	// DiskGB is the size of a node's disk, where Spec.DiskGiB is zero. It cannot be
	// changed later, and is billed for as long as the node exists. Zero means 100;
	// the least is 8.
	DiskGB float64

	// MinReliability drops machines whose reliability Vast puts below it, from 0 to
	// 1. Zero means 0.95, less than zero any.
	MinReliability float64
	// AllowUnverified takes machines too that Vast has not verified.
	AllowUnverified bool
	// MinCUDA drops machines whose driver is too old for that version of CUDA. Zero
	// means 12.0, less than zero any.
	MinCUDA float64
	// Geolocation keeps machines in some places only: countries by their two letters
	// ("US"), "EU", or the regions of Vast's command line: "Europe", "North_America",
	// "South_America", "Asia", "Oceania", "Africa". Empty means anywhere.
	Geolocation []string
	// RequireDirectPort keeps machines only whose SSH port can be reached directly.
	// Otherwise some nodes are behind Vast's proxy, which is slow.
	RequireDirectPort bool
	// MinInetDown and MinInetUp drop machines with slower links, in Mbit/s. Zero
	// means any.
	MinInetDown, MinInetUp float64
	// MaxTrafficUSDPerGB drops machines whose host asks for more per GB of traffic,
	// in either direction. Zero means any price.
	MaxTrafficUSDPerGB float64

	// BidMultiplier is how many times the lowest bid that a machine takes is bid for
	// it. Zero means 1.2; the least is 1.
	BidMultiplier float64
	// InstanceTimeout is how long a node waits after its start to be taken over by its
	// pool; then it destroys itself. Zero means 5 minutes. It does not bound how long
	// a node lives after that: see Spec.Lease and Spec.TTL.
	InstanceTimeout time.Duration
	// TrustFirstContact takes the host key that a node shows at the first contact, for
	// images whose nodes do not tell theirs in their log.
	TrustFirstContact bool
	// RequestTimeout bounds one attempt at a call of the API. Zero means 30 seconds.
	RequestTimeout time.Duration

	// UseOverlay puts the nodes of a pool of several on an overlay network, within one
	// physical cluster. Few machines can do that; without such ones there are no
	// offers.
	UseOverlay bool
	// OverlayTimeout is how long an overlay network may take until it exists. Zero
	// means 2 minutes.
	OverlayTimeout time.Duration

	// Endpoint replaces the API's address: a proxy, a gateway, a test server. Nodes
	// that destroy themselves ask there, and then Vast itself: a node does not reach
	// what is at 127.0.0.1 of the user's computer. Empty means https://console.vast.ai.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

// DefaultImage is the nodes' image where Config.Image is empty.
const DefaultImage = "nvidia/cuda:12.9.1-runtime-ubuntu24.04"

const (
	providerName    = "vastai"
	defaultEndpoint = "https://console.vast.ai"
	minDiskGB       = 8
)

var _ gputrain.Provider = Config{}

// Name returns "vastai".
func (Config) Name() string { return providerName }

// Open checks the parameters, and by one call the key. It rents nothing.
func (c Config) Open(ctx context.Context) (gputrain.Driver, error) {
	if err := c.validate(); err != nil {
		return nil, fail("open", err)
	}
	key, err := c.key(ctx)
	if err != nil {
		return nil, fail("open", err)
	}
	d, err := newDriver(c.complete(), key)
	if err != nil {
		return nil, fail("open", err)
	}
	me, err := d.api.user(ctx)
	if err != nil {
		d.Close()
		return nil, fail("open", err)
	}
	d.account = fmt.Sprintf("user %d", me.ID)
	return d, nil
}

// key returns the API key.
func (c Config) key(ctx context.Context) (string, error) {
	given, err := secretref.Resolve(ctx, string(c.APIKey))
	if err != nil {
		return "", &gputrain.Error{Kind: gputrain.ErrAuth, Err: fmt.Errorf("Config.APIKey: %w", err)}
	}
	key := strings.TrimSpace(cmp.Or(given, os.Getenv("VAST_API_KEY")))
	if key == "" {
		home, err := os.UserHomeDir()
		if err == nil {
			text, err := os.ReadFile(filepath.Join(home, ".config", "vastai", "vast_api_key"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return "", &gputrain.Error{Kind: gputrain.ErrAuth, Err: fmt.Errorf("reading the file of the key: %w", err)}
			}
			key = strings.TrimSpace(string(text))
		}
	}
	if key == "" {
		return "", &gputrain.Error{Kind: gputrain.ErrAuth, Err: errors.New("there is no API key"),
			Hint: "set VAST_API_KEY or Config.APIKey to a key from https://cloud.vast.ai/manage-keys/"}
	}
	return key, nil
}

// complete returns the configuration with its defaults, without the key, which a
// driver must not hold where something could print it.
func (c Config) complete() Config {
	c.APIKey = ""
	c.Image = cmp.Or(c.Image, DefaultImage)
	c.DiskGB = cmp.Or(c.DiskGB, 100)
	c.MinReliability = max(cmp.Or(c.MinReliability, 0.95), 0)
	c.MinCUDA = max(cmp.Or(c.MinCUDA, 12), 0)
	c.BidMultiplier = cmp.Or(c.BidMultiplier, 1.2)
	c.InstanceTimeout = cmp.Or(c.InstanceTimeout, 5*time.Minute)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 30*time.Second)
	c.OverlayTimeout = cmp.Or(c.OverlayTimeout, 2*time.Minute)
	c.Endpoint = strings.TrimRight(cmp.Or(c.Endpoint, defaultEndpoint), "/")
	c.Geolocation, _ = countries(c.Geolocation)
	return c
}

// validate returns every fault at once.
func (c Config) validate() error {
	var faults []error
	invalid := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{gputrain.ErrInvalid}, args...)...))
	}
	if strings.ContainsAny(c.Image, " \t\n\x00") {
		invalid("Image %q is not the name of an image", c.Image)
	}
	if c.DiskGB != 0 && !(c.DiskGB >= minDiskGB) || math.IsInf(c.DiskGB, 0) {
		invalid("DiskGB is %v; the least is %d", c.DiskGB, minDiskGB)
	}
	if !(c.MinReliability <= 1) || math.IsInf(c.MinReliability, 0) {
		invalid("MinReliability is %v; it is at most 1", c.MinReliability)
	}
	if math.IsNaN(c.MinCUDA) || math.IsInf(c.MinCUDA, 0) {
		invalid("MinCUDA is %v; it is a version, like 12.4", c.MinCUDA)
	}
	if _, err := countries(c.Geolocation); err != nil {
		invalid("Geolocation: %v", err)
	}
	for name, v := range map[string]float64{"MinInetDown": c.MinInetDown, "MinInetUp": c.MinInetUp, "MaxTrafficUSDPerGB": c.MaxTrafficUSDPerGB} {
		if !(v >= 0) || math.IsInf(v, 0) {
			invalid("%s is %v", name, v)
		}
	}
	if c.BidMultiplier != 0 && !(c.BidMultiplier >= 1) || math.IsInf(c.BidMultiplier, 0) {
		invalid("BidMultiplier is %v; below 1 no bid wins", c.BidMultiplier)
	}
	for name, d := range map[string]time.Duration{"InstanceTimeout": c.InstanceTimeout, "RequestTimeout": c.RequestTimeout, "OverlayTimeout": c.OverlayTimeout} {
		if d != 0 && d < time.Second {
			invalid("%s is %v; the least is a second", name, d)
		}
	}
	if strings.ContainsAny(c.Endpoint, "'\"\\ \n\x00") {
		invalid("Endpoint %q is not like %s", c.Endpoint, defaultEndpoint)
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}
