package aws

import (
	"context"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// placementGroups are the pools' cluster placement groups.
type placementGroups struct{ api *client }

func (p *placementGroups) shared() sharedKind {
	return sharedKind{name: kindPlacement, usedByMachines: true, list: p.list, delete: p.delete}
}

// prepare makes the pool's placement group.
func (p *placementGroups) prepare(ctx context.Context, pool driver.PoolInfo) error {
	name := pooltag.SharedName(pool.ID)
	return namedThing{
		kind: kindPlacement, region: p.api.region,
		find: func() (id, owner string, err error) {
			out, err := p.api.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{Filters: []types.Filter{filter("group-name", name)}})
			if err != nil {
				return "", "", err
			}
			for _, g := range out.PlacementGroups {
				if g.State != types.PlacementGroupStateDeleting && g.State != types.PlacementGroupStateDeleted {
					return sdk.ToString(g.GroupId), tagList(g.Tags).pool(), nil
				}
			}
			return "", "", nil
		},
		create: func() error {
			_, err := p.api.ec2.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{
				GroupName: &name, Strategy: types.PlacementStrategyCluster, TagSpecifications: poolTags(pool, name).specifications(types.ResourceTypePlacementGroup),
			}, once)
			return err
		},
	}.prepare(ctx, pool)
}

func (p *placementGroups) list(ctx context.Context, poolID string) (all []driver.Resource, err error) {
	out, err := p.api.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{Filters: ofPool(poolID)})
	if err != nil {
		return nil, err
	}
	for _, g := range out.PlacementGroups {
		if g.State != types.PlacementGroupStateDeleted {
			all = append(all, freeResource(p.api.region, g.Tags, kindPlacement, sdk.ToString(g.GroupId), sdk.ToString(g.GroupName), nil))
		}
	}
	return all, nil
}

func (p *placementGroups) delete(ctx context.Context, r driver.Resource) error {
	_, err := p.api.ec2.DeletePlacementGroup(ctx, &ec2.DeletePlacementGroupInput{GroupName: &r.Name})
	return err
}
