// Package aws rents machines from Amazon EC2, on demand and as spot, in one region.
//
//	pool, err := gputrain.Open(ctx, aws.Config{Region: "us-east-1"}, gputrain.Spec{
//		Accelerator: accelerators.A10G(), Allocation: gputrain.SpotIfAvailable, Nodes: 2,
//	})
//
// A node is an instance of its own. A fleet of one starts it and chooses the zone. With
// [gputrain.SpotIfAvailable] a node without spot capacity is rented on demand. A pool in
// several regions takes several Configs. EC2 sells devices in fixed numbers: it has no machine
// with one A100, and the error names the numbers that it has.
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
//     Price List, Service Quotas and IAM by what is known of them; machines, groups, keys and templates against
//     moto 5.2 too; not live.
//
// # Credentials
//
// The credentials of AWS's own command line: AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY (and
// AWS_SESSION_TOKEN), a web identity, ~/.aws with its profiles, SSO and processes, or the role
// of the machine that the program runs on. [Config].AccessKeyID and its kin come first. A wrong
// or missing one is ErrAuth at Open.
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
//	    "ec2:DescribeInstances", "ec2:DescribeVolumes", "ec2:DescribeSnapshots",
//	    "ec2:CreateSecurityGroup", "ec2:AuthorizeSecurityGroupIngress",
//	    "ec2:CreateLaunchTemplate", "ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateTags",
//	    "ssm:GetParameter", "pricing:GetProducts", "servicequotas:GetServiceQuota"]},
//	  {"Effect": "Allow", "Resource": "*", "Action": [
//	    "ec2:TerminateInstances", "ec2:DeleteVolume", "ec2:DeleteSecurityGroup", "ec2:DeleteLaunchTemplate"],
//	   "Condition": {"StringEquals": {"aws:ResourceTag/gputrain:managed": "true"}}},
//	  {"Effect": "Allow", "Action": "iam:CreateServiceLinkedRole", "Resource": "*", "Condition": {
//	    "StringEquals": {"iam:AWSServiceName": ["spot.amazonaws.com", "ec2fleet.amazonaws.com"]}}}
//	]}
//
// ImportKeyPair also needs ec2:ImportKeyPair and DeleteKeyPair; ClusterPlacement needs
// ec2:CreatePlacementGroup and DeletePlacementGroup; an InstanceProfileARN needs iam:PassRole
// of its role. The value "auto" needs, on arn:aws:iam::*:role/gputrain/* and
// arn:aws:iam::*:instance-profile/gputrain/*, iam:CreateRole, TagRole, PutRolePolicy,
// CreateInstanceProfile, TagInstanceProfile, AddRoleToInstanceProfile, GetInstanceProfile,
// ListInstanceProfiles, RemoveRoleFromInstanceProfile, DeleteInstanceProfile, DeleteRolePolicy,
// DeleteRole and PassRole. SecurityGroupID makes the two calls that create a group unnecessary.
// [gputrain.Bake] and [gputrain.DeleteBaked] need ec2:CreateImage, DeregisterImage and DeleteSnapshot.
//
// Some of it is optional. Without CreateLaunchTemplate or CreateFleet, machines are run one by
// one, zone after zone. Without GetParameter, the newest image is found by its name. Without
// GetProducts or DescribeSpotPriceHistory, prices are unknown, and a price cap or a budget
// refuses unknown prices. Without GetServiceQuota, only a launch shows that a quota is used up.
// The role for spot and fleets is made once per account, by whoever may. This policy has the rest:
//
//	{"Version": "2012-10-17", "Statement": [
//	  {"Effect": "Allow", "Resource": "*", "Action": [
//	    "ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings",
//	    "ec2:DescribeImages", "ec2:DescribeVpcs", "ec2:DescribeSubnets", "ec2:DescribeSecurityGroups",
//	    "ec2:DescribeKeyPairs", "ec2:DescribePlacementGroups", "ec2:DescribeLaunchTemplates",
//	    "ec2:DescribeInstances", "ec2:DescribeVolumes", "ec2:DescribeSnapshots",
//	    "ec2:CreateSecurityGroup", "ec2:AuthorizeSecurityGroupIngress", "ec2:RunInstances", "ec2:CreateTags"]},
//	  {"Effect": "Allow", "Resource": "*", "Action": [
//	    "ec2:TerminateInstances", "ec2:DeleteVolume", "ec2:DeleteSecurityGroup"],
//	   "Condition": {"StringEquals": {"aws:ResourceTag/gputrain:managed": "true"}}}
//	]}
//
// CreateTags is required: nothing is launched without tags, because it could not be found again.
// Both policies list the calls that this package makes, tested against a fake that refuses all
// others. They have not been tried against AWS yet.
//
// # Parameters
//
// All have defaults, documented at the fields of [Config]: region us-east-1, Ubuntu 24.04, a
// disk of 100 GB (gp3), the default VPC, a security group for the pool that lets in only this
// program's address, spot by price and capacity, no instance profile, EC2's own use of open
// capacity reservations, and five minutes until a node that no pool takes over shuts itself
// down. Images are found by AWS's and Canonical's public SSM parameters: plain Ubuntu, the Deep
// Learning Base image with NVIDIA's open driver, and Neuron's image for Trainium and Inferentia.
//
// Types with V100 (p3, p3dn) and types with a part of a GPU (g6f, "L4:0.125") need an image with
// NVIDIA's proprietary or GRID driver, which [Config].AMI names; without it gputrain.Plan shows
// why they are not rented. [gputrain.Spec].Tags are tags of each machine, its disk and its network
// card: at most 35, with EC2's characters.
//
// # Baked images
//
// [gputrain.Bake] makes an AMI of the region, with a snapshot that has the size of the baked machine's
// disk at most; its price is an estimate, $0.05 a GB and month (us-east-1). Launches from it have a
// disk of that size at least. It is found by the tags gputrain:baked and gputrain:baked-base, which
// names the default image and not its release: to bake on a newer release, delete the image first. An
// AMI in the making has the tags of its pool only, and [gputrain.Reap] deregisters it. It also deletes
// snapshots whose AMI is gone.
//
// # Reservations
//
// [Config].CapacityReservationID runs all nodes in one capacity reservation, on demand. A
// reservation is billed at the price of its machines whether they run or not, so that a node
// costs nothing beside it; the price of the offer is that of the machine. With
// [Config].CapacityBlock it is a capacity block, which was paid in advance, and from which P4, P5
// and P6 often come alone; only the disk and the address then cost something by the hour. Capacity
// reservations are not looked up: name the instance type in [gputrain.Spec].InstanceTypes.
//
// # Why no fleet of many
//
// A fleet launches all its machines from one template, with one user data. A node's host key is in
// its user data, so that nodes of one fleet would have one key, and each could pose as any other;
// and names, ranks and tags of a single node could only be set by later calls, between which a
// program that dies leaves machines that no list of a pool shows. So each node has a fleet of one.
//
// # Billing
//
// By the second, with a minute at least, from running to shutting-down; the disk until it is
// deleted with its machine, and a public address while there is one. A price here includes the
// machine, its disk of the size that a launch makes, and its address ($0.08 a GB and month,
// $0.005 an hour, approximately), but no traffic, whose price per GiB to the internet stands
// beside it. A spot price is that of the zone. It changes while the node lives, up to
// Spec.MaxHourlyUSD if that is set, and is followed: asked for at most every ten minutes. Billing ends only by TerminateInstances, or by a shutdown
// from within: nodes are launched so that a shutdown terminates them. Prices in China, where
// AWS bills in CNY, are unknown here, and so are prices on demand in GovCloud.
//
// # When the client is gone
//
// A node shuts itself down, which terminates it, when its lease or TTL has run out, when no
// pool has taken it over within [Config].InstanceTimeout of its start, and at the latest ten
// minutes after the pool's TTL. [gputrain.Reap] finds the rest by tags: instances, disks,
// security groups, key pairs, placement groups and launch templates, in the region of each
// Config given to it, and instance profiles if that Config has "auto".
//
// # Host keys
//
// Each machine gets a new host key by cloud-init. The private key is in the machine's user
// data, and for a few seconds in a launch template. Every user of the account with permission
// to read those, and every process on the node, can read it. It serves this machine only.
//
// # Spot
//
// EC2's metadata service announces an interruption two minutes ahead. The node asks it every
// five seconds, if the image has curl. An interrupted machine is [driver.InstancePreempted].
//
// # Several nodes
//
// The pool's security group lets its nodes reach each other at every port, by their private
// addresses. Later nodes try the zone of the first one first. EFA is not set up: nodes talk
// TCP.
//
// # Errors
//
//   - ErrAuth: the credentials are wrong; or a permission is missing, which AWS's message
//     names; or a new account may not make the role for spot by itself; or a region is not
//     enabled.
//   - ErrQuota: the account may have no more vCPUs of this family. This is the commonest first
//     failure, as new accounts have none for G and P. The error names the quotas.
//   - ErrNoCapacity: no zone has room; the pool takes the next offer.
//   - ErrNoOffers: nothing fits, or only with another number of devices, which the error names.
//   - ErrInvalid: there is no default VPC, or the image has no root device. The error says what
//     to set.
//   - ErrRateLimited: too many calls by this account at once, after several attempts.
package aws
