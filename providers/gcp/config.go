package gcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Google Compute Engine. The zero value works where
// GOOGLE_APPLICATION_CREDENTIALS names a key with a project, on a machine of Google's,
// and where gcloud has logged in and GOOGLE_CLOUD_PROJECT is set.
type Config struct {
	// ProjectID is the project that pays. Empty means the GOOGLE_CLOUD_PROJECT variable,
	// then GCLOUD_PROJECT, then the credentials' own.
	ProjectID string
	// Credentials are a service account's key, or what gcloud keeps of a user: as JSON,
	// or as the path of a file with it. It may be a reference. Empty means Application
	// Default Credentials, and where Endpoint is set, or HTTPClient without the
	// GOOGLE_APPLICATION_CREDENTIALS variable, none: then whoever stands there is to
	// know who calls.
	Credentials gputrain.Secret

	// Region allows all zones of a region: "us-central1".
	Region string
	// Zone is where nodes are: "us-central1-a". With Region, too, it is only tried
	// first. Where both are empty nodes are where Spec.Regions allows, and without those
	// in us-central1-a.
	Zone string
	// MachineType offers one type only: "g2-standard-8", or for GPUs that are added to
	// machines of the N1 series "n1-standard-16". Empty means all that fit.
	MachineType string
	// Image is what nodes start from: "projects/P/global/images/family/F", or
	// "projects/P/global/images/NAME"; one with Google's guest agent. Empty means a Deep
	// Learning image with NVIDIA's driver and CUDA, and plain Ubuntu 24.04 where there is
	// no GPU.
	Image string
	// DiskSizeGB is the size of a node's disk in GiB, which Google calls GB, where
	// Spec.DiskGiB is zero. Zero means 200; the least is 10.
	DiskSizeGB int
	// DiskType is the kind of that disk. Empty means pd-balanced, and hyperdisk-balanced
	// for machines that take no other.
	DiskType string

	// Network is the VPC network: a name, or "projects/P/global/networks/N" for one of
	// another project. Empty means "default".
	Network string
	// Subnet is a subnetwork in the zone's region: a name, or
	// "projects/P/regions/R/subnetworks/S". Empty means the network's own.
	Subnet string
	// SourceRanges are the addresses that may reach the nodes' SSH server:
	// "203.0.113.0/24". None means all: only the pool's key lets anybody in.
	SourceRanges []string
	// NoFirewall makes no firewall rules, for networks that are somebody else's. They
	// have to let SSH in, and nodes reach each other.
	NoFirewall bool
	// PrivateIP gives nodes no public address. They are reached by their private one,
	// over a VPN or from within the network.
	PrivateIP bool
	// ServiceAccount is the identity that nodes have: an email address. With the
	// permission compute.instances.delete they end themselves by it when their pool is
	// gone. Empty means none.
	ServiceAccount string
	// SSHUser is whom the nodes' image is told to let in, never root. Empty means
	// "gputrain".
	SSHUser string
	// SSHPort is where the image's SSH server listens. Zero means 22.
	SSHPort int
	// TrustFirstContact takes the host key that a node shows at the first contact, for
	// images that do not publish theirs, and for organisations that forbid that.
	TrustFirstContact bool

	// InstanceTimeout is how long a node waits after its start to be taken over by its
	// pool; then it ends itself. Zero means 5 minutes. It does not bound how long a node
	// lives after that: see Spec.Lease and Spec.TTL.
	InstanceTimeout time.Duration
	// MaxRunDuration is how long Google itself lets a node run before it deletes it, from
	// 30 seconds to 120 days. Zero means ten minutes beyond Spec.TTL, and where there is
	// no TTL no limit.
	MaxRunDuration time.Duration
	// ThreadPoolSize is how many calls for different nodes are made at once. Zero means 8.
	ThreadPoolSize int
	// RequestTimeout bounds one attempt at a call of the API. Zero means 60 seconds.
	RequestTimeout time.Duration
	// NoPrices asks for no prices, which takes seconds and needs the Cloud Billing API.
	NoPrices bool

	// Endpoint replaces the addresses of Google's APIs, of Compute Engine as of Cloud
	// Billing: a proxy, a gateway, a test server. Nodes end themselves there, too. Empty
	// means Google's own.
	Endpoint string
	// HTTPClient makes the calls, by its transport. Nil means one with sane timeouts.
	HTTPClient *http.Client
}

