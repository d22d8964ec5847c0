package aws

import (
	"context"
	"errors"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/providers/driver"
)

// launchTemplates are the templates that fleets need. A launch removes its own. Release removes
// those of launches whose program died before that.
type launchTemplates struct{ api *client }

func (t *launchTemplates) shared() sharedKind {
	return sharedKind{name: kindTemplate, list: t.list, delete: t.delete}
}

// create makes the template of a creation and returns its ID. It makes no machine.
func (t *launchTemplates) create(ctx context.Context, name string, m creation) (id string, err error) {
	out, err := t.api.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name, ClientToken: &m.token, LaunchTemplateData: m.template(),
		TagSpecifications: poolTags(m.req.Pool, name).specifications(types.ResourceTypeLaunchTemplate),
	}, once)
	if err != nil {
		return "", err
	}
	if out.LaunchTemplate == nil || sdk.ToString(out.LaunchTemplate.LaunchTemplateId) == "" {
		return "", &driver.Error{Kind: driver.ErrUnavailable, Err: errors.New("CreateLaunchTemplate: the answer has no template")}
	}
	return *out.LaunchTemplate.LaunchTemplateId, nil
}

// template returns the machine of a creation as a launch template.
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
	for _, t := range m.tags.specifications(types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface) {
		data.TagSpecifications = append(data.TagSpecifications, types.LaunchTemplateTagSpecificationRequest{ResourceType: t.ResourceType, Tags: t.Tags})
	}
	if spec := m.reserved.specification(); spec != nil { // of a preference: fleets have no reservation of their own
		data.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{CapacityReservationPreference: spec.CapacityReservationPreference}
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

// remove deletes a template by its name, even after the caller has given up.
func (t *launchTemplates) remove(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	_, _ = t.api.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
}

func (t *launchTemplates) list(ctx context.Context, poolID string) (all []driver.Resource, err error) {
	pages := ec2.NewDescribeLaunchTemplatesPaginator(t.api.ec2, &ec2.DescribeLaunchTemplatesInput{Filters: ofPool(poolID)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, found := range page.LaunchTemplates {
			all = append(all, freeResource(t.api.region, found.Tags, kindTemplate, sdk.ToString(found.LaunchTemplateId), sdk.ToString(found.LaunchTemplateName), found.CreateTime))
		}
	}
	return all, nil
}

func (t *launchTemplates) delete(ctx context.Context, r driver.Resource) error {
	_, err := t.api.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &r.ID})
	return err
}
