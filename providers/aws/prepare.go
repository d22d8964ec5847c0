package aws

import (
	"context"
	"fmt"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
)

// Prepare makes the pool's security group and, where Config asks for them, its key pair,
// placement group and instance profile.
func (d *driver) Prepare(ctx context.Context, pool gputrain.PoolInfo) error {
	return fail("prepare", d.prepare(ctx, pool))
}

func (d *driver) prepare(ctx context.Context, pool gputrain.PoolInfo) error {
	if err := checkPool(pool.ID); err != nil {
		return err
	}
	net, err := d.network(ctx)
	if err != nil {
		return err
	}
	if d.cfg.SecurityGroupID == "" {
		if err := d.prepareGroup(ctx, pool, net.vpc); err != nil {
			return err
		}
	}
	if d.cfg.ImportKeyPair {
		if err := d.prepareKey(ctx, pool); err != nil {
			return err
		}
	}
	if d.cfg.ClusterPlacement {
		if err := d.preparePlacement(ctx, pool); err != nil {
			return err
		}
	}
	if d.cfg.InstanceProfileARN == autoProfile {
		return d.prepareProfile(ctx, pool)
	}
	return nil
}

// prepareKey registers the pool's public key.
func (d *driver) prepareKey(ctx context.Context, pool gputrain.PoolInfo) error {
	name := nameOf(pool.ID)
	find := func() (id, owner string, err error) {
		out, err := d.api.ec2.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{Filters: []types.Filter{filter("key-name", name)}})
		if err != nil || len(out.KeyPairs) == 0 {
			return "", "", err
		}
		return sdk.ToString(out.KeyPairs[0].KeyPairId), tagList(out.KeyPairs[0].Tags).pool(), nil
	}
	return d.prepareNamed(ctx, pool, kindKey, find, func() error {
		_, err := d.api.ec2.ImportKeyPair(ctx, &ec2.ImportKeyPairInput{
			KeyName: &name, PublicKeyMaterial: []byte(pool.AuthorizedKey), TagSpecifications: poolTags(pool, name).on(types.ResourceTypeKeyPair),
		}, once)
		return err
	})
}

// preparePlacement makes the pool's placement group.
func (d *driver) preparePlacement(ctx context.Context, pool gputrain.PoolInfo) error {
	name := nameOf(pool.ID)
	find := func() (id, owner string, err error) {
		out, err := d.api.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{Filters: []types.Filter{filter("group-name", name)}})
		if err != nil {
			return "", "", err
		}
		for _, g := range out.PlacementGroups {
			if g.State != types.PlacementGroupStateDeleting && g.State != types.PlacementGroupStateDeleted {
				return sdk.ToString(g.GroupId), tagList(g.Tags).pool(), nil
			}
		}
		return "", "", nil
	}
	return d.prepareNamed(ctx, pool, kindPlacement, find, func() error {
		_, err := d.api.ec2.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{
			GroupName: &name, Strategy: types.PlacementStrategyCluster, TagSpecifications: poolTags(pool, name).on(types.ResourceTypePlacementGroup),
		}, once)
		return err
	})
}

// prepareNamed makes something by the pool's name, once. What the answer says does not
// settle it, as it may be lost, or call the thing a duplicate of what another attempt has
// made: whether it is there does.
func (d *driver) prepareNamed(ctx context.Context, pool gputrain.PoolInfo, kind string, find func() (id, owner string, err error), create func() error) error {
	id, owner, err := find()
	if err != nil {
		return err
	}
	r := gputrain.Resource{Kind: kind, Name: nameOf(pool.ID), Region: d.api.region, HourlyUSD: gputrain.USD(0)}
	if id == "" {
		if err := pool.Record(r); err != nil {
			return err
		}
		createErr := create()
		for until := time.Now().Add(listLag()); id == ""; {
			asked := time.Now()
			if id, owner, err = find(); err != nil {
				if createErr != nil {
					return createErr
				}
				return err
			}
			switch {
			case id != "":
			case createErr != nil && (asked.After(until) || !isAmbiguous(createErr) && !isDuplicate(createErr)):
				return createErr
			case asked.After(until):
				return &gputrain.Error{Kind: gputrain.ErrUnavailable, Err: fmt.Errorf("AWS has made the %s %s, and does not list it", kind, r.Name)}
			case !launches.Pause(ctx, second/2):
				return context.Cause(ctx)
			}
		}
	}
	if owner != pool.ID {
		return fmt.Errorf("%w: the %s %s is not the pool's", gputrain.ErrInvalid, kind, r.Name)
	}
	r.ID = id
	return pool.Record(r)
}

func isDuplicate(err error) bool {
	code, _ := codeOf(err)
	return strings.HasSuffix(code, ".Duplicate") || code == "EntityAlreadyExists"
}

// onceKnown makes a call about what was made just now, which EC2 may not know everywhere
// for some seconds: it says so by a code, and nothing has happened then.
func onceKnown(ctx context.Context, code string, call func() error) error {
	for until := time.Now().Add(listLag()); ; {
		asked := time.Now()
		err := call()
		if !isCode(err, code) || asked.After(until) || !launches.Pause(ctx, second) {
			return err
		}
	}
}
