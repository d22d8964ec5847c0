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

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from Google Compute Engine. The zero value works if
// GOOGLE_APPLICATION_CREDENTIALS names a key with a project, on a machine of Google's, or if
// gcloud has logged in and GOOGLE_CLOUD_PROJECT is set.
type Config struct {
	// ProjectID is the project that pays. If empty, it is the GOOGLE_CLOUD_PROJECT variable,
	// then GCLOUD_PROJECT, then the credentials' own.
	ProjectID string
	// Credentials are a service account's key, or the file that gcloud keeps for a user: as
	// JSON or as a path. They may be a reference. If empty, Application Default Credentials are
	// used. There are none if Endpoint is set, or if HTTPClient is set without the
	// GOOGLE_APPLICATION_CREDENTIALS variable: then that server or client must identify the
	// caller.
	Credentials driver.Secret

	// Region allows all zones of a region: "us-central1".
	Region string
	// Zone is the zone of the nodes: "us-central1-a". If Region is set too, Zone is only tried
	// first. If both are empty, nodes are in the zones that Spec.Regions allows, or, without
	// those, in us-central1-a.
	Zone string
	// MachineType restricts the offers to one type: "g2-standard-8", or "n1-standard-16" for
	// GPUs that are added to machines of the N1 series. If empty, all types that fit are
	// offered.
	MachineType string
	// Image is the image that nodes start from: "projects/P/global/images/family/F", or
	// "projects/P/global/images/NAME". It needs Google's guest agent. If empty, it is a Deep
	// Learning image with NVIDIA's driver and CUDA, or plain Ubuntu 24.04 for pools without
	// GPUs.
	Image string
	// DiskSizeGB is the size of a node's disk in GiB, which Google calls GB, if Spec.DiskGiB is
	// zero. Zero means 200; the minimum is 10.
	DiskSizeGB int
	// DiskType is the type of that disk. If empty, it is pd-balanced, or hyperdisk-balanced for
	// machines that take no other.
	DiskType string

	// Network is the VPC network: a name, or "projects/P/global/networks/N" for a network of
	// another project. If empty, it is "default".
	Network string
	// Subnet is a subnetwork in the zone's region: a name, or
	// "projects/P/regions/R/subnetworks/S". If empty, it is the network's own.
	Subnet string
	// SourceRanges are the addresses that may reach the nodes' SSH server: "203.0.113.0/24".
	// None means all addresses; a login still needs the pool's key.
	SourceRanges []string
	// NoFirewall makes no firewall rules, for networks that another team manages. Their rules
	// must let SSH in and let nodes reach each other.
	NoFirewall bool
	// PrivateIP gives nodes no public address. The caller reaches them by their private one,
	// over a VPN or from within the network.
	PrivateIP bool
	// Reservation is a reservation of the zone that all nodes run in: its name, or
	// "projects/P/reservations/NAME" for one that another project shares. It needs Zone, and
	// MachineType should name the reservation's: Google refuses others at the launch. Empty means
	// none; Google then uses open reservations that fit.
	Reservation string
	// ServiceAccount is the identity of the nodes: an email address. If it has the permission
	// compute.instances.delete, nodes delete themselves when their pool is gone. If empty, nodes
	// have none, not even the project's default one, and cannot delete themselves.
	ServiceAccount string
	// SSHUser is the login user of the nodes' image, never root. If empty, it is "gputrain".
	SSHUser string
	// SSHPort is the port of the image's SSH server. Zero means 22.
	SSHPort int
	// TrustFirstContact accepts the host key that a node shows at the first contact, for images
	// that do not publish their keys and organisations that forbid publishing.
	TrustFirstContact bool

	// InstanceTimeout bounds how long a started node waits for its pool, and how long it goes on
	// after its lease without a ServiceAccount; then it shuts itself down. Zero means 5 minutes. It
	// does not bound a node's life before that: see Spec.Lease and Spec.TTL.
	InstanceTimeout time.Duration
	// MaxRunDuration is the run time after which Google itself deletes a node, from 30 seconds
	// to 120 days. Zero means ten minutes beyond Spec.TTL, or no limit without a TTL.
	MaxRunDuration time.Duration
	// ThreadPoolSize bounds the calls for different nodes at the same time. Zero means 8.
	ThreadPoolSize int
	// RequestTimeout bounds one attempt at an API call. Zero means 60 seconds.
	RequestTimeout time.Duration
	// NoPrices skips the request for prices, which takes seconds and needs the Cloud Billing
	// API.
	NoPrices bool

	// Endpoint replaces the addresses of Google's APIs, Compute Engine and Cloud Billing: a
	// proxy, a gateway, a test server. Nodes use it too, to delete themselves. If empty, they
	// are Google's own.
	Endpoint string
	// HTTPClient makes the calls with its transport. Nil means one with sane timeouts.
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

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "gcp".
func (Config) Name() string { return providerName }

// Open checks the parameters and finds the credentials and the project. It makes no API call.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
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

func (c Config) open(ctx context.Context, base http.RoundTripper) (*gcpDriver, error) {
	id, err := c.identity(ctx, base)
	if err != nil {
		return nil, err
	}
	c.ProjectID = cmp.Or(c.ProjectID, os.Getenv(projectVariable), os.Getenv(oldProjectVariable))
	if c.ProjectID == "" && id != nil {
		c.ProjectID = id.project(ctx)
	}
	if c.ProjectID == "" {
		return nil, &driver.Error{Kind: driver.ErrInvalid, Err: errors.New("no project is set"),
			Hint: "set " + projectVariable + " or Config.ProjectID"}
	}
	if !projectForm.MatchString(c.ProjectID) {
		return nil, fmt.Errorf("%w: %q is not the ID of a project", driver.ErrInvalid, c.ProjectID)
	}
	return newDriver(ctx, c.complete(), base, id)
}

// complete returns the configuration with its defaults and without the credentials: a driver
// must not hold those in a field that could be printed.
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
	reserveForm = regexp.MustCompile(`^(?:projects/[^/\s]+/reservations/)?[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$`)
	emailForm   = regexp.MustCompile(`^[^@\s'"]+@[^@\s'"]+$`)
)

