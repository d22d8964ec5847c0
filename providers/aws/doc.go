// Package aws rents machines from Amazon EC2, on demand and as spot, in one region.
//
//	pool, err := gputrain.Open(ctx, aws.Config{Region: "us-east-1"}, gputrain.Spec{
//		Accelerator: accelerators.A10G(), Allocation: gputrain.SpotIfAvailable, Nodes: 2,
//	})
//
// A node is an instance of its own, started by a fleet of one that chooses the zone. What
// has no room on spot is rented on demand, under [gputrain.SpotIfAvailable]; a pool on
// several regions is made of several Configs. Devices come in the numbers that EC2 has:
// there is no machine with one A100, and asking for one says what there is.
//
// # At a glance
//
//   - GPUs: NVIDIA, Trainium and Inferentia of EC2, by fleets of one.
//   - Spot: yes.
//   - Regions: [Config].Region.
//   - Credentials: AWS's own: AWS_PROFILE, AWS_ACCESS_KEY_ID and its kin.
//   - Billing: by the second; ended by TerminateInstances.
//   - Private network: yes.
//   - Ends itself: yes, by its lease: to shut down is to be terminated.
//   - Host key pinned by: the pool's own key, by cloud-init.
//   - Tags: yes.
//   - Tried against: a fake held to EC2's API model of mid-2024 and the SDK's own requests; SSM,
//     Price List and IAM by what is known of them; machines, groups, keys and templates against
//     moto 5.2 too; not live.
//
// # Credentials
//
// Those of AWS's own command line: AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY (and
// AWS_SESSION_TOKEN), a web identity, ~/.aws with its profiles, SSO and processes, or the
// role of the machine that the program runs on. [Config].AccessKeyID and its kin come
// before all of them. A wrong or missing one is ErrAuth at Open.
//
// # Permissions
//
// This policy suffices; "aws" in the ARNs is aws-cn or aws-us-gov there:
//
//	{"Version": "2012-10-17", "Statement": [
//	  {"Effect": "Allow", "Resource": "*", "Action": [
//	    "ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeSpotPriceHistory",
//	    "ec2:DescribeImages", "ec2:DescribeVpcs", "ec2:DescribeSubnets", "ec2:DescribeSecurityGroups",
//	    "ec2:DescribeKeyPairs", "ec2:DescribePlacementGroups", "ec2:DescribeLaunchTemplates",
//	    "ec2:DescribeInstances", "ec2:DescribeVolumes",
//	    "ec2:CreateSecurityGroup", "ec2:AuthorizeSecurityGroupIngress",
//	    "ec2:CreateLaunchTemplate", "ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateTags",
//	    "ssm:GetParameter", "pricing:GetProducts"]},
//	  {"Effect": "Allow", "Resource": "*", "Action": [
//	    "ec2:TerminateInstances", "ec2:DeleteVolume", "ec2:DeleteSecurityGroup", "ec2:DeleteLaunchTemplate"],
//	   "Condition": {"StringEquals": {"aws:ResourceTag/gputrain:managed": "true"}}},
//	  {"Effect": "Allow", "Action": "iam:CreateServiceLinkedRole", "Resource": "*", "Condition": {
//	    "StringEquals": {"iam:AWSServiceName": ["spot.amazonaws.com", "ec2fleet.amazonaws.com"]}}}
//	]}
//
// Beside it, ImportKeyPair needs ec2:ImportKeyPair and DeleteKeyPair; ClusterPlacement
// ec2:CreatePlacementGroup and DeletePlacementGroup; an InstanceProfileARN iam:PassRole of
// its role; and "auto" for it, on arn:aws:iam::*:role/gputrain/* and
// arn:aws:iam::*:instance-profile/gputrain/*, iam:CreateRole, TagRole, PutRolePolicy,
// CreateInstanceProfile, TagInstanceProfile, AddRoleToInstanceProfile, GetInstanceProfile,
// ListInstanceProfiles, RemoveRoleFromInstanceProfile, DeleteInstanceProfile,
// DeleteRolePolicy, DeleteRole and PassRole. With SecurityGroupID the two calls that make
// a group are not needed.
//
// It was put together from the calls that this package makes, and not yet tried against
// AWS. Some of it can be missing: without CreateLaunchTemplate or CreateFleet machines are
// run one by one, zone after zone; without GetParameter the newest image is found by its
// name; without GetProducts or DescribeSpotPriceHistory prices are unknown, which a
// price cap or a budget refuses. CreateTags cannot: what has no tags is not found again,
// and nothing is launched without it.
//
// # Parameters
//
// All have defaults, which the fields of [Config] tell: region us-east-1, Ubuntu 24.04, a
// disk of 100 GB (gp3), the default VPC, a security group for the pool that lets in this
// program's address alone, spot by price and capacity, five minutes until a node that
// nobody takes over ends itself. Images are found by AWS's and Canonical's public SSM
// parameters: plain Ubuntu, the Deep Learning Base image with NVIDIA's open driver, which
// cannot drive a V100, and Neuron's image for Trainium and Inferentia. Types with a part of
// a GPU, and those that are rented by capacity block only, are not offered.
//
// # Billing
//
// By the second, with a minute at least, from running to shutting-down; the disk until it
// is deleted with its machine, and a public address while there is one. A price here is
// that of the machine with about what those cost ($0.08 a GB and month, $0.005 an hour),
// and without traffic. A spot price is that of the zone; it changes while the node lives,
// up to Spec.MaxHourlyUSD where that is set. Only TerminateInstances ends all of it, or a
// shutdown from within: nodes are launched so that this terminates them. In China, where AWS
// bills in CNY, prices are not known here, and in GovCloud those on demand are not.
//
// # When the client is gone
//
// A node shuts itself down, and so is terminated, when its lease or TTL has run out; when
// nobody has taken it over within [Config].InstanceTimeout of its start; and at the latest
// ten minutes after the pool's TTL. What remains, [gputrain.Reap] finds by the tags of
// instances, disks, security groups, key pairs, placement groups and launch templates,
// each in the region of the Config given to it, and instance profiles where that Config
// has "auto" too.
//
// # Host keys
//
// They are made for each machine and injected by cloud-init. The private one stands in the
// machine's user data, and for a few seconds in a launch template: whoever may read those
// in the account, and every process on the node, can read it. It is no other machine's.
//
// # Spot
//
// Two minutes before EC2 takes a machine back its metadata service says so, and the node
// looks there every five seconds, if the image has curl. A machine that was taken back is
// [gputrain.InstancePreempted].
//
// # Several nodes
//
// The pool's security group lets its nodes reach each other at every port, by their
// private addresses. The zone of the first is tried first for the others. EFA is not set
// up: between nodes there is TCP.
//
// # Errors
//
//   - ErrAuth: the credentials are wrong, or a permission is missing, which AWS's words
//     name; a new account may not make the role for spot by itself; a region is not enabled.
//   - ErrQuota: the account may have no more vCPUs of this family: the commonest first
//     failure, as new accounts have none for G and P. The error names the quotas.
//   - ErrNoCapacity: no zone has room; the next offer is taken.
//   - ErrNoOffers: nothing fits, or only with another number of devices, which it names.
//   - ErrInvalid: there is no default VPC, the image has no root device: what to set.
//   - ErrRateLimited: too many calls by this account at once, after several attempts.
package aws
