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

	"github.com/gputrain/gputrain"
)

// errNoFleet means that the account may make no fleets, or none now: some have a limit of
// none.
var errNoFleet = errors.New("the account may not make fleets")

// fleet gets a machine by a fleet of one, which EC2 fills at once, in the zone that it
// finds best. A fleet takes nothing but a launch template, which is removed again.
func (d *driver) fleet(ctx context.Context, m creation) ([]gputrain.Instance, error) {
	name := fmt.Sprintf("gputrain-%s-%s", m.node.Name, m.token[:8])
	defer d.deleteTemplate(ctx, name)
	template, err := d.api.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name, ClientToken: &m.token, LaunchTemplateData: m.template(),
		TagSpecifications: poolTags(m.req.Pool, name).on(types.ResourceTypeLaunchTemplate),
	}, once)
	if isDenied(err) {
		return nil, fmt.Errorf("%w: %w", errNoFleet, err)
	}
	if err != nil {
		return nil, err // no machine was made
	}
	if template.LaunchTemplate == nil || sdk.ToString(template.LaunchTemplate.LaunchTemplateId) == "" {
		return nil, &gputrain.Error{Kind: gputrain.ErrUnavailable, Err: errors.New("CreateLaunchTemplate: the answer names no template")}
	}
	var out *ec2.CreateFleetOutput
	err = onceKnown(ctx, "InvalidLaunchTemplateId.NotFound", func() (err error) {
		out, err = d.api.ec2.CreateFleet(ctx, d.fleetOf(m, *template.LaunchTemplate.LaunchTemplateId), once)
		return err
	})
	switch {
	case isDenied(err), isCode(err, "MaxFleetCountExceeded"):
		return nil, fmt.Errorf("%w: %w", errNoFleet, err)
	case isAmbiguous(err), isCode(err, "IdempotentParameterMismatch"): // made now, or by an earlier call with the token
		return d.settle(ctx, m, err)
	case err != nil:
		return nil, err
	}
	var got []gputrain.Instance
	for _, group := range out.Instances { // there may be errors beside them
		for _, id := range group.InstanceIds {
			got = append(got, d.launched(m, id, zoneOfFleet(group, m.net)))
		}
	}
	switch {
	case len(got) > 0:
		return got, nil
	case len(out.Errors) == 0:
		return d.settle(ctx, m, errors.New("CreateFleet: the answer has neither instances nor errors"))
	}
	err = refusal(out.Errors)
	if errors.Is(err, gputrain.ErrUnavailable) {
		return d.settle(ctx, m, err)
	}
	return nil, err
}

// zoneOfFleet is where a fleet has found room.
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

// refusal is why a fleet has no machine. Of several reasons what may be none, a failure of
// AWS's own, comes first, and then what no other zone or type changes.
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
	for _, kind := range []error{gputrain.ErrUnavailable, gputrain.ErrAuth, gputrain.ErrQuota, gputrain.ErrInvalid, gputrain.ErrNotFound, gputrain.ErrRateLimited, gputrain.ErrUnsupported} {
		if found[kind] {
			return &gputrain.Error{Kind: kind, Err: errors.New(strings.Join(said, "; ")), Hint: hints[kind]}
		}
	}
	return &gputrain.Error{Kind: gputrain.ErrNoCapacity, Err: errors.New(strings.Join(said, "; "))}
}

// fleetOf is the request for a fleet of one.
func (d *driver) fleetOf(m creation, templateID string) *ec2.CreateFleetInput {
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
		if d.cfg.AllocationStrategy == CapacityOptimizedPrioritized && m.req.Offer.Spot {
			o.Priority = sdk.Float64(float64(i))
		}
		config.Overrides = append(config.Overrides, o)
	}
	in := &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant, ClientToken: &m.token, LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{config},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: sdk.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand,
		},
		TagSpecifications: poolTags(m.req.Pool, m.node.Name).on(types.ResourceTypeFleet),
	}
	if m.req.Offer.Spot {
		in.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeSpot
		in.SpotOptions = &types.SpotOptionsRequest{
			AllocationStrategy: types.SpotAllocationStrategy(d.cfg.AllocationStrategy), InstanceInterruptionBehavior: types.SpotInstanceInterruptionBehaviorTerminate,
			SingleInstanceType: sdk.Bool(true), MinTargetCapacity: sdk.Int32(1),
		}
	} else {
		in.OnDemandOptions = &types.OnDemandOptionsRequest{
			AllocationStrategy: types.FleetOnDemandAllocationStrategyLowestPrice, SingleInstanceType: sdk.Bool(true), MinTargetCapacity: sdk.Int32(1),
		}
	}
	return in
}

// template is what a machine is, as a launch template has it.
func (m creation) template() *types.RequestLaunchTemplateData {
	data := &types.RequestLaunchTemplateData{
		ImageId: &m.image.id, InstanceType: types.InstanceType(m.req.Offer.InstanceType), UserData: &m.userData,
		InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorTerminate,
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptionsRequest{
			HttpTokens: types.LaunchTemplateHttpTokensStateRequired, HttpPutResponseHopLimit: sdk.Int32(2),
		},
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: &m.image.root, Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{
			VolumeSize: &m.diskGB, VolumeType: types.VolumeTypeGp3, DeleteOnTermination: sdk.Bool(true),
		}}},
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{
			DeviceIndex: sdk.Int32(0), Groups: []string{m.group}, AssociatePublicIpAddress: sdk.Bool(true), DeleteOnTermination: sdk.Bool(true),
		}},
	}
	for _, t := range m.tags.on(types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface) {
		data.TagSpecifications = append(data.TagSpecifications, types.LaunchTemplateTagSpecificationRequest{ResourceType: t.ResourceType, Tags: t.Tags})
	}
	if m.key != "" {
		data.KeyName = &m.key
	}
	if m.profile != "" {
		data.IamInstanceProfile = &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Arn: &m.profile}
	}
	if m.attempt.placement != "" {
		data.Placement = &types.LaunchTemplatePlacementRequest{GroupName: &m.attempt.placement}
	}
	return data
}

// deleteTemplate removes a launch template, though the caller may have given up. Release
// removes what is left.
func (d *driver) deleteTemplate(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	_, _ = d.api.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
}