// validate reports all faults at once.
func (c Config) validate() error {
	var faults cloud.Faults
	require := faults.Require
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
	require(is(reserveForm, c.Reservation), "Reservation %q is neither a name nor like projects/P/reservations/NAME", c.Reservation)
	require(c.Reservation == "" || c.Zone != "" && c.Region == "", "Reservation is set without Zone, or with Region: a reservation belongs to a zone")
	require(is(emailForm, c.ServiceAccount), "ServiceAccount %q is not an email address", c.ServiceAccount)
	require(is(userForm, c.SSHUser) && c.SSHUser != "root", "SSHUser %q is not the name of a user other than root", c.SSHUser)
	require(c.SSHPort >= 0 && c.SSHPort < 1<<16, "SSHPort is %d", c.SSHPort)
	faults.Timeout("InstanceTimeout", c.InstanceTimeout)
	require(c.MaxRunDuration == 0 || c.MaxRunDuration >= minRun && c.MaxRunDuration <= maxRun, "MaxRunDuration is %v; it is from 30s to 120 days", c.MaxRunDuration)
	require(c.ThreadPoolSize >= 0, "ThreadPoolSize is %d", c.ThreadPoolSize)
	faults.Timeout("RequestTimeout", c.RequestTimeout)
	require(!strings.ContainsAny(c.Endpoint, "'\"\\ \n\x00?#"), "Endpoint is not like %s", computeEndpoint)
	faults.Endpoint("Endpoint", c.Endpoint, computeEndpoint)
	return faults.Err()
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

// diskType returns the type of a node's disk, for machines of a family.
func (c Config) diskType(family string) string {
	switch {
	case c.DiskType != "":
		return c.DiskType
	case isHyperdisk(family):
		return "hyperdisk-balanced"
	}
	return "pd-balanced"
}

// diskGB returns the size of a node's disk. An image can need more.
func (c Config) diskGB(spec driver.Query) int64 {
	if spec.DiskGiB <= 0 {
		return int64(c.DiskSizeGB)
	}
	return max(roundUp(spec.DiskGiB), minDiskGB)
}
