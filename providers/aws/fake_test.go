package aws

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

const (
	testKeyID  = "AKIATESTTESTTESTTEST"
	testSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	testVPC    = "vpc-00000001"

	opOther   = "POST /" // SSM, Price List, STS and IAM, which no contract describes
	opAddress = "GET /address"
)

type row = map[string]any

// The zones of the fake's region, and the default VPC's subnet in each.
var testSubnets = map[string]string{"us-east-1a": "subnet-0000000a", "us-east-1b": "subnet-0000000b", "us-east-1c": "subnet-0000000c"}

// A fakeType is an instance type.
type fakeType struct {
	name, arch   string
	vcpus        int
	memoryMiB    int
	gpu          string // the device's name; count and size are its number and MiB
	count, size  int
	neuron       bool
	usd, spotUSD float64  // per hour; spotUSD is for zone a, 10% more in b, 20% more in c
	usage        []string // usage classes; nil means on-demand and spot
	burstable    bool
	old          bool     // not of the current generation
	zones        []string // nil means all
}

func fakeTypes() []fakeType {
	return []fakeType{
		{name: "c7i.large", arch: "x86_64", vcpus: 2, memoryMiB: 4096, usd: 0.08925, spotUSD: 0.03},
		{name: "g5.12xlarge", arch: "x86_64", vcpus: 48, memoryMiB: 196608, gpu: "A10G", count: 4, size: 22888, usd: 5.672, spotUSD: 2.1},
		{name: "g5.xlarge", arch: "x86_64", vcpus: 4, memoryMiB: 16384, gpu: "A10G", count: 1, size: 22888, usd: 1.006, spotUSD: 0.4},
		{name: "g5g.xlarge", arch: "arm64", vcpus: 4, memoryMiB: 8192, gpu: "T4g", count: 1, size: 16384, usd: 0.42, spotUSD: 0.2},
		{name: "g6f.large", arch: "x86_64", vcpus: 2, memoryMiB: 8192, gpu: "L4", count: 0, size: 2861, usd: 0.2, spotUSD: 0.1},
		{name: "inf1.xlarge", arch: "x86_64", vcpus: 4, memoryMiB: 8192, gpu: "Inferentia", count: 1, size: 8192, neuron: true, usd: 0.228, spotUSD: 0.1},
		{name: "m1.small", arch: "x86_64", vcpus: 1, memoryMiB: 1740, usd: 0.044, old: true},
		{name: "m7g.medium", arch: "arm64", vcpus: 1, memoryMiB: 4096, usd: 0.0408, spotUSD: 0.02},
		{name: "p3dn.24xlarge", arch: "x86_64", vcpus: 96, memoryMiB: 786432, gpu: "V100", count: 8, size: 32768, usd: 31.212, spotUSD: 10},
		{name: "p4d.24xlarge", arch: "x86_64", vcpus: 96, memoryMiB: 1179648, gpu: "A100", count: 8, size: 40960, usd: 21.96, spotUSD: 9.5, zones: []string{"us-east-1b", "us-east-1c"}},
		{name: "p5.48xlarge", arch: "x86_64", vcpus: 192, memoryMiB: 2097152, gpu: "H100", count: 8, size: 81920, usd: 55.04, zones: []string{"us-east-1f"}},
		{name: "p5e.48xlarge", arch: "x86_64", vcpus: 192, memoryMiB: 2097152, gpu: "H200", count: 8, size: 144384, usage: []string{"capacity-block"}},
		{name: "t3.medium", arch: "x86_64", vcpus: 2, memoryMiB: 4096, usd: 0.0416, spotUSD: 0.0125, burstable: true},
		{name: "t3.nano", arch: "x86_64", vcpus: 2, memoryMiB: 512, usd: 0.0052, spotUSD: 0.0016, burstable: true},
		{name: "trn2.48xlarge", arch: "x86_64", vcpus: 192, memoryMiB: 2097152, gpu: "Trainium2", count: 16, size: 524288, neuron: true, usd: 40},
	}
}

