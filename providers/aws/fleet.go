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
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// errNoFleet means that the account may not make fleets, or none now: some accounts have a
// limit of zero.
var errNoFleet = errors.New("the account may not make fleets")

// fleet gets a machine by a fleet of one. EC2 fills the fleet at once, in the zone that it
// prefers. A fleet needs a launch template, which is removed again.
func (l *launcher) fleet(ctx context.Context, m creation) ([]driver.Instance, error) {
	name := pooltag.Prefix + m.node.Name + "-" + m.token[:8]
	defer l.templates.remove(ctx, name)
	template, err := l.templates.create(ctx, name, m)
	if isDenied(err) {
		return nil, fmt.Errorf("%w: %w", errNoFleet, err)
	}
	if err != nil {
		return nil, err // no machine was made
	}
	var out *ec2.CreateFleetOutput
	err = onceKnown(ctx, "InvalidLaunchTemplateId.NotFound", func() (err error) {
		out, err = l.api.ec2.CreateFleet(ctx, l.fleetOf(m, template), once)
		return err
	})
	switch {
	case isDenied(err), isCode(err, "MaxFleetCountExceeded"):
		return nil, fmt.Errorf("%w: %w", errNoFleet, err)
	case isAmbiguous(err), isCode(err, "IdempotentParameterMismatch"): // made now, or by an earlier call with the token
		return l.settle(ctx, m, err)
	case err != nil:
		return nil, err
	}
	var got []driver.Instance
	for _, group := range out.Instances { // errors may stand beside them
		for _, id := range group.InstanceIds {
			got = append(got, l.launched(m, id, zoneOfFleet(group, m.net)))
		}
	}
	switch {
	case len(got) > 0:
		return got, nil
	case len(out.Errors) == 0:
		return l.settle(ctx, m, errors.New("CreateFleet: the answer has neither instances nor errors"))
	}
	err = refusal(out.Errors)
	if errors.Is(err, driver.ErrUnavailable) {
		return l.settle(ctx, m, err)
	}
	return nil, err
}

// zoneOfFleet returns the zone in which a fleet has found room, or "".
func zoneOfFleet(group types.CreateFleetInstance, net *network) string {
	if zone := sdk.ToString(group.AvailabilityZone); zone != "" {
		return zone
	}
	if lt := group.LaunchTemplateAndOverrides; lt != nil && lt.Overrides != nil {
		if zone := sdk.ToString(lt.Overrides.AvailabilityZone); zone != "" {
			return zone
		}
		return net.zoneOf(sdk.ToString(lt.Overrides.SubnetId))
	}
	return ""
}

// refusal returns the reason why a fleet has no machine. Of several reasons it prefers a
// failure of AWS's own, after which a machine may exist, then one that no other zone or type
// changes.
func refusal(errs []types.CreateFleetError) error {
	var said []string
	found := map[error]bool{}
	for _, e := range errs {
		code, message := sdk.ToString(e.ErrorCode), sdk.ToString(e.ErrorMessage)
		if code == "MaxFleetCountExceeded" {
			return fmt.Errorf("%w: %s", errNoFleet, message)
		}
		where := ""
		if lt := e.LaunchTemplateAndOverrides; lt != nil && lt.Overrides != nil {
			where = " (" + sdk.ToString(lt.Overrides.SubnetId) + ")"
		}
		if text := code + where + ": " + message; !slices.Contains(said, text) {
			said = append(said, text)
		}
		found[kindOfCode(code, message)] = true
	}
	for _, kind := range []error{driver.ErrUnavailable, driver.ErrAuth, driver.ErrQuota, driver.ErrInvalid, driver.ErrNotFound, driver.ErrRateLimited, driver.ErrUnsupported} {
		if found[kind] {
			return &driver.Error{Kind: kind, Err: errors.New(strings.Join(said, "; ")), Hint: hints[kind]}
		}
	}
	return &driver.Error{Kind: driver.ErrNoCapacity, Err: errors.New(strings.Join(said, "; "))}
}

// fleetOf returns the request for a fleet of one.
func (l *launcher) fleetOf(m creation, templateID string) *ec2.CreateFleetInput {
	config := types.FleetLaunchTemplateConfigRequest{
		LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: &templateID, Version: sdk.String("$Latest")},
	}
	for i, zone := range m.attempt.zones {
		o := types.FleetLaunchTemplateOverridesRequest{
			SubnetId: sdk.String(m.net.subnetIn(zone)), InstanceType: types.InstanceType(m.req.Offer.InstanceType),
		}
		if m.maxUSD != "" {
			o.MaxPrice = &m.maxUSD
		}
		if l.cfg.AllocationStrategy == CapacityOptimizedPrioritized && m.req.Offer.Spot {
			o.Priority = sdk.Float64(float64(i))
		}
		config.Overrides = append(config.Overrides, o)
	}
	in := &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant, ClientToken: &m.token, LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{config},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: sdk.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand,
		},
		TagSpecifications: poolTags(m.req.Pool, m.node.Name).specifications(types.ResourceTypeFleet),
	}
	if m.req.Offer.Spot {
		in.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeSpot
		in.SpotOptions = &types.SpotOptionsRequest{
			AllocationStrategy: types.SpotAllocationStrategy(l.cfg.AllocationStrategy), InstanceInterruptionBehavior: types.SpotInstanceInterruptionBehaviorTerminate,
			SingleInstanceType: sdk.Bool(true), MinTargetCapacity: sdk.Int32(1),
		}
	} else {
		in.OnDemandOptions = &types.OnDemandOptionsRequest{
			AllocationStrategy: types.FleetOnDemandAllocationStrategyLowestPrice, SingleInstanceType: sdk.Bool(true), MinTargetCapacity: sdk.Int32(1),
		}
	}
	return in
}
