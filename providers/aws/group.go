package aws

import (
	"context"
	"fmt"
	"net/netip"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain"
)

// The kinds of what is held for a pool.
const (
	kindMachine   = "machine"
	kindGroup     = "security-group"
	kindKey       = "key"
	kindPlacement = "placement-group"
	kindTemplate  = "launch-template"
	kindVolume    = "volume"
	kindProfile   = "instance-profile"
)

// nameOf is what everything that a pool shares is called.
func nameOf(poolID string) string { return "gputrain-" + poolID }

// prepareGroup makes the pool's security group, and has it let this program in, and the
// nodes to each other.
func (d *driver) prepareGroup(ctx context.Context, pool gputrain.PoolInfo, vpc string) error {
	name := nameOf(pool.ID)
	var group *types.SecurityGroup
	find := func() (id, owner string, err error) {
		if group, err = d.findGroup(ctx, vpc, name); err != nil || group == nil {
			return "", "", err
		}
		return sdk.ToString(group.GroupId), tagList(group.Tags).pool(), nil
	}
	err := d.prepareNamed(ctx, pool, kindGroup, find, func() error {
		_, err := d.api.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
			GroupName: &name, Description: sdk.String("gputrain pool " + pool.ID), VpcId: &vpc,
			TagSpecifications: poolTags(pool, name).on(types.ResourceTypeSecurityGroup),
		}, once)
		return err
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.groups[pool.ID] = sdk.ToString(group.GroupId)
	d.mu.Unlock()
	return d.admit(ctx, *group)
}

func (d *driver) findGroup(ctx context.Context, vpc, name string) (*types.SecurityGroup, error) {
	out, err := d.api.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{filter("group-name", name), filter("vpc-id", vpc)},
	})
	if err != nil || len(out.SecurityGroups) == 0 {
		return nil, err
	}
	return &out.SecurityGroups[0], nil
}

// admit has a group let in this program, and its members each other. Rules that are there
// are refused as duplicates.
func (d *driver) admit(ctx context.Context, group types.SecurityGroup) error {
	networks, err := d.letIn(ctx)
	if err != nil {
		return err
	}
	id := sdk.ToString(group.GroupId)
	rules := []types.IpPermission{{IpProtocol: sdk.String("-1"), UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: &id}}}}
	for _, network := range networks {
		rule := types.IpPermission{IpProtocol: sdk.String("tcp"), FromPort: sdk.Int32(22), ToPort: sdk.Int32(22)}
		if prefix := netip.MustParsePrefix(network).Masked(); prefix.Addr().Is4() {
			rule.IpRanges = []types.IpRange{{CidrIp: sdk.String(prefix.String())}}
		} else {
			rule.Ipv6Ranges = []types.Ipv6Range{{CidrIpv6: sdk.String(prefix.String())}}
		}
		rules = append(rules, rule)
	}
	for _, rule := range rules { // one by one: a duplicate refuses all of a call
		err := onceKnown(ctx, "InvalidGroup.NotFound", func() error {
			_, err := d.api.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &id, IpPermissions: []types.IpPermission{rule}})
			return err
		})
		if err != nil && !isCode(err, "InvalidPermission.Duplicate") {
			return err
		}
	}
	return nil
}

// groupOf returns the ID of the nodes' security group.
func (d *driver) groupOf(ctx context.Context, pool gputrain.PoolInfo) (string, error) {
	if d.cfg.SecurityGroupID != "" {
		return d.cfg.SecurityGroupID, nil
	}
	d.mu.Lock()
	id := d.groups[pool.ID]
	d.mu.Unlock()
	if id != "" {
		return id, nil
	}
	net, err := d.network(ctx)
	if err != nil {
		return "", err
	}
	group, err := d.findGroup(ctx, net.vpc, nameOf(pool.ID))
	if err != nil {
		return "", err
	}
	if group == nil || tagList(group.Tags).pool() != pool.ID {
		return "", fmt.Errorf("%w: the pool has no security group: it is not prepared", gputrain.ErrInvalid)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.groups[pool.ID] = sdk.ToString(group.GroupId)
	return d.groups[pool.ID], nil
}

// Resume lets this program in, which may have another address than the one that opened
// the pool.
func (d *driver) Resume(ctx context.Context, pool gputrain.PoolInfo, _ ...string) error {
	if d.cfg.SecurityGroupID != "" {
		return nil // it is the user's
	}
	net, err := d.network(ctx)
	if err != nil {
		return fail("resume", err)
	}
	group, err := d.findGroup(ctx, net.vpc, nameOf(pool.ID))
	if err != nil || group == nil || tagList(group.Tags).pool() != pool.ID {
		return fail("resume", err)
	}
	return fail("resume", d.admit(ctx, *group))
}