// A fake is AWS with its quirks. Only its handlers and functions passed to Do may touch
// its fields.
type fake struct {
	*fakecloud.Server
	t        testing.TB
	contract fakecloud.Contract
	types    []fakeType

	instances  *fakecloud.Store[*rental]
	groups     *fakecloud.Store[*group]
	keys       *fakecloud.Store[row]
	placements *fakecloud.Store[row]
	templates  *fakecloud.Store[*template]
	volumes    *fakecloud.Store[row]
	amis       *fakecloud.Store[*ami]
	snapshots  *fakecloud.Store[row]
	profiles   map[string]*fakeProfile // by name
	tokens     map[string]replay       // by action and client token

	room       int // how many machines may run; negative means any number
	spotRoom   int
	full       []string        // zones without capacity, or "cluster" for placement groups
	denied     map[string]bool // denied operations
	only       map[string]bool // the allowed actions, as policies name them; nil means all
	used       map[string]bool // the actions that were allowed and used
	quotas     map[string]float64
	reserved   map[string]fakeReservation
	noFleets   bool // the account's limit of fleets is 0
	noImages   bool // the SSM parameters of images do not exist
	noVPC      bool
	unpriced   bool
	noMachines bool          // instances are only rows, with no machine behind them
	stall      bool          // launched instances stay pending
	lateIP     int           // how many descriptions lack the address of a running instance
	linger     time.Duration // from a machine's end until its security group is free
	pageSize   int           // instance types per page
	listPage   int           // rows per page of other lists; 0 means all
	lastID     int
	amiDelay   int  // for how many describes a new AMI is pending
	amiFails   bool // AMIs are not made
	snapsStay  bool // DeregisterImage does not delete snapshots
	amiQuota   int  // how many AMIs the account may have; 0 means any number
}

// A rental is an instance and the machine behind it.
type rental struct {
	row     row
	data    launchData
	machine *fakecloud.Machine
	late    int
	ended   time.Time
}

type group struct {
	row         row
	permissions []row
}

type template struct {
	row  row
	data launchData
}

type fakeProfile struct {
	Role, Policy, Profile, Added bool
	Tries                        int // launches that still fail because EC2 does not know the profile
}

type replay struct {
	body   string
	answer fakecloud.Answer
}

// launchData is how RunInstances and a launch template describe a machine.
type launchData struct {
	ImageId, InstanceType, KeyName, UserData, ClientToken string
	SubnetId                                              string
	SecurityGroupIds                                      []string
	InstanceInitiatedShutdownBehavior                     string
	MinCount, MaxCount                                    int
	IamInstanceProfile                                    struct{ Arn string }
	Placement                                             struct{ GroupName string }
	MetadataOptions                                       struct{ HttpTokens string }
	NetworkInterfaces                                     []struct {
		DeviceIndex              int
		SubnetId                 string
		Groups                   []string
		AssociatePublicIpAddress bool
	}
	BlockDeviceMappings []struct {
		DeviceName string
		Ebs        struct {
			VolumeSize          int
			DeleteOnTermination bool
		}
	}
	TagSpecifications []struct {
		ResourceType string
		Tags         []tagRow
	}
	InstanceMarketOptions *struct {
		MarketType  string
		SpotOptions struct{ MaxPrice string }
	}
	CapacityReservationSpecification struct {
		CapacityReservationPreference string
		CapacityReservationTarget     struct{ CapacityReservationId string }
	}
}

// A fakeReservation has room for machines of one type in one zone, by any market type or as a
// capacity block.
type fakeReservation struct {
	instanceType, zone string
	room               int
	block              bool
}

type tagRow struct{ Key, Value string }

func startFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{
		t: t, types: fakeTypes(), room: -1, spotRoom: -1, denied: map[string]bool{}, profiles: map[string]*fakeProfile{}, tokens: map[string]replay{},
		pageSize: 100, linger: 30 * time.Millisecond, used: map[string]bool{}, quotas: map[string]float64{}, reserved: map[string]fakeReservation{},
	}
	// The SDK's request snapshots have this parameter, which the model is too old for.
	f.contract = fakecloud.EC2(t, "testdata/api.json", "TerminateInstances.SkipOsShutdown", "DeregisterImage.DeleteAssociatedSnapshots")
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts:    []fakecloud.Contract{f.contract, fakecloud.Unchecked(opOther, opAddress)},
		Authorized:   fakecloud.SigV4(testKeyID, testSecret),
		Public:       []string{opAddress},
		Unauthorized: fakecloud.EC2Error(401, "AuthFailure", "AWS was not able to validate the provided access credentials"),
		Refused: func(status int, complaint string) fakecloud.Answer {
			return fakecloud.EC2Error(status, "InvalidParameterValue", complaint)
		},
	})
	f.instances, f.groups = fakecloud.NewStore[*rental](f.Server), fakecloud.NewStore[*group](f.Server)
	f.keys, f.placements = fakecloud.NewStore[row](f.Server), fakecloud.NewStore[row](f.Server)
	f.snapshots = fakecloud.NewStore[row](f.Server)
	f.templates, f.volumes, f.amis = fakecloud.NewStore[*template](f.Server), fakecloud.NewStore[row](f.Server), fakecloud.NewStore[*ami](f.Server)
	for op, h := range map[string]fakecloud.Handler{
		"DescribeInstanceTypes": f.describeTypes, "DescribeInstanceTypeOfferings": f.describeOfferings, "DescribeSpotPriceHistory": f.describeSpotPrices,
		"DescribeImages": f.describeImages, "DescribeVpcs": f.describeVPCs, "DescribeSubnets": f.describeSubnets,
		"DescribeSecurityGroups": f.describeGroups, "CreateSecurityGroup": f.createGroup, "AuthorizeSecurityGroupIngress": f.authorize, "DeleteSecurityGroup": f.deleteGroup,
		"DescribeKeyPairs": f.describeKeys, "ImportKeyPair": f.importKey, "DeleteKeyPair": f.deleteKey,
		"DescribePlacementGroups": f.describePlacements, "CreatePlacementGroup": f.createPlacement, "DeletePlacementGroup": f.deletePlacement,
		"DescribeLaunchTemplates": f.describeTemplates, "CreateLaunchTemplate": f.createTemplate, "DeleteLaunchTemplate": f.deleteTemplate,
		"CreateImage": f.createImage, "DeregisterImage": f.deregisterImage, "DescribeSnapshots": f.describeSnapshots, "DeleteSnapshot": f.deleteSnapshot,
		"DescribeVolumes": f.describeVolumes, "DeleteVolume": f.deleteVolume, "CreateTags": f.createTags,
		"CreateFleet": f.createFleet, "RunInstances": f.runInstances, "DescribeInstances": f.describeInstances, "TerminateInstances": f.terminate,
		opOther:   f.other,
		opAddress: func(*fakecloud.Call) fakecloud.Answer { return fakecloud.Reply(200, "192.0.2.7\n") },
	} {
		f.Handle(op, func(c *fakecloud.Call) fakecloud.Answer {
			if op := f.refusedEC2(c); op != "" {
				return denial(op)
			}
			return h(c)
		})
	}
	return f
}

// refusedEC2 returns the action that the caller may not make, or "".
func (f *fake) refusedEC2(c *fakecloud.Call) string {
	if c.Op == opOther || c.Op == opAddress {
		return ""
	}
	needs := []string{c.Op}
	if c.Op == "CreateFleet" {
		needs = append(needs, "RunInstances")
	}
	if strings.Contains(string(c.Body), "TagSpecification") {
		needs = append(needs, "CreateTags")
	}
	for _, op := range needs {
		if f.denied[op] || !f.may("ec2:"+op) {
			return op
		}
	}
	return ""
}

