package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
)

// Config rents from EC2. The zero value works when AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY are set, or the AWS command line does.
type Config struct {
	// AccessKeyID, SecretAccessKey and, for temporary credentials, SessionToken sign
	// every call. They may be references. Empty means what the AWS command line uses:
	// the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, a
	// web identity, ~/.aws with SSO and processes, or the role of the machine that the
	// program runs on.
	AccessKeyID, SecretAccessKey, SessionToken gputrain.Secret
	// Profile is the profile of ~/.aws to use. Empty means AWS_PROFILE, then "default".
	Profile string
	// Region is where nodes are. Empty means AWS_REGION, AWS_DEFAULT_REGION or the
	// profile's, and then us-east-1.
	Region string

	// AMI is the image that nodes start from: one with cloud-init and an SSH server.
	// Empty means Canonical's Ubuntu, AWS's Deep Learning Base image where there are
	// NVIDIA GPUs, and its Neuron image for Trainium and Inferentia.
	AMI string
	// UbuntuVersion is the release of those: "24.04", "22.04" and, without
	// accelerators, "20.04". Empty means 24.04.
	UbuntuVersion string
	// Username is whom to log in as. Empty means what the image has: "ubuntu", or
	// "ec2-user" on Amazon Linux.
	Username string
	// DiskGB is the size of a node's disk, where Spec.DiskGiB is zero; what that asks for
	// comes on top of what the image takes. EC2's GB are GiB. An image that needs more gets
	// more. Zero means 100.
	DiskGB int

	// SubnetID is where nodes are, and so their zone. Empty means the subnets of the
	// default VPC, in whichever zone has room.
	SubnetID string
	// SecurityGroupID is the nodes' security group, which has to let this program in at
	// port 22, and the nodes to each other. Empty makes one for the pool.
	SecurityGroupID string
	// SSHFrom are the networks that the pool's own security group lets in at port 22:
	// "203.0.113.0/24". Empty means the address of this program alone.
	SSHFrom []string
	// AddressURL answers with the address of who asks. Empty means
	// https://checkip.amazonaws.com/; where Endpoint is set, it means that nobody is
	// asked, and the address is that from which Endpoint is reached.
	AddressURL string
	// ImportKeyPair registers the pool's public key as an EC2 key pair too, for accounts
	// whose rules ask for one. Nodes get the key by cloud-init in any case.
	ImportKeyPair bool
	// ClusterPlacement puts the nodes of a pool close to each other, into a cluster
	// placement group: in one zone, with less delay between them, and less room. Where
	// the group has none a node is launched outside of it, in the same zone.
	ClusterPlacement bool

	// InstanceProfileARN is what nodes may do in AWS. Empty means nothing; "auto" makes
	// a role for the pool that InstanceProfilePolicy says the permissions of.
	InstanceProfileARN string
	// InstanceProfilePolicy is an IAM policy document, in JSON, for "auto".
	InstanceProfilePolicy string

	// AllocationStrategy says which zone a spot node is taken from. Empty means
	// PriceCapacityOptimized.
	AllocationStrategy AllocationStrategy
	// ExcludeBurstable leaves out types whose processors are shared: t3, t4g.
	ExcludeBurstable bool

	// InstanceTimeout is how long a node waits after its start to be taken over by its
	// pool; then it ends itself. Zero means 5 minutes. It does not bound how long a node
	// lives after that: see Spec.Lease and Spec.TTL.
	InstanceTimeout time.Duration
	// RequestTimeout bounds one attempt at a call of the API. Zero means 30 seconds.
	RequestTimeout time.Duration
	// Endpoint replaces the addresses of all services: a gateway, a test server. Empty
	// means AWS_ENDPOINT_URL and its kin, and then AWS's own.
	Endpoint string
	// HTTPClient makes the calls. Nil means one with sane timeouts, which knows
	// AWS_CA_BUNDLE. Where that is set, credentials are looked for by such a one in any case.
	HTTPClient *http.Client
}

// An AllocationStrategy says which zone EC2 takes a spot node from.
type AllocationStrategy string

const (
	// PriceCapacityOptimized takes the cheapest of those that are the least likely to be
	// interrupted soon.
	PriceCapacityOptimized AllocationStrategy = "price-capacity-optimized"
	// CapacityOptimized takes the least likely to be interrupted.
	CapacityOptimized AllocationStrategy = "capacity-optimized"
	// CapacityOptimizedPrioritized does so, and prefers the cheaper of equals.
	CapacityOptimizedPrioritized AllocationStrategy = "capacity-optimized-prioritized"
	// Diversified takes any.
	Diversified AllocationStrategy = "diversified"
	// LowestPrice takes the cheapest, which is the first to be interrupted.
	LowestPrice AllocationStrategy = "lowest-price"
)

