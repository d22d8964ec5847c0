package runpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
)

// Config rents pods from RunPod. The zero value works when RUNPOD_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. Empty means the
	// RUNPOD_API_KEY variable, and then what runpodctl has put into
	// ~/.runpod/config.toml.
	APIKey gputrain.Secret

	// Cloud is whose hosts are rented. Empty means Secure.
	Cloud Cloud
	// ClusterMode says how nodes are rented. Empty means Individual.
	ClusterMode ClusterMode
	// GlobalNetworking joins the pods by RunPod's private network, about 100 Mbit/s
	// across data centres. Auto, the zero value, does so where it can be done: for
	// two nodes and more with NVIDIA GPUs, on demand, in the secure cloud. Such pods are
	// in the data centres that have it.
	GlobalNetworking Networking
	// DataCenterIDs are where pods may be: "US-TX-3". Empty means anywhere.
	DataCenterIDs []string
	// CountryCodes are the countries where pods may be: "FR". Empty means all. CPU
	// pods and global networking know no countries.
	CountryCodes []string
	// ExcludeCountryCodes are countries where pods may not be.
	ExcludeCountryCodes []string
	// MinDownloadMbps and MinUploadMbps drop hosts with slower lines. Zero drops none.
	MinDownloadMbps, MinUploadMbps int

	// Image is what pods start from; Debian's, Alpine's and Red Hat's kin will do.
	// Empty means CUDA 12.8 with cuDNN on Ubuntu, and plain Ubuntu where there is no
	// NVIDIA GPU.
	Image string
	// Ubuntu is the release that the default image has: "24.04", "22.04". Empty, or
	// "newest", means 24.04.
	Ubuntu string
	// MinCUDAVersion drops hosts whose driver is older: "12.4". Empty means what the
	// default image needs, and nothing with an Image of one's own.
	MinCUDAVersion string
	// RegistryAuth is the name of a registry credential of the account, for private
	// images. Empty means "docker hub", which may be missing; one that is named may not.
	RegistryAuth string

	// ContainerDiskGB is the size of a pod's disk, which Spec.DiskGiB can only make
	// larger. Zero means 50, and 20 for pods without GPU.
	ContainerDiskGB int
	// VolumeGB is the size of the host-local volume that a GPU pod has beside its
	// disk, 10 at least. Zero means 20, and -1 none. A pod with a network volume, by
	// Spec.Mounts, has none, nor has one of an instant cluster.
	VolumeGB int
	// VolumeMountPath is where that volume is. Empty means /workspace.
	VolumeMountPath string
	// Ports are published beside SSH's: "8888/http", "5000/tcp".
	Ports []string
	// CPUClock is the flavour of pods without GPU: "3c", "3g", "5c". Empty means "3c".
	CPUClock string

	// BidMultiplier is how far above the lowest bid that RunPod takes a spot pod is
	// bid for. Zero means 1.
	BidMultiplier float64
	// TerminateAfter has RunPod itself end on-demand pods, too, ten minutes after the
	// pool's TTL. They are then created by the old API, which has no global networking.
	// Spot pods always are. CPU pods and clusters cannot be.
	TerminateAfter bool

	// ProvisionTimeout is how long a pod may take until SSH answers, with the pulling
	// of its image. Zero means gputrain.DefaultProvisionTimeout.
	ProvisionTimeout time.Duration
	// RequestTimeout bounds one call of the API. Zero means 30 seconds. The old API
	// gets twice that.
	RequestTimeout time.Duration
	// Endpoint replaces https://api.runpod.io: a proxy, a test server. Empty means
	// RunPod's own.
	Endpoint string
	// PodEndpoint is what pods call that end themselves, which reach RunPod from where
	// they are: a proxy on the program's computer, or in its network, is not there for
	// them. Empty means https://api.runpod.io, whatever Endpoint is.
	PodEndpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

// A Cloud is whose hosts are rented.
type Cloud string

const (
	// Secure are RunPod's own data centres.
	Secure Cloud = "secure"
	// Community are vetted hosts of others: cheaper, slower to start, less reliable.
	Community Cloud = "community"
	// AllClouds are both.
	AllClouds Cloud = "all"
)

// A ClusterMode says how the nodes of a pool are rented.
type ClusterMode string

const (
	// Individual rents one pod for each node.
	Individual ClusterMode = "individual"
	// Instant rents all nodes as one Instant Cluster: in one data centre, with
	// 1600 to 3200 Gbit/s between them. It begins and ends as a whole.
	Instant ClusterMode = "instant"
)