// may reports whether the caller's policy has an action, and notes its use.
func (f *fake) may(action string) bool {
	if f.only != nil && !f.only[action] {
		return false
	}
	f.used[action] = true
	return true
}

func denial(op string) fakecloud.Answer {
	return fakecloud.EC2Error(403, "UnauthorizedOperation", "You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/test is not authorized to perform: ec2:"+op)
}

func refused(code, format string, args ...any) fakecloud.Answer {
	status := 400
	if strings.HasPrefix(code, "Insufficient") {
		status = 500 // as EC2 does, so that its SDK tries again
	}
	return fakecloud.EC2Error(status, code, fmt.Sprintf(format, args...))
}

func (f *fake) newID(prefix string) string {
	f.lastID++
	return fmt.Sprintf("%s-%08x", prefix, f.lastID)
}

// filters are the filters of a request.
type filters struct {
	Filters []struct {
		Name   string
		Values []string
	}
}

// passes reports whether a row passes the filters. The fake knows filters by tag, and by fields.
func (f *fake) passes(c *fakecloud.Call, in filters, tags []tagRow, fields map[string]string) bool {
	for _, flt := range in.Filters {
		has := func(value string) bool {
			return slices.ContainsFunc(flt.Values, func(want string) bool {
				prefix, wild := strings.CutSuffix(want, "*")
				return value == want || wild && strings.HasPrefix(value, prefix)
			})
		}
		key, byTag := strings.CutPrefix(flt.Name, "tag:")
		value, known := fields[flt.Name]
		switch {
		case len(flt.Values) > 200:
			f.t.Errorf("%s: a filter has %d values", c.Op, len(flt.Values))
		case byTag:
			if !slices.ContainsFunc(tags, func(t tagRow) bool { return t.Key == key && has(t.Value) }) {
				return false
			}
		case flt.Name == "tag-key":
			if !slices.ContainsFunc(tags, func(t tagRow) bool { return has(t.Key) }) {
				return false
			}
		case !known:
			f.t.Errorf("%s: the fake has no filter %s", c.Op, flt.Name)
		case !has(value):
			return false
		}
	}
	return true
}

// tagsOf returns the tags that a request gives to one kind of resource.
func (f *fake) tagsOf(c *fakecloud.Call, specs []struct {
	ResourceType string
	Tags         []tagRow
}, kind string) []tagRow {
	tags := []tagRow{}
	for _, s := range specs {
		if s.ResourceType == kind {
			tags = append(tags, s.Tags...)
		}
	}
	for _, t := range tags {
		if strings.HasPrefix(t.Key, "aws:") || len(t.Key) > 128 || len(t.Value) > 256 || len(tags) > 50 {
			f.t.Errorf("%s: EC2 takes no such tag: %v", c.Op, t)
		}
	}
	if kind != "fleet" && tagOf(tags, tagPool) == "" {
		f.t.Errorf("%s: a %s is made without the pool's tag", c.Op, kind)
	}
	return tags
}

func tagOf(tags []tagRow, key string) string {
	for _, t := range tags {
		if t.Key == key {
			return t.Value
		}
	}
	return ""
}

type tagged struct {
	TagSpecifications []struct {
		ResourceType string
		Tags         []tagRow
	}
}

func rowTags(r row) []tagRow { tags, _ := r["Tags"].([]tagRow); return tags }

// paged returns one page of rows, with a token for the next.
func paged(c *fakecloud.Call, key string, all []row, size int) fakecloud.Answer {
	var in struct{ NextToken string }
	c.Decode(&in)
	from, _ := strconv.Atoi(in.NextToken)
	if size <= 0 {
		size = len(all)
	}
	out := row{key: all[min(from, len(all)):min(from+size, len(all))]}
	if from+size < len(all) {
		out["NextToken"] = strconv.Itoa(from + size)
	}
	return fakecloud.Reply(200, out)
}
