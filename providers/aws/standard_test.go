package aws

import (
	"net/http"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

var standard = cloudtest.Cloud[*fake, Config]{
	Name:    providerName,
	Spec:    gputrain.Spec{VCPUs: 2, MemoryGiB: 4},
	Start:   func(t *testing.T) *fake { return startFake(t) },
	Still:   func(f *fake) { f.noMachines = true },
	Config:  (*fake).config,
	Account: (*fake).account,
	Dialed: func(d driver.Driver) driver.Driver {
		return struct {
			*awsDriver
			cloudtest.Dialer
		}{awsDriver: d.(*awsDriver)}
	},
	Client: func(c *Config, client *http.Client) { c.HTTPClient = client },
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) {
		if c.AccessKeyID == "" && c.SessionToken == "" && c.Profile == "" && key != "" {
			c.AccessKeyID, c.SecretAccessKey = testKeyID, key
		}
	}, Name: "AWS_ACCESS_KEY_ID"},
	Secrets: []string{testSecret},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {"DescribeInstanceTypes"}, providertest.OpPrepare: {"CreateSecurityGroup"}, providertest.OpLaunch: {"CreateFleet"},
		providertest.OpDescribe: {"DescribeInstances"}, providertest.OpList: {"DescribeInstances"}, providertest.OpTerminate: {"TerminateInstances"},
		providertest.OpRelease: {"DeleteSecurityGroup"},
	},
	Made:       map[string]int{kindMachine: 2, kindGroup: 1},
	Repeats:    true,
	EndsItself: true,
	NoMeter:    "its prices are sums of the catalogue of prices: TestOffers has those",
}

func TestReadme(t *testing.T) { standard.Readme(t) }

func TestUnseen(t *testing.T) { standard.Unseen(t, "DescribeInstances") }

func TestUnseenPool(t *testing.T) { standard.UnseenPool(t, "DescribeInstances") }

func TestGolden(t *testing.T) {
	standard.Golden(t, cloudtest.Written[Config]{File: "aws", Change: func(c *Config) {
		c.ImportKeyPair, c.ClusterPlacement, c.ExcludeBurstable = true, true, true
	}})
}

func TestStrangers(t *testing.T) { standard.Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

func TestPool(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Node: cloudtest.Node{Region: "us-east-1"}})
}

// Addresses come late, too.
func TestPoolUnderFaults(t *testing.T) {
	standard.With(gputrain.Spec{TTL: time.Hour}, nil).Pool(t, cloudtest.Pool[*fake]{
		Before: func(f *fake) { f.lateIP = 2 },
		Node:   cloudtest.Node{Region: "us-east-1"},
		Faults: []fakecloud.Fault{
			{Op: "DescribeInstanceTypes", Answer: fakecloud.Failure(503, "", "")},
			{Op: "CreateSecurityGroup", After: true, Cut: true},
			{Op: "CreateFleet", After: true, Cut: true},
			{Op: "CreateFleet", Skip: 1, Answer: fakecloud.EC2Error(503, "RequestLimitExceeded", "Request limit exceeded.")},
			{Op: "DeleteLaunchTemplate", Answer: fakecloud.Failure(500, "", "")},
			{Op: "DescribeInstances", Lag: fakecloud.Lag{Calls: 2}, Times: 2},
			{Op: "DescribeInstances", Skip: 6, Answer: fakecloud.Garbage()},
			{Op: "TerminateInstances", After: true, Cut: true},
			{Op: "DeleteSecurityGroup", Answer: fakecloud.HTML()},
		},
	})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad("SecretAccessKey", Config{AccessKeyID: "AKIA"}),
		cloudtest.Bad("AccessKeyID", Config{SessionToken: "token"}),
		cloudtest.Bad("Profile", Config{Profile: "me", AccessKeyID: "AKIA", SecretAccessKey: "s"}),
		cloudtest.Bad("Region", Config{Region: "Virginia"}),
		cloudtest.Bad("AMI", Config{AMI: "ubuntu"}),
		cloudtest.Bad("SubnetID", Config{SubnetID: "sg-01234567"}),
		cloudtest.Bad("SecurityGroupID", Config{SecurityGroupID: "default"}),
		cloudtest.Bad("Username", Config{Username: "root; rm"}),
		cloudtest.Bad("Endpoint", Config{Endpoint: "localhost:5000"}),
		cloudtest.Bad("Endpoint is not", Config{Endpoint: "https://me:s3cret@localhost:5000"}),
		cloudtest.Bad("AddressURL", Config{AddressURL: "ifconfig.me"}),
		cloudtest.Bad("UbuntuVersion", Config{UbuntuVersion: "18.04"}),
		cloudtest.Bad("DiskGB", Config{DiskGB: -1}),
		cloudtest.Bad("SSHFrom", Config{SSHFrom: []string{"0.0.0.0/0", "me"}}),
		cloudtest.Bad("InstanceProfilePolicy", Config{InstanceProfileARN: "auto"}),
		cloudtest.Bad("InstanceProfileARN", Config{InstanceProfilePolicy: "{}"}),
		cloudtest.Bad("instance-profile", Config{InstanceProfileARN: "my-role"}),
		cloudtest.Bad("CapacityReservationID", Config{CapacityReservationID: "mine", SubnetID: "subnet-0000000a"}),
		cloudtest.Bad("without SubnetID", Config{CapacityReservationID: "cr-00000001"}),
		cloudtest.Bad("CapacityBlock", Config{CapacityBlock: true}),
		cloudtest.Bad("Preference", Config{CapacityReservationPreference: "maybe"}),
		cloudtest.Bad("both set", Config{CapacityReservationPreference: "none", CapacityReservationID: "cr-00000001", SubnetID: "subnet-0000000a"}),
		cloudtest.Bad("AllocationStrategy", Config{AllocationStrategy: "cheapest"}),
		cloudtest.Bad("timeout", Config{InstanceTimeout: time.Millisecond}),
	})
}

