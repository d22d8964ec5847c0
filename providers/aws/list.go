package aws

import (
	"context"
	"slices"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain"
)

// listsAtOnce is how many kinds of things are listed at the same time.
const listsAtOnce = 4

// List reports what the region holds for a pool, or for all, by its tags: machines, disks
// that were left, security groups, key pairs, placement groups, launch templates and, where
// Config has "auto" for it, instance profiles.
func (d *driver) List(ctx context.Context, poolID string) ([]gputrain.Resource, error) {
	if poolID != "" {
		if err := checkPool(poolID); err != nil {
			return nil, fail("list", err)
		}
	}
	all, err := d.list(ctx, poolID, d.listMachines, d.listVolumes, d.listGroups, d.listKeys, d.listPlacements, d.listTemplates, d.listProfiles)
	return all, fail("list", err)
}

// A lister reports what there is of one kind.
type lister func(ctx context.Context, poolID string) ([]gputrain.Resource, error)

func (d *driver) list(ctx context.Context, poolID string, listers ...lister) ([]gputrain.Resource, error) {
	var mu sync.Mutex
	all := []gputrain.Resource{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(listsAtOnce)
	for _, list := range listers {
		g.Go(func() error {
			some, err := list(ctx, poolID)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, some...)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// A filter that was not understood must not make somebody else's things a pool's.
	all = slices.DeleteFunc(all, func(r gputrain.Resource) bool { return r.Pool == "" || poolID != "" && r.Pool != poolID })
	return all, nil
}

func (d *driver) listMachines(ctx context.Context, poolID string) (all []gputrain.Resource, err error) {
	live := filter("instance-state-name", "pending", "running", "stopping", "stopped", "shutting-down")
	found, err := d.instances(ctx, append(ofPool(poolID), live)...)
	for _, in := range found {
		tags := tagList(in.Tags)
		r := tags.resource(kindMachine, sdk.ToString(in.InstanceId), tags.value(tagNode), d.api.region)
		if r.State, _ = stateOf(in); d.hasGone(d.remembered(r.ID), r.State) {
			continue
		}
		r.Created = sdk.ToTime(in.LaunchTime)
		if r.HourlyUSD = tags.price(); in.InstanceLifecycle == types.InstanceLifecycleTypeSpot {
			r.HourlyUSD = d.offerOf(in, d.remembered(r.ID)).HourlyUSD
		}
		all = append(all, r)
	}
	return all, err
}

// listVolumes reports disks that outlived their machines, and are billed.
func (d *driver) listVolumes(ctx context.Context, poolID string) (all []gputrain.Resource, err error) {
	pages := ec2.NewDescribeVolumesPaginator(d.api.ec2, &ec2.DescribeVolumesInput{Filters: append(ofPool(poolID), filter("status", "available"))})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = isList("DescribeVolumes", page.Volumes)
		}
		if err != nil {
			return nil, err
		}
		for _, v := range page.Volumes {
			r := tagList(v.Tags).resource(kindVolume, sdk.ToString(v.VolumeId), "", d.api.region)
			r.Created = sdk.ToTime(v.CreateTime)
			r.HourlyUSD = gputrain.USD(float64(sdk.ToInt32(v.Size)) * diskUSD)
			all = append(all, r)
		}
	}
	return all, nil
}

func (d *driver) listGroups(ctx context.Context, poolID string) (all []gputrain.Resource, err error) {
	pages := ec2.NewDescribeSecurityGroupsPaginator(d.api.ec2, &ec2.DescribeSecurityGroupsInput{Filters: ofPool(poolID)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, g := range page.SecurityGroups {
			all = append(all, d.free(g.Tags, kindGroup, sdk.ToString(g.GroupId), sdk.ToString(g.GroupName), nil))
		}
	}
	return all, nil
}

func (d *driver) listKeys(ctx context.Context, poolID string) (all []gputrain.Resource, err error) {
	out, err := d.api.ec2.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{Filters: ofPool(poolID)})
	if err != nil {
		return nil, err
	}
	for _, k := range out.KeyPairs {
		all = append(all, d.free(k.Tags, kindKey, sdk.ToString(k.KeyPairId), sdk.ToString(k.KeyName), k.CreateTime))
	}
	return all, nil
}

func (d *driver) listPlacements(ctx context.Context, poolID string) (all []gputrain.Resource, err error) {
	out, err := d.api.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{Filters: ofPool(poolID)})
	if err != nil {
		return nil, err
	}
	for _, g := range out.PlacementGroups {
		if g.State != types.PlacementGroupStateDeleted {
			all = append(all, d.free(g.Tags, kindPlacement, sdk.ToString(g.GroupId), sdk.ToString(g.GroupName), nil))
		}
	}
	return all, nil
}

// listTemplates reports launch templates: of launches whose program died before it could
// remove them.
func (d *driver) listTemplates(ctx context.Context, poolID string) (all []gputrain.Resource, err error) {
	pages := ec2.NewDescribeLaunchTemplatesPaginator(d.api.ec2, &ec2.DescribeLaunchTemplatesInput{Filters: ofPool(poolID)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range page.LaunchTemplates {
			all = append(all, d.free(t.Tags, kindTemplate, sdk.ToString(t.LaunchTemplateId), sdk.ToString(t.LaunchTemplateName), t.CreateTime))
		}
	}
	return all, nil
}

// free is something that costs nothing.
func (d *driver) free(tags []types.Tag, kind, id, name string, created *time.Time) gputrain.Resource {
	r := tagList(tags).resource(kind, id, name, d.api.region)
	r.HourlyUSD, r.Created = gputrain.USD(0), sdk.ToTime(created)
	return r
}
