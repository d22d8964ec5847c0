package aws

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// securityGroups are the pools' security groups, each of which lets in this program, and the
// nodes to each other; or the one group that the user has given for all pools.
type securityGroups struct {
	api      *client
	networks *networks
	admitted *admitted
	given    string // the ID of the user's group; if set, nothing is made or changed

	mu    sync.Mutex
	known map[string]string // IDs, by pool
}

func (g *securityGroups) shared() sharedKind {
	return sharedKind{name: kindGroup, usedByMachines: true, list: g.list, delete: g.delete}
}

// prepare makes the pool's security group.
func (g *securityGroups) prepare(ctx context.Context, pool driver.PoolInfo) error {
	net, err := g.networks.find(ctx)
	if err != nil {
		return err
	}
	name := pooltag.SharedName(pool.ID)
	var group *types.SecurityGroup
	err = namedThing{
		kind: kindGroup, region: g.api.region,
		find: func() (id, owner string, err error) {
			if group, err = g.find(ctx, net.vpc, name); err != nil || group == nil {
				return "", "", err
			}
			return sdk.ToString(group.GroupId), tagList(group.Tags).pool(), nil
		},
		create: func() error {
			_, err := g.api.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
				GroupName: &name, Description: sdk.String("gputrain pool " + pool.ID), VpcId: &net.vpc,
				TagSpecifications: poolTags(pool, name).specifications(types.ResourceTypeSecurityGroup),
			}, once)
			return err
		},
	}.prepare(ctx, pool)
	if err != nil {
		return err
	}
	g.remember(pool.ID, sdk.ToString(group.GroupId))
	return g.admit(ctx, *group)
}

func (g *securityGroups) find(ctx context.Context, vpc, name string) (*types.SecurityGroup, error) {
	out, err := g.api.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{filter("group-name", name), filter("vpc-id", vpc)},
	})
	if err != nil || len(out.SecurityGroups) == 0 {
		return nil, err
	}
	return &out.SecurityGroups[0], nil
}

// findOf returns the pool's security group, or nil if it has none.
func (g *securityGroups) findOf(ctx context.Context, poolID string) (*types.SecurityGroup, error) {
	net, err := g.networks.find(ctx)
	if err != nil {
		return nil, err
	}
	group, err := g.find(ctx, net.vpc, pooltag.SharedName(poolID))
	if err != nil || group == nil || tagList(group.Tags).pool() != poolID {
		return nil, err
	}
	return group, nil
}

// admit makes a group let in this program, and its members each other. EC2 refuses existing
// rules as duplicates.
func (g *securityGroups) admit(ctx context.Context, group types.SecurityGroup) error {
	networks, err := g.admitted.find(ctx)
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
	for _, rule := range rules { // one by one: a duplicate fails the whole call
		err := onceKnown(ctx, "InvalidGroup.NotFound", func() error {
			_, err := g.api.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &id, IpPermissions: []types.IpPermission{rule}})
			return err
		})
		if err != nil && !isCode(err, "InvalidPermission.Duplicate") {
			return err
		}
	}
	return nil
}

// id returns the ID of the security group of a pool's nodes.
func (g *securityGroups) id(ctx context.Context, poolID string) (string, error) {
	if g.given != "" {
		return g.given, nil
	}
	g.mu.Lock()
	id := g.known[poolID]
	g.mu.Unlock()
	if id != "" {
		return id, nil
	}
	group, err := g.findOf(ctx, poolID)
	if err != nil {
		return "", err
	}
	if group == nil {
		return "", fmt.Errorf("%w: the pool has no security group: Prepare did not run", driver.ErrInvalid)
	}
	id = sdk.ToString(group.GroupId)
	g.remember(poolID, id)
	return id, nil
}

func (g *securityGroups) remember(poolID, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known[poolID] = id
}

func (g *securityGroups) forget(poolID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.known, poolID)
}

// resume makes the pool's group let in this program, unless the group is the user's.
func (g *securityGroups) resume(ctx context.Context, poolID string) error {
	if g.given != "" {
		return nil
	}
	group, err := g.findOf(ctx, poolID)
	if err != nil || group == nil {
		return err
	}
	return g.admit(ctx, *group)
}

func (g *securityGroups) list(ctx context.Context, poolID string) (all []driver.Resource, err error) {
	pages := ec2.NewDescribeSecurityGroupsPaginator(g.api.ec2, &ec2.DescribeSecurityGroupsInput{Filters: ofPool(poolID)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, group := range page.SecurityGroups {
			all = append(all, freeResource(g.api.region, group.Tags, kindGroup, sdk.ToString(group.GroupId), sdk.ToString(group.GroupName), nil))
		}
	}
	return all, nil
}

func (g *securityGroups) delete(ctx context.Context, r driver.Resource) error {
	_, err := g.api.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &r.ID})
	return err
}