func TestErrors(t *testing.T) {
	standard.Errors(t, []cloudtest.Refusal{
		cloudtest.Refused("no capacity", "CreateFleet", fakecloud.EC2Error(400, "InsufficientInstanceCapacity", "We currently do not have sufficient capacity."), driver.ErrNoCapacity),
		cloudtest.Refused("quota", "CreateFleet", fakecloud.EC2Error(400, "VcpuLimitExceeded", "You have requested more vCPU capacity than your current limit."), driver.ErrQuota, "Service Quotas"),
		cloudtest.Refused("new account", "CreateFleet", fakecloud.EC2Error(400, "PendingVerification", "Your account is being verified."), driver.ErrQuota, "up to four hours"),
		cloudtest.Refused("not signed up", "CreateFleet", fakecloud.EC2Error(401, "OptInRequired", "You are not subscribed to this service."), driver.ErrAuth, "not signed up"),
		cloudtest.Refused("invalid", "CreateFleet", fakecloud.EC2Error(400, "InvalidParameterValue", "Value for parameter is invalid."), driver.ErrInvalid),
		cloudtest.Refused("malformed", "CreateFleet", fakecloud.EC2Error(400, "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."), driver.ErrInvalid),
		cloudtest.Refused("rate limit", "CreateFleet", fakecloud.EC2Error(503, "RequestLimitExceeded", "Request limit exceeded."), driver.ErrRateLimited),
		cloudtest.Refused("server fails", "CreateFleet", fakecloud.EC2Error(500, "InternalError", "An internal error has occurred."), driver.ErrUnavailable),
		cloudtest.Refused("wrong key", "DescribeInstances", fakecloud.EC2Error(401, "AuthFailure", "AWS was not able to validate the provided access credentials."), driver.ErrAuth),
		cloudtest.Refused("forbidden", "DescribeInstances", fakecloud.EC2Error(403, "UnauthorizedOperation", "You are not authorized to perform this operation."), driver.ErrAuth, "policy"),
		cloudtest.Refused("list, rate limit", "DescribeInstances", fakecloud.EC2Error(503, "RequestLimitExceeded", "Request limit exceeded."), driver.ErrRateLimited),
		cloudtest.Refused("list, server fails", "DescribeInstances", fakecloud.EC2Error(500, "InternalError", "An internal error has occurred."), driver.ErrUnavailable),
		cloudtest.Refused("list, gateway", "DescribeInstances", fakecloud.HTML(), driver.ErrUnavailable),
	})
}