const (
	providerName       = "gcp"
	computeEndpoint    = "https://compute.googleapis.com"
	billingEndpoint    = "https://cloudbilling.googleapis.com"
	defaultZone        = "us-central1-a"
	defaultNetwork     = "default"
	minDiskGB          = 10
	minRun, maxRun     = 30 * time.Second, 120 * 24 * time.Hour
	afterTTL           = 10 * time.Minute
	projectVariable    = "GOOGLE_CLOUD_PROJECT"
	oldProjectVariable = "GCLOUD_PROJECT"
)

var _ gputrain.Provider = Config{}

// Name returns "gcp".
func (Config) Name() string { return providerName }

// Open checks the parameters and finds the credentials and the project. It calls nothing
// of the API.
func (c Config) Open(ctx context.Context) (gputrain.Driver, error) {
	if err := c.validate(); err != nil {
		return nil, fail("open", err)
	}
	base, closeBase := c.transport()
	d, err := c.open(ctx, base)
	if err != nil {
		closeBase()
		return nil, fail("open", err)
	}
	d.close = closeBase
	return d, nil
}

func (c Config) open(ctx context.Context, base http.RoundTripper) (*driver, error) {
	id, err := c.identity(ctx, base)
	if err != nil {
		return nil, err
	}
	c.ProjectID = cmp.Or(c.ProjectID, os.Getenv(projectVariable), os.Getenv(oldProjectVariable))
	if c.ProjectID == "" && id != nil {
		c.ProjectID = id.project(ctx)
	}
	if c.ProjectID == "" {
		return nil, &gputrain.Error{Kind: gputrain.ErrInvalid, Err: errors.New("there is no project"),
			Hint: "set " + projectVariable + " or Config.ProjectID"}
	}
	if !projectForm.MatchString(c.ProjectID) {
		return nil, fmt.Errorf("%w: %q is not the ID of a project", gputrain.ErrInvalid, c.ProjectID)
	}
	return newDriver(ctx, c.complete(), base, id)
}

// complete returns the configuration with its defaults, without the credentials, which a
// driver must not hold where something could print them.
func (c Config) complete() Config {
	c.Credentials = ""
	c.DiskSizeGB = cmp.Or(c.DiskSizeGB, 200)
	c.Network = cmp.Or(c.Network, defaultNetwork)
	c.SourceRanges = slices.Clone(c.SourceRanges)
	if len(c.SourceRanges) == 0 {
		c.SourceRanges = []string{"0.0.0.0/0"}
	}
	c.SSHUser = cmp.Or(c.SSHUser, "gputrain")
	c.SSHPort = cmp.Or(c.SSHPort, 22)
	c.InstanceTimeout = cmp.Or(c.InstanceTimeout, 5*time.Minute)
	c.ThreadPoolSize = cmp.Or(c.ThreadPoolSize, 8)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, time.Minute)
	c.Endpoint = strings.TrimRight(c.Endpoint, "/")
	return c
}