// Networking says whether pods are joined by a private network.
type Networking int

const (
	// NetworkingAuto joins pods where that can be done.
	NetworkingAuto Networking = iota
	// NetworkingOn offers only what can be joined.
	NetworkingOn
	// NetworkingOff joins none.
	NetworkingOff
)

const (
	providerName    = "runpod"
	defaultEndpoint = "https://api.runpod.io"
	defaultCUDA     = "12.8"
	newestUbuntu    = "24.04"
	defaultRegistry = "docker hub"
)

var _ gputrain.Provider = Config{}

// Name returns "runpod".
func (Config) Name() string { return providerName }

// Open asks the API whose the key is. It rents nothing.
func (c Config) Open(ctx context.Context) (gputrain.Driver, error) {
	c = c.clone()
	if err := c.validate(); err != nil {
		return nil, fail("open", err)
	}
	key, err := c.key(ctx)
	if err != nil {
		return nil, fail("open", err)
	}
	cl, err := newClient(c, key)
	if err != nil {
		return nil, fail("open", err)
	}
	c.APIKey = "" // the client's signer has it, which nothing prints
	d := &driver{cfg: c, client: cl, opened: time.Now(), launched: map[string]launched{}}
	if d.account, err = cl.accountID(ctx, key); err != nil {
		cl.close()
		return nil, fail("open", err)
	}
	if c.ClusterMode == Instant {
		return clusterDriver{d}, nil
	}
	return d, nil
}

var (
	portForm    = regexp.MustCompile(`^[0-9]{1,5}/(tcp|http)$`)
	countryForm = regexp.MustCompile(`^[A-Z]{2}$`)
	versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)
	clockForm   = regexp.MustCompile(`^[0-9][a-z]$`)
)

// validate returns every fault at once.
func (c Config) validate() error {
	var faults []error
	require := func(good bool, format string, args ...any) {
		if !good {
			faults = append(faults, fmt.Errorf("%w: "+format, append([]any{gputrain.ErrInvalid}, args...)...))
		}
	}
	all := func(list []string, form *regexp.Regexp) bool {
		return !slices.ContainsFunc(list, func(s string) bool { return !form.MatchString(s) })
	}
	require(slices.Contains([]Cloud{"", Secure, Community, AllClouds}, c.Cloud), "Cloud is %q; it is secure, community or all", c.Cloud)
	require(slices.Contains([]ClusterMode{"", Individual, Instant}, c.ClusterMode), "ClusterMode is %q; it is individual or instant", c.ClusterMode)
	require(c.GlobalNetworking >= NetworkingAuto && c.GlobalNetworking <= NetworkingOff, "GlobalNetworking is %d", c.GlobalNetworking)
	require(!slices.ContainsFunc(c.DataCenterIDs, func(s string) bool { return strings.Count(s, "-") == 0 || strings.ContainsAny(s, "/, ") }), "DataCenterIDs is %q; they are like US-TX-3", c.DataCenterIDs)
	require(all(slices.Concat(c.CountryCodes, c.ExcludeCountryCodes), countryForm), "CountryCodes and ExcludeCountryCodes are two capital letters each: FR")
	require(!c.byCountry() || len(c.DataCenterIDs) == 0, "DataCenterIDs and countries are both set; a data centre has its country")
	require(c.MinDownloadMbps >= 0 && c.MinUploadMbps >= 0, "MinDownloadMbps and MinUploadMbps cannot be negative")
	require(!strings.ContainsAny(c.Image, " \t\r\n\x00"), "Image %q is not the name of an image", c.Image)
	require(slices.Contains([]string{"", "newest", "24.04", "22.04"}, c.Ubuntu), "Ubuntu is %q; the default image has 24.04 and 22.04", c.Ubuntu)
	require(c.MinCUDAVersion == "" || versionForm.MatchString(c.MinCUDAVersion), "MinCUDAVersion %q is not like 12.8", c.MinCUDAVersion)
	require(c.ContainerDiskGB >= 0, "ContainerDiskGB is %d", c.ContainerDiskGB)
	require(c.VolumeGB == -1 || c.VolumeGB == 0 || c.VolumeGB >= 10, "VolumeGB is %d; RunPod makes none below 10, and -1 is none", c.VolumeGB)
	require(c.VolumeMountPath == "" || strings.HasPrefix(c.VolumeMountPath, "/"), "VolumeMountPath %q is not absolute", c.VolumeMountPath)
	require(all(c.Ports, portForm), "Ports is %q; they are like 8888/http and 5000/tcp", c.Ports)
	require(c.CPUClock == "" || clockForm.MatchString(c.CPUClock), "CPUClock %q is not like 3c", c.CPUClock)
	require(c.BidMultiplier == 0 || c.BidMultiplier >= 1 && !math.IsInf(c.BidMultiplier, 0), "BidMultiplier is %v; a bid below the lowest that is taken gets nothing", c.BidMultiplier)
	require(c.ProvisionTimeout >= 0 && c.RequestTimeout >= 0, "a timeout is negative")
	require(isAddress(c.endpoint()), "Endpoint is not like %s", defaultEndpoint)
	require(isAddress(c.podEndpoint()), "PodEndpoint is not like %s", defaultEndpoint)
	if c.ClusterMode == Instant {
		require(!c.restricted() && c.Cloud != Community && c.GlobalNetworking != NetworkingOn && c.RegistryAuth == "" && !c.TerminateAfter,
			"ClusterMode is instant, which knows no countries, line speeds, community cloud, global networking, RegistryAuth or TerminateAfter")
	}
	if c.GlobalNetworking == NetworkingOn {
		require(!c.restricted() && c.Cloud != Community && !c.TerminateAfter,
			"GlobalNetworking is on, which knows no countries, line speeds, community cloud or TerminateAfter")
	}
	return errors.Join(faults...)
}

