package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/providers/driver"
)

// snapshots are the snapshots of AMIs, which have the tags of their AMI's pool. One that has outlived its AMI is still
// billed: a call that deregisters an AMI succeeds also if it does not delete a snapshot.
type snapshots struct{ api *client }

func (s *snapshots) shared() sharedKind {
	return sharedKind{name: kindSnapshot, list: s.list, delete: s.delete}
}

// list lists the snapshots without an AMI. An AMI in the making may not name its snapshots yet: they have its name.
func (s *snapshots) list(ctx context.Context, poolID string) (all []driver.Resource, err error) {
	if poolID != "" && !driver.IsBake(poolID) {
		return nil, nil
	}
	found, err := s.find(ctx, ofPool(poolID))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	images, err := s.api.ownImages(ctx) // after the snapshots, so that it has their images
	if err != nil {
		return nil, err
	}
	for _, one := range found {
		r := tagList(one.Tags).resource(kindSnapshot, sdk.ToString(one.SnapshotId), tagList(one.Tags).value("Name"), s.api.region)
		if slices.ContainsFunc(images, func(i types.Image) bool { return sdk.ToString(i.Name) == r.Name || hasSnapshot(i, r.ID) }) {
			continue
		}
		r.Created = sdk.ToTime(one.StartTime)
		r.HourlyUSD = driver.USD(float64(sdk.ToInt32(one.VolumeSize)) * snapshotUSD)
		all = append(all, r)
	}
	return all, nil
}

func hasSnapshot(i types.Image, id string) bool {
	return slices.ContainsFunc(i.BlockDeviceMappings, func(m types.BlockDeviceMapping) bool { return m.Ebs != nil && sdk.ToString(m.Ebs.SnapshotId) == id })
}

// find returns the snapshots of this account that pass filters.
func (s *snapshots) find(ctx context.Context, filters []types.Filter) (all []types.Snapshot, err error) {
	pages := ec2.NewDescribeSnapshotsPaginator(s.api.ec2, &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}, Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = isList("DescribeSnapshots", page.Snapshots)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, page.Snapshots...)
	}
	return all, nil
}

// deleteOf deletes what deregistered AMIs have left. EC2 describes their snapshots as "Created by CreateImage(i-...) for
// ami-...".
func (s *snapshots) deleteOf(ctx context.Context, images ...string) error {
	found, err := s.find(ctx, []types.Filter{filter("tag-key", tagManaged)})
	if err != nil {
		return err
	}
	var errs []error
	for _, one := range found {
		if !slices.ContainsFunc(strings.Fields(sdk.ToString(one.Description)), func(word string) bool { return slices.Contains(images, word) }) {
			continue
		}
		id := sdk.ToString(one.SnapshotId)
		if err := s.delete(ctx, driver.Resource{ID: id}); err != nil && !isGone(err) {
			errs = append(errs, fmt.Errorf("snapshot %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// delete deletes a snapshot. EC2 refuses that for one that an AMI has, which a list may still have lacked.
func (s *snapshots) delete(ctx context.Context, r driver.Resource) error {
	_, err := s.api.ec2.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &r.ID})
	if isCode(err, "InvalidSnapshot.InUse") {
		return nil
	}
	return err
}
