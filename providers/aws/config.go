package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config rents from EC2. The zero value works when AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY are set, or the AWS command line does.
type Config struct {
	// AccessKeyID, SecretAccessKey and, for temporary credentials, SessionToken sign every
	// call. They may be references. If empty, the AWS command line's own are used: the
	// variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, a web identity,
	// ~/.aws with SSO and processes, or the role of the machine that the program runs on.
	AccessKeyID, SecretAccessKey, SessionToken driver.Secret
	// Profile is the profile of ~/.aws to use. If empty, it is AWS_PROFILE, then "default".
	Profile string
	// Region is the region of the nodes. If empty, it is AWS_REGION, AWS_DEFAULT_REGION or the
	// profile's, then us-east-1.
	Region string

	// AMI is the image that nodes start from. It needs cloud-init and an SSH server. If empty,
	// it is Canonical's Ubuntu, AWS's Deep Learning Base image for NVIDIA GPUs, or its Neuron
	// image for Trainium and Inferentia.
	AMI string
	// UbuntuVersion is the release of the default images: "24.04", "22.04" or, without
	// accelerators, "20.04". If empty, it is 24.04.
	UbuntuVersion string
	// Username is the user to log in as. If empty, it is the image's: "ubuntu", or "ec2-user"
	// on Amazon Linux.
	Username string
	// DiskGB is the size of a node's disk if Spec.DiskGiB is zero. Spec.DiskGiB comes on top of
	// what the image takes. EC2's GB are GiB. A larger image gets a larger disk. Zero means
	// 100.
	DiskGB int

	// SubnetID is the subnet of the nodes, which also fixes their zone. If empty, nodes use the
	// subnets of the default VPC, in any zone with room.
	SubnetID string
	// SecurityGroupID is the nodes' security group. It must let this program in at port 22, and
	// the nodes to each other. If empty, the pool makes one.
	SecurityGroupID string
	// SSHFrom are the networks that the pool's own security group lets in at port 22, such as
	// "203.0.113.0/24". If empty, only the address of this program is let in.
	SSHFrom []string
	// AddressURL is a server that answers with the caller's address. If empty, it is
	// https://checkip.amazonaws.com/; if Endpoint is set, no server is asked, and the address
	// is the local one that reaches Endpoint.
	AddressURL string
	// ImportKeyPair also registers the pool's public key as an EC2 key pair, for accounts whose
	// rules require one. Nodes get the key by cloud-init in any case.
	ImportKeyPair bool
	// ClusterPlacement puts the nodes of a pool close to each other, in a cluster placement
	// group: one zone, less delay, less capacity. If the group has no room, a node is launched
	// outside it, in the same zone.
	ClusterPlacement bool

	// CapacityReservationID is a capacity reservation, such as "cr-0123456789abcdef0", in which
	// all nodes run. It needs SubnetID, as a reservation belongs to a zone. Name its instance type
	// in Spec.InstanceTypes: EC2 refuses others at the launch. Empty means none.
	CapacityReservationID string
	// CapacityBlock says that CapacityReservationID is a capacity block for machine learning, which
	// is paid in advance. Its machines cost nothing more by the hour, and EC2 ends them before the
	// block ends.
	CapacityBlock bool
	// CapacityReservationPreference is "open", which runs nodes in open reservations of the account
	// that fit, or "none", which leaves those to others. If empty, it is EC2's own: open. It must be
	// empty if CapacityReservationID is set.
	CapacityReservationPreference string

	// InstanceProfileARN is the ARN of an instance profile that gives nodes permissions in AWS. If
	// empty, nodes have none: no profile is made or attached unless this field asks for it. "auto"
	// makes a profile with a role for the pool, with the permissions in InstanceProfilePolicy, and
	// removes both with the pool.
	InstanceProfileARN string
	// InstanceProfilePolicy is an IAM policy document, in JSON, for "auto".
	InstanceProfilePolicy string

	// AllocationStrategy chooses the zone of a spot node. Empty means PriceCapacityOptimized.
	AllocationStrategy AllocationStrategy
	// ExcludeBurstable leaves out types with shared processors: t3, t4g.
	ExcludeBurstable bool

	// InstanceTimeout bounds how long a started node waits for its pool; then it shuts itself
	// down. Zero means 5 minutes. It does not bound a node's life after that: see Spec.Lease
	// and Spec.TTL.
	InstanceTimeout time.Duration
	// RequestTimeout bounds one attempt at an API call. Zero means 30 seconds.
	RequestTimeout time.Duration
	// Endpoint replaces the addresses of all services, for a gateway or a test server. If
	// empty, AWS_ENDPOINT_URL and its kin apply, then AWS's own addresses.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts, which uses AWS_CA_BUNDLE.
	// If AWS_CA_BUNDLE is set, such a client always looks for the credentials.
	HTTPClient *http.Client
}