var (
	projectForm = regexp.MustCompile(`^(?:[a-z0-9.-]+:)?[a-z0-9][-a-z0-9]{0,61}[a-z0-9]$`)
	regionForm  = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+$`)
	zoneForm    = regexp.MustCompile(`^([a-z]+-[a-z]+[0-9]+)-[a-z][a-z0-9]*$`)
	nameForm    = regexp.MustCompile(`^[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$`)
	networkForm = regexp.MustCompile(`^(?:projects/[^/]+/global/networks/)?[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$`)
	subnetForm  = regexp.MustCompile(`^(?:projects/[^/]+/regions/[^/]+/subnetworks/)?[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$`)
	imageForm   = regexp.MustCompile(`^projects/([^/\s]+)/global/images/(family/)?([^/\s]+)$`)
	userForm    = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	emailForm   = regexp.MustCompile(`^[^@\s'"]+@[^@\s'"]+$`)
)

// validate returns every fault at once.
func (c Config) validate() error {
	var faults []error
	require := func(good bool, format string, args ...any) {
		if !good {
			faults = append(faults, fmt.Errorf("%w: "+format, append([]any{gputrain.ErrInvalid}, args...)...))
		}
	}
	is := func(form *regexp.Regexp, s string) bool { return s == "" || form.MatchString(s) }
	require(is(projectForm, c.ProjectID), "ProjectID %q is not the ID of a project", c.ProjectID)
	require(is(regionForm, c.Region), "Region %q is not like us-central1", c.Region)
	require(is(zoneForm, c.Zone), "Zone %q is not like us-central1-a", c.Zone)
	require(c.Region == "" || c.Zone == "" || regionOf(c.Zone) == c.Region, "Zone %s is not in Region %s", c.Zone, c.Region)
	require(is(nameForm, c.MachineType), "MachineType %q is not like g2-standard-8", c.MachineType)
	require(is(imageForm, c.Image), "Image %q is neither like projects/P/global/images/family/F nor like projects/P/global/images/NAME", c.Image)
	require(c.DiskSizeGB == 0 || c.DiskSizeGB >= minDiskGB && c.DiskSizeGB <= 65536, "DiskSizeGB is %d; it is from %d to 65536", c.DiskSizeGB, minDiskGB)
	require(is(nameForm, c.DiskType), "DiskType %q is not like pd-balanced", c.DiskType)
	require(is(networkForm, c.Network), "Network %q is neither a name nor like projects/P/global/networks/N", c.Network)
	require(is(subnetForm, c.Subnet), "Subnet %q is neither a name nor like projects/P/regions/R/subnetworks/S", c.Subnet)
	for _, r := range c.SourceRanges {
		_, err := netip.ParsePrefix(r)
		require(err == nil, "SourceRanges has %q, which is not like 203.0.113.0/24", r)
	}
	require(is(emailForm, c.ServiceAccount), "ServiceAccount %q is not an email address", c.ServiceAccount)
	require(is(userForm, c.SSHUser) && c.SSHUser != "root", "SSHUser %q is not the name of a user other than root", c.SSHUser)
	require(c.SSHPort >= 0 && c.SSHPort < 1<<16, "SSHPort is %d", c.SSHPort)
	require(c.InstanceTimeout == 0 || c.InstanceTimeout >= time.Second, "InstanceTimeout is %v; the least is a second", c.InstanceTimeout)
	require(c.MaxRunDuration == 0 || c.MaxRunDuration >= minRun && c.MaxRunDuration <= maxRun, "MaxRunDuration is %v; it is from 30s to 120 days", c.MaxRunDuration)
	require(c.ThreadPoolSize >= 0, "ThreadPoolSize is %d", c.ThreadPoolSize)
	require(c.RequestTimeout == 0 || c.RequestTimeout >= time.Second, "RequestTimeout is %v; the least is a second", c.RequestTimeout)
	require(!strings.ContainsAny(c.Endpoint, "'\"\\ \n\x00?#"), "Endpoint is not like %s", computeEndpoint)
	var endpoint cloud.Faults
	endpoint.Endpoint("Endpoint", c.Endpoint, computeEndpoint)
	return errors.Join(append(faults, endpoint.Err())...)
}

// regionOf returns the region of a zone.
func regionOf(zone string) string {
	if m := zoneForm.FindStringSubmatch(zone); m != nil {
		return m[1]
	}
	return ""
}

func (c Config) compute() string { return cmp.Or(c.Endpoint, computeEndpoint) }
func (c Config) billing() string { return cmp.Or(c.Endpoint, billingEndpoint) }

// diskGB is the size of the disk that a node gets.
func (c Config) diskGB(spec gputrain.Spec) int64 {
	if spec.DiskGiB <= 0 {
		return int64(c.DiskSizeGB)
	}
	return max(roundUp(spec.DiskGiB), minDiskGB)
}