const (
	providerName  = "aws"
	defaultRegion = "us-east-1"
	autoProfile   = "auto"
	newestUbuntu  = "24.04"
)

var _ gputrain.Provider = Config{}

// Name returns "aws".
func (Config) Name() string { return providerName }

// Open asks AWS whose the credentials are. It rents nothing.
func (c Config) Open(ctx context.Context) (gputrain.Driver, error) {
	c = c.complete()
	if err := c.validate(); err != nil {
		return nil, fail("open", err)
	}
	cl, err := newClient(ctx, c)
	if err != nil {
		return nil, fail("open", err)
	}
	c.AccessKeyID, c.SecretAccessKey, c.SessionToken = "", "", "" // the client has them, where nothing prints them
	d := newDriver(c, cl)
	if d.account, err = cl.accountID(ctx); err != nil {
		d.Close()
		return nil, fail("open", err)
	}
	return d, nil
}

// complete returns a copy of the configuration with its defaults, but for the region.
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
	profileForm = regexp.MustCompile(`^arn:[a-z-]+:iam::[0-9]{12}:instance-profile/.+$`)
	userForm    = regexp.MustCompile(`^[a-z_][a-z0-9_-]*$`)
	urlForm     = regexp.MustCompile(`^https?://[^\s'"\\]+$`)
)

// validate returns every fault at once.
func (c Config) validate() error {
	var faults []error
	require := func(good bool, format string, args ...any) {
		if !good {
			faults = append(faults, fmt.Errorf("%w: "+format, append([]any{gputrain.ErrInvalid}, args...)...))
		}
	}
	fits := func(field, value string, form *regexp.Regexp, like string) {
		require(value == "" || form.MatchString(value), "%s %q is not like %s", field, value, like)
	}
	require((c.AccessKeyID == "") == (c.SecretAccessKey == ""), "AccessKeyID and SecretAccessKey belong together, and one is empty")
	require(c.SessionToken == "" || c.AccessKeyID != "", "SessionToken is set, and AccessKeyID is not")
	require(c.Profile == "" || c.AccessKeyID == "", "Profile and AccessKeyID are both set")
	fits("Region", c.Region, regionForm, "us-east-1")
	fits("AMI", c.AMI, imageForm, "ami-0123456789abcdef0")
	fits("SubnetID", c.SubnetID, subnetForm, "subnet-0123456789abcdef0")
	fits("SecurityGroupID", c.SecurityGroupID, groupForm, "sg-0123456789abcdef0")
	fits("Username", c.Username, userForm, "ubuntu")
	at, err := url.Parse(c.Endpoint)
	good := err == nil && at.User == nil && at.RawQuery == "" && urlForm.MatchString(c.Endpoint)
	require(c.Endpoint == "" || good, "Endpoint is not like https://ec2.example.com") // and may have a secret in it
	fits("AddressURL", c.AddressURL, urlForm, "https://checkip.amazonaws.com/")
	require(slices.Contains([]string{"20.04", "22.04", newestUbuntu}, c.UbuntuVersion), "UbuntuVersion is %q; it is 24.04, 22.04 or 20.04", c.UbuntuVersion)
	require(c.DiskGB >= 1 && c.DiskGB <= 16384, "DiskGB is %d; a disk has 1 to 16384", c.DiskGB)
	for _, network := range c.SSHFrom {
		_, err := netip.ParsePrefix(network)
		require(err == nil, "SSHFrom %q is not like 203.0.113.0/24", network)
	}
	if c.InstanceProfileARN == autoProfile {
		require(json.Valid([]byte(c.InstanceProfilePolicy)), "InstanceProfileARN is auto, and InstanceProfilePolicy is no policy in JSON")
	} else {
		fits("InstanceProfileARN", c.InstanceProfileARN, profileForm, "arn:aws:iam::123456789012:instance-profile/name")
		require(c.InstanceProfilePolicy == "", "InstanceProfilePolicy is for InstanceProfileARN: \"auto\"")
	}
	require(slices.Contains([]AllocationStrategy{PriceCapacityOptimized, CapacityOptimized, CapacityOptimizedPrioritized, Diversified, LowestPrice}, c.AllocationStrategy),
		"AllocationStrategy %q is not one of EC2's for spot fleets", c.AllocationStrategy)
	require(c.InstanceTimeout >= time.Second && c.RequestTimeout >= time.Second, "a timeout is below a second")
	return errors.Join(faults...)
}