// An AllocationStrategy chooses the zone of a spot node.
type AllocationStrategy string

const (
	// PriceCapacityOptimized takes the cheapest of the zones that are least likely to interrupt
	// soon.
	PriceCapacityOptimized AllocationStrategy = "price-capacity-optimized"
	// CapacityOptimized takes the zone that is least likely to interrupt.
	CapacityOptimized AllocationStrategy = "capacity-optimized"
	// CapacityOptimizedPrioritized does the same, and prefers the cheaper of equals.
	CapacityOptimizedPrioritized AllocationStrategy = "capacity-optimized-prioritized"
	// Diversified takes any zone.
	Diversified AllocationStrategy = "diversified"
	// LowestPrice takes the cheapest zone, which is the first to interrupt.
	LowestPrice AllocationStrategy = "lowest-price"
)

const (
	providerName  = "aws"
	defaultRegion = "us-east-1"
	autoProfile   = "auto"
	newestUbuntu  = "24.04"
)

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "aws".
func (Config) Name() string { return providerName }

// Open asks AWS for the account of the credentials. It rents nothing.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	c = c.complete()
	if err := c.validate(); err != nil {
		return nil, fail("open", err)
	}
	cl, err := newClient(ctx, c)
	if err != nil {
		return nil, fail("open", err)
	}
	c.AccessKeyID, c.SecretAccessKey, c.SessionToken = "", "", "" // the client has them, in a form that is never printed
	d := newDriver(c, cl)
	if d.account, err = cl.accountID(ctx); err != nil {
		d.Close()
		return nil, fail("open", err)
	}
	return d, nil
}

// complete returns a copy of the configuration with its defaults, except the region.
func (c Config) complete() Config {
	c.UbuntuVersion = cmp.Or(c.UbuntuVersion, newestUbuntu)
	c.DiskGB = cmp.Or(c.DiskGB, 100)
	c.AllocationStrategy = cmp.Or(c.AllocationStrategy, PriceCapacityOptimized)
	c.InstanceTimeout = cmp.Or(c.InstanceTimeout, 5*time.Minute)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 30*time.Second)
	c.Endpoint = strings.TrimRight(c.Endpoint, "/")
	if c.AddressURL == "" && c.Endpoint == "" {
		c.AddressURL = "https://checkip.amazonaws.com/"
	}
	c.SSHFrom = slices.Clone(c.SSHFrom)
	return c
}

var (
	regionForm  = regexp.MustCompile(`^[a-z]{2,}(-[a-z0-9]+)+-[0-9]+$`)
	imageForm   = regexp.MustCompile(`^ami-[0-9a-f]{8,17}$`)
	subnetForm  = regexp.MustCompile(`^subnet-[0-9a-f]{8,17}$`)
	groupForm   = regexp.MustCompile(`^sg-[0-9a-f]{8,17}$`)
	reserveForm = regexp.MustCompile(`^cr-[0-9a-f]{8,17}$`)
	profileForm = regexp.MustCompile(`^arn:[a-z-]+:iam::[0-9]{12}:instance-profile/.+$`)
	userForm    = regexp.MustCompile(`^[a-z_][a-z0-9_-]*$`)
	urlForm     = regexp.MustCompile(`^https?://[^\s'"\\]+$`)
)