// clone copies what a caller could go on changing.
func (c Config) clone() Config {
	c.DataCenterIDs = slices.Clone(c.DataCenterIDs)
	c.CountryCodes = slices.Clone(c.CountryCodes)
	c.ExcludeCountryCodes = slices.Clone(c.ExcludeCountryCodes)
	c.Ports = slices.Clone(c.Ports)
	return c
}

func (c Config) byCountry() bool { return len(c.CountryCodes)+len(c.ExcludeCountryCodes) > 0 }

// restricted is whether hosts are chosen by what only GraphQL's create knows.
func (c Config) restricted() bool {
	return c.byCountry() || c.MinDownloadMbps > 0 || c.MinUploadMbps > 0
}

func (c Config) endpoint() string {
	return strings.TrimRight(cmp.Or(c.Endpoint, defaultEndpoint), "/")
}

func (c Config) podEndpoint() string {
	return strings.TrimRight(cmp.Or(c.PodEndpoint, defaultEndpoint), "/")
}

// isAddress is whether paths can be appended to a URL, which shows no secret.
func isAddress(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

func (c Config) clouds() []Cloud {
	switch {
	case c.Cloud == Community:
		return []Cloud{Community}
	case c.Cloud == AllClouds && c.ClusterMode != Instant && c.GlobalNetworking != NetworkingOn:
		return []Cloud{Secure, Community}
	}
	return []Cloud{Secure}
}

func (c Config) requestTimeout() time.Duration { return cmp.Or(c.RequestTimeout, 30*time.Second) }

func (c Config) provisionTimeout() time.Duration {
	return cmp.Or(c.ProvisionTimeout, gputrain.DefaultProvisionTimeout)
}

func (c Config) cpuFlavour() string { return "cpu" + cmp.Or(c.CPUClock, "3c") }

// image returns what a pod starts from.
func (c Config) image(nvidia bool) string {
	release := c.Ubuntu
	if release == "" || release == "newest" {
		release = newestUbuntu
	}
	switch {
	case c.Image != "":
		return c.Image
	case nvidia:
		return "nvidia/cuda:" + defaultCUDA + ".0-cudnn-runtime-ubuntu" + release
	}
	return "ubuntu:" + release
}

// minCUDA returns the least CUDA version that the driver of a host must know.
func (c Config) minCUDA(nvidia bool) string {
	switch {
	case !nvidia:
		return ""
	case c.MinCUDAVersion == "" && c.Image == "":
		return defaultCUDA
	}
	return c.MinCUDAVersion
}

func (c Config) ports() []string {
	ports := []string{"22/tcp"} // without which a pod has no SSH for ever
	for _, p := range c.Ports {
		if !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	return ports
}

// disk returns the size of a pod's disk in GB.
func (c Config) disk(cpu bool, wantGiB float64) int {
	size := cmp.Or(c.ContainerDiskGB, 50)
	if cpu && c.ContainerDiskGB == 0 {
		size = 20 // more is refused for the small flavours
	}
	return max(size, int(math.Ceil(wantGiB*(1<<30)/1e9)))
}
