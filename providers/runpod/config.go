package runpod

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cudaimage"
)

// Config rents pods from RunPod. The zero value works if RUNPOD_API_KEY is set.
type Config struct {
	// APIKey authenticates every call. It may be a reference. If empty, it is the
	// RUNPOD_API_KEY variable, then the key of runpodctl in ~/.runpod/config.toml
	// (its profile [default]).
	APIKey driver.Secret

	// Cloud chooses the hosts. Empty means Secure.
	Cloud Cloud
	// ClusterMode chooses how nodes are rented. Empty means Individual.
	ClusterMode ClusterMode
	// GlobalNetworking joins the pods by RunPod's private network, about 100 Mbit/s across data
	// centres. Spec.Network of NetworkPrivate rejects what it cannot join. Auto, the zero value, joins them if possible: for two nodes and more with NVIDIA
	// GPUs, on demand, in the secure cloud. Joined pods are in data centres with global
	// networking.
	GlobalNetworking Networking
	// DataCenterIDs are the data centres for pods: "US-TX-3". Empty means anywhere.
	DataCenterIDs []string
	// CountryCodes are the countries for pods: "FR". Empty means all. CPU pods and global
	// networking have no countries.
	CountryCodes []string
	// ExcludeCountryCodes are countries without pods.
	ExcludeCountryCodes []string
	// MinDownloadMbps and MinUploadMbps exclude hosts with slower lines. Zero excludes none.
	MinDownloadMbps, MinUploadMbps int

	// Image is the image of the pods, of the Debian, Alpine or Red Hat family. If empty, it is
	// the spec's Image.Docker, or else CUDA 12.8 with cuDNN on Ubuntu, or plain Ubuntu without
	// NVIDIA GPUs.
	Image string
	// Ubuntu is the release of the default image: "24.04", "22.04", "20.04". Empty, or "newest",
	// means 24.04.
	Ubuntu string
	// MinCUDAVersion excludes hosts with an older driver: "12.4". If empty, it is the version in
	// the image's name ("cuda:12.8.0", "cu126"), or nothing if that has none.
	MinCUDAVersion string
	// RegistryAuth is the name of a registry credential of the account, for private images. A
	// named credential must exist. If empty, it is "docker hub", which may be missing. "none"
	// pulls images without a credential.
	RegistryAuth string

	// ContainerDiskGB is the size of a pod's disk, at least. Zero means Spec.DiskGiB, or 50 if
	// that is zero too, and 20 for pods without GPU. RunPod has been seen to refuse 10 GB as
	// "no longer any instances available", where 20 worked.
	ContainerDiskGB int
	// VolumeGB is the size of the host-local volume of a GPU pod, beside its disk, at least 10.
	// Zero means 20, and -1 none. A pod with a network volume, by Spec.Mounts, has none, and
	// neither has a member of an instant cluster.
	VolumeGB int
	// VolumeMountPath is the mount point of that volume. Empty means /workspace.
	VolumeMountPath string
	// Ports are published beside SSH's: "8888/http", "5000/tcp".
	Ports []string
	// CPUClock is the flavour of pods without GPU: "3c", "3g", "5c". Empty means "3c".
	CPUClock string

	// BidMultiplier times RunPod's lowest bid is the bid for a spot pod. Zero means 1.
	BidMultiplier float64
	// TerminateAfter makes RunPod itself end on-demand pods, too, ten minutes after the pool's
	// TTL. The old API then creates them, which has no global networking. It always applies to
	// spot pods, and never to CPU pods and clusters.
	TerminateAfter bool

	// ProvisionTimeout bounds the time until a pod's SSH answers, including the pull of its
	// image. Zero means gputrain.DefaultProvisionTimeout.
	ProvisionTimeout time.Duration
	// BootstrapTimeout bounds the preparation of a node from then on, all phases of the Spec's Image together. Zero means
	// that only Image.PhaseTimeout bounds it.
	BootstrapTimeout time.Duration
	// InstanceTimeout bounds how long a pod whose SSH server is up waits for its pool; then it deletes itself. One that has
	// none ProvisionTimeout after its start waits as much longer. Zero means 5 minutes. Members of a cluster cannot end
	// themselves.
	InstanceTimeout time.Duration
	// RequestTimeout bounds one API call. Zero means 30 seconds. The old API gets twice that.
	RequestTimeout time.Duration
	// Endpoint replaces https://api.runpod.io: a proxy, a test server. If empty, it is RunPod's
	// own.
	Endpoint string
	// PodEndpoint is the address that pods call to end themselves. Pods call it from RunPod's
	// network: they cannot reach a proxy on the program's computer or in its network. If empty,
	// it is https://api.runpod.io, whatever Endpoint is.
	PodEndpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

// A Cloud is a group of hosts.
type Cloud string

const (
	// Secure rents in RunPod's own data centres.
	Secure Cloud = "secure"
	// Community rents from vetted hosts of others: cheaper, slower to start, less reliable.
	Community Cloud = "community"
	// AllClouds rents in both.
	AllClouds Cloud = "all"
)

// A ClusterMode chooses how the nodes of a pool are rented.
type ClusterMode string

const (
	// Individual rents one pod for each node.
	Individual ClusterMode = "individual"
	// Instant rents all nodes as one Instant Cluster: in one data centre, with 1600 to 3200
	// Gbit/s between them. Its nodes begin and end together.
	Instant ClusterMode = "instant"
)

// Networking decides whether a private network joins the pods.
type Networking int

const (
	// NetworkingAuto joins pods if possible.
	NetworkingAuto Networking = iota
	// NetworkingOn offers only pods that can be joined.
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
	noRegistry      = "none"
)

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "runpod".
func (Config) Name() string { return providerName }

// Open checks the parameters, and asks the API for the key's account. It rents nothing.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	a, err := c.clone().open(ctx)
	if err != nil {
		return nil, cloud.Fail(providerName, "open", err, (*api)(nil).Classify)
	}
	return newDriver(a), nil
}

