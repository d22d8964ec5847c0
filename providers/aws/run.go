package aws

import (
	"context"
	"errors"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/providers/driver"
)

// run gets a machine without a fleet, from the first zone that has room.
func (l *launcher) run(ctx context.Context, m creation) (got []driver.Instance, err error) {
	for _, zone := range m.attempt.zones {
		in := m.runOf(zone)
		out, runErr := l.api.ec2.RunInstances(ctx, in, once)
		switch {
		case isAmbiguous(runErr), isCode(runErr, "IdempotentParameterMismatch"):
			return l.settle(ctx, m, runErr)
		case kindOf(runErr) == driver.ErrNoCapacity:
			err = runErr
			continue
		case runErr != nil:
			return nil, runErr
		case len(out.Instances) == 0:
			return l.settle(ctx, m, errors.New("RunInstances: the answer has no instances"))
		}
		for _, in := range out.Instances {
			got = append(got, l.launched(m, sdk.ToString(in.InstanceId), zone))
		}
		return got, nil
	}
	return nil, err
}

// runOf returns the request for one machine in a zone.
func (m creation) runOf(zone string) *ec2.RunInstancesInput {
	in := &ec2.RunInstancesInput{
		ImageId: &m.image.id, InstanceType: types.InstanceType(m.req.Offer.InstanceType), MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1),
		ClientToken: sdk.String(token(m.token, zone)), UserData: &m.userData,
		InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorTerminate,
		MetadataOptions: &types.InstanceMetadataOptionsRequest{
			HttpTokens: types.HttpTokensStateRequired, HttpPutResponseHopLimit: sdk.Int32(2),
		},
		BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: &m.image.root, Ebs: &types.EbsBlockDevice{
			VolumeSize: &m.diskGB, VolumeType: types.VolumeTypeGp3, DeleteOnTermination: sdk.Bool(true),
		}}},
		NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{
			DeviceIndex: sdk.Int32(0), SubnetId: sdk.String(m.net.subnetIn(zone)), Groups: []string{m.group},
			AssociatePublicIpAddress: sdk.Bool(true), DeleteOnTermination: sdk.Bool(true),
		}},
		TagSpecifications: m.tags.specifications(types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface),
	}
	if m.key != "" {
		in.KeyName = &m.key
	}
	if m.profile != "" {
		in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Arn: &m.profile}
	}
	if m.attempt.placement != "" {
		in.Placement = &types.Placement{GroupName: &m.attempt.placement}
	}
	in.CapacityReservationSpecification = m.reserved.specification()
	if m.reserved.block {
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeCapacityBlock}
	}
	if m.req.Offer.Spot {
		spot := &types.SpotMarketOptions{
			SpotInstanceType: types.SpotInstanceTypeOneTime, InstanceInterruptionBehavior: types.InstanceInterruptionBehaviorTerminate,
		}
		if m.maxUSD != "" {
			spot.MaxPrice = &m.maxUSD
		}
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot, SpotOptions: spot}
		in.TagSpecifications = append(in.TagSpecifications, m.tags.specifications(types.ResourceTypeSpotInstancesRequest)...)
	}
	return in
}