// validate reports all faults at once.
func (c Config) validate() error {
	var faults cloud.Faults
	require := faults.Require
	fits := func(field, value string, form *regexp.Regexp, like string) {
		require(value == "" || form.MatchString(value), "%s %q is not like %s", field, value, like)
	}
	require((c.AccessKeyID == "") == (c.SecretAccessKey == ""), "only one of AccessKeyID and SecretAccessKey is set")
	require(c.SessionToken == "" || c.AccessKeyID != "", "SessionToken is set without AccessKeyID")
	require(c.Profile == "" || c.AccessKeyID == "", "Profile and AccessKeyID are both set")
	fits("Region", c.Region, regionForm, "us-east-1")
	fits("AMI", c.AMI, imageForm, "ami-0123456789abcdef0")
	fits("SubnetID", c.SubnetID, subnetForm, "subnet-0123456789abcdef0")
	fits("SecurityGroupID", c.SecurityGroupID, groupForm, "sg-0123456789abcdef0")
	fits("Username", c.Username, userForm, "ubuntu")
	fits("CapacityReservationID", c.CapacityReservationID, reserveForm, "cr-0123456789abcdef0")
	require(c.CapacityReservationID == "" || c.SubnetID != "", "CapacityReservationID is set without SubnetID: a reservation belongs to a zone")
	require(!c.CapacityBlock || c.CapacityReservationID != "", "CapacityBlock is set without CapacityReservationID")
	require(slices.Contains([]string{"", "open", "none"}, c.CapacityReservationPreference), "CapacityReservationPreference is %q; it is open or none", c.CapacityReservationPreference)
	require(c.CapacityReservationPreference == "" || c.CapacityReservationID == "", "CapacityReservationPreference and CapacityReservationID are both set")
	at, err := url.Parse(c.Endpoint)
	good := err == nil && at.User == nil && at.RawQuery == "" && urlForm.MatchString(c.Endpoint)
	require(c.Endpoint == "" || good, "Endpoint is not like https://ec2.example.com") // which is not printed: it may contain a secret
	fits("AddressURL", c.AddressURL, urlForm, "https://checkip.amazonaws.com/")
	require(slices.Contains([]string{"20.04", "22.04", newestUbuntu}, c.UbuntuVersion), "UbuntuVersion is %q; it is 24.04, 22.04 or 20.04", c.UbuntuVersion)
	require(c.DiskGB >= 1 && c.DiskGB <= 16384, "DiskGB is %d; a disk has 1 to 16384", c.DiskGB)
	for _, network := range c.SSHFrom {
		_, err := netip.ParsePrefix(network)
		require(err == nil, "SSHFrom %q is not like 203.0.113.0/24", network)
	}
	if c.InstanceProfileARN == autoProfile {
		require(json.Valid([]byte(c.InstanceProfilePolicy)), "InstanceProfileARN is auto, but InstanceProfilePolicy is not JSON")
	} else {
		fits("InstanceProfileARN", c.InstanceProfileARN, profileForm, "arn:aws:iam::123456789012:instance-profile/name")
		require(c.InstanceProfilePolicy == "", "InstanceProfilePolicy is for InstanceProfileARN: \"auto\"")
	}
	require(slices.Contains([]AllocationStrategy{PriceCapacityOptimized, CapacityOptimized, CapacityOptimizedPrioritized, Diversified, LowestPrice}, c.AllocationStrategy),
		"AllocationStrategy %q is not an allocation strategy of EC2's spot fleets", c.AllocationStrategy)
	require(c.InstanceTimeout >= time.Second && c.RequestTimeout >= time.Second, "a timeout is below a second")
	return faults.Err()
}