func (c Config) open(ctx context.Context) (*api, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	key, err := c.key(ctx)
	if err != nil {
		return nil, err
	}
	client, err := newClient(c, key)
	if err != nil {
		return nil, err
	}
	c.APIKey = "" // the client's signer has it, which is never printed
	a := newAPI(c, client)
	if a.account, err = client.accountID(ctx, key); err != nil {
		client.close()
		return nil, err
	}
	return a, nil
}

var (
	portForm    = regexp.MustCompile(`^[0-9]{1,5}/(tcp|http)$`)
	countryForm = regexp.MustCompile(`^[A-Z]{2}$`)
	versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)
	clockForm   = regexp.MustCompile(`^[0-9][a-z]$`)
)

// validate reports all faults at once.
func (c Config) validate() error {
	var faults cloud.Faults
	require := faults.Require
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
	require(!strings.ContainsAny(c.Image, " \t\r\n\x00"), "Image %q is not an image name", c.Image)
	require(slices.Contains([]string{"", "newest", "24.04", "22.04", "20.04"}, c.Ubuntu), "Ubuntu is %q; the default image has 24.04, 22.04 and 20.04", c.Ubuntu)
	require(c.MinCUDAVersion == "" || versionForm.MatchString(c.MinCUDAVersion), "MinCUDAVersion %q is not like 12.8", c.MinCUDAVersion)
	require(c.ContainerDiskGB >= 0, "ContainerDiskGB is %d", c.ContainerDiskGB)
	require(c.VolumeGB == -1 || c.VolumeGB == 0 || c.VolumeGB >= 10, "VolumeGB is %d; the minimum is 10, and -1 means none", c.VolumeGB)
	require(c.VolumeMountPath == "" || strings.HasPrefix(c.VolumeMountPath, "/"), "VolumeMountPath %q is not absolute", c.VolumeMountPath)
	require(all(c.Ports, portForm), "Ports is %q; they are like 8888/http and 5000/tcp", c.Ports)
	require(c.CPUClock == "" || clockForm.MatchString(c.CPUClock), "CPUClock %q is not like 3c", c.CPUClock)
	require(c.BidMultiplier == 0 || c.BidMultiplier >= 1 && !math.IsInf(c.BidMultiplier, 0), "BidMultiplier is %v; RunPod refuses a bid below its lowest", c.BidMultiplier)
	require(c.ProvisionTimeout >= 0 && c.BootstrapTimeout >= 0 && c.RequestTimeout >= 0, "a timeout is negative")
	require(c.InstanceTimeout == 0 || c.InstanceTimeout >= time.Second, "InstanceTimeout is %v; it is a second at least", c.InstanceTimeout)
	faults.Endpoint("Endpoint", c.endpoint(), defaultEndpoint)
	faults.Endpoint("PodEndpoint", c.podEndpoint(), defaultEndpoint)
	if c.ClusterMode == Instant {
		require(!c.restricted() && c.Cloud != Community && c.GlobalNetworking != NetworkingOn && (c.RegistryAuth == "" || c.RegistryAuth == noRegistry) && !c.TerminateAfter,
			"ClusterMode is instant, which supports no countries, line speeds, community cloud, global networking, RegistryAuth or TerminateAfter")
	}
	if c.GlobalNetworking == NetworkingOn {
		require(!c.restricted() && c.Cloud != Community && !c.TerminateAfter,
			"GlobalNetworking is on, which supports no countries, line speeds, community cloud or TerminateAfter")
	}
	return faults.Err()
}

