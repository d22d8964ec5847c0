package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
)

// releasePatience is how long something may go on being in use: by the network interfaces
// of machines that are shutting down, for the most part.
func releasePatience() time.Duration { return 90 * second }

// Release removes what Prepare has made, and what a launch has left: launch templates, and
// disks without a machine.
func (d *driver) Release(ctx context.Context, pool gputrain.PoolInfo) error {
	return fail("release", d.release(ctx, pool))
}

func (d *driver) release(ctx context.Context, pool gputrain.PoolInfo) error {
	if err := checkPool(pool.ID); err != nil {
		return err
	}
	held, err := d.list(ctx, pool.ID, d.listTemplates, d.listVolumes, d.listGroups, d.listKeys, d.listPlacements, d.listProfiles)
	if err != nil {
		return err
	}
	for _, made := range pool.Made { // what was made just now may not be listed yet
		byName := made.Kind == kindProfile // whose role is there before it
		if (made.ID != "" || byName) && !slices.ContainsFunc(held, func(r gputrain.Resource) bool {
			return r.Kind == made.Kind && (r.ID == made.ID || byName && r.Name == made.Name)
		}) {
			held = append(held, made)
		}
	}
	var errs []error
	for _, r := range held {
		if len(pool.Remaining) > 0 && (r.Kind == kindProfile || r.Kind == kindGroup || r.Kind == kindPlacement || r.Kind == kindVolume) {
			continue // a machine uses it, or ends itself by it
		}
		if err := d.remove(ctx, r); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", r.Kind, r.Name, err))
		}
	}
	d.mu.Lock()
	delete(d.groups, pool.ID)
	delete(d.pinned, pool.ID)
	d.mu.Unlock()
	return errors.Join(errs...)
}

// remove removes something, once nothing uses it any more.
func (d *driver) remove(ctx context.Context, r gputrain.Resource) error {
	for until := time.Now().Add(releasePatience()); ; {
		asked := time.Now()
		err := d.delete(ctx, r)
		switch {
		case err == nil, isGone(err):
			return nil
		case !isCode(err, "DependencyViolation", "InvalidPlacementGroup.InUse", "DeleteConflict", "VolumeInUse"), asked.After(until), !launches.Pause(ctx, 3*second):
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

func (d *driver) delete(ctx context.Context, r gputrain.Resource) (err error) {
	switch r.Kind {
	case kindGroup:
		_, err = d.api.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &r.ID})
	case kindKey:
		_, err = d.api.ec2.DeleteKeyPair(ctx, &ec2.DeleteKeyPairInput{KeyPairId: &r.ID})
	case kindPlacement:
		_, err = d.api.ec2.DeletePlacementGroup(ctx, &ec2.DeletePlacementGroupInput{GroupName: &r.Name})
	case kindTemplate:
		_, err = d.api.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &r.ID})
	case kindVolume:
		_, err = d.api.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &r.ID})
	case kindProfile:
		err = d.deleteProfile(ctx, r.Name)
	}
	return err
}