// clone copies everything that a caller could go on changing.
func (c Config) clone() Config {
	c.DataCenterIDs = slices.Clone(c.DataCenterIDs)
	c.CountryCodes = slices.Clone(c.CountryCodes)
	c.ExcludeCountryCodes = slices.Clone(c.ExcludeCountryCodes)
	c.Ports = slices.Clone(c.Ports)
	return c
}

func (c Config) byCountry() bool { return len(c.CountryCodes)+len(c.ExcludeCountryCodes) > 0 }

// restricted reports whether hosts are chosen by criteria that only GraphQL's create has.
func (c Config) restricted() bool {
	return c.byCountry() || c.MinDownloadMbps > 0 || c.MinUploadMbps > 0
}

func (c Config) endpoint() string {
	return strings.TrimRight(cmp.Or(c.Endpoint, defaultEndpoint), "/")
}

func (c Config) podEndpoint() string {
	return strings.TrimRight(cmp.Or(c.PodEndpoint, defaultEndpoint), "/")
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
	return cmp.Or(c.ProvisionTimeout, driver.DefaultProvisionTimeout)
}

func (c Config) instanceTimeout() time.Duration { return cmp.Or(c.InstanceTimeout, 5*time.Minute) }

func (c Config) cpuFlavour() string { return "cpu" + cmp.Or(c.CPUClock, "3c") }

// with returns the configuration for nodes of a spec, which may name the image that Config leaves open.
func (c Config) with(spec driver.Query) Config {
	c.Image = cmp.Or(c.Image, spec.Image)
	return c
}

// image returns the image of a pod.
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

// minCUDA returns the lowest CUDA version that a host's driver must support.
func (c Config) minCUDA(nvidia bool) string {
	if !nvidia {
		return ""
	}
	return cmp.Or(c.MinCUDAVersion, cudaimage.Version(c.image(nvidia)))
}

func (c Config) ports() []string {
	ports := []string{"22/tcp"} // without it a pod never has SSH
	for _, p := range c.Ports {
		if !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	return ports
}

// disk returns the size of a pod's disk in GB.
func (c Config) disk(cpu bool, wantGiB float64) int {
	size := max(c.ContainerDiskGB, int(math.Ceil(wantGiB*gib/1e9)))
	if size == 0 && cpu {
		return 20 // RunPod refuses more for the small flavours
	}
	return cmp.Or(size, 50)
}

// volume returns the size of the host-local volume of a pod in GB, or 0 if it has none.
func (c Config) volume(at placement, spec driver.Query) int {
	if c.VolumeGB < 0 || at.cpu() || at.mode != Individual || len(spec.Mounts) > 0 {
		return 0
	}
	return cmp.Or(c.VolumeGB, 20)
}
