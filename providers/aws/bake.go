package aws

import (
	"context"
	"errors"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Images have the tags of a pool, and these. tagBaked makes an image a finished one.
const (
	tagBaked = "gputrain:baked"      // the key
	tagBase  = "gputrain:baked-base" // the image that it was made of
)

// snapshotUSD is the hourly price of a GB of a snapshot: $0.05 a month in us-east-1, by AWS's price
// page of EBS. Other regions charge up to half more. Blocks that were never written cost nothing, so an
// image costs at most that for the size of its disk.
const snapshotUSD = 0.05 / 730

var _ driver.Baker = (*awsDriver)(nil)

// amis are the AMIs of this account that gputrain has made.
type amis struct {
	api    *client
	images *images
}

// bakery returns what makes AMIs of machines.
func (d *awsDriver) bakery(images *images) *cloud.Bakery {
	return &cloud.Bakery{Provider: providerName, Images: &amis{d.api, images}, Capabilities: d.Capabilities, Fail: fail}
}

// Bake makes an AMI of a machine. It is finished by a tag.
func (d *awsDriver) Bake(ctx context.Context, req driver.Bake) (driver.BakedImage, error) {
	return d.baked.Bake(ctx, req)
}

// BakedImages lists the finished AMIs of the region.
func (d *awsDriver) BakedImages(ctx context.Context) ([]driver.BakedImage, error) {
	return d.baked.BakedImages(ctx)
}

// DeleteBaked deregisters AMIs and deletes their snapshots, also those of AMIs that are gone.
func (d *awsDriver) DeleteBaked(ctx context.Context, ids ...string) error {
	err := d.baked.DeleteBaked(ctx, ids...)
	return errors.Join(err, fail("delete baked images", (&snapshots{d.api}).deleteOf(ctx, ids...)))
}

// MakeImage makes an AMI without a reboot, which would end the timer that ends the machine if this
// program dies. The machine has written its disk, and runs nothing any more.
func (a *amis) MakeImage(ctx context.Context, order cloud.ImageOrder) (string, error) {
	tags := tagsOf(order.Tag, order.Name)
	tags.add(tagBase, a.images.base(order.Instance.Offer))
	tags.add(tagUser, order.Instance.SSH.User)
	out, err := a.api.ec2.CreateImage(ctx, &ec2.CreateImageInput{
		InstanceId: &order.Instance.ID, Name: &order.Name, NoReboot: sdk.Bool(true),
		TagSpecifications: tags.specifications(types.ResourceTypeImage, types.ResourceTypeSnapshot),
	}, once)
	if err != nil {
		return "", err
	}
	return sdk.ToString(out.ImageId), nil
}

// Images lists the AMIs that have gputrain's tags, in any state.
func (a *amis) Images(ctx context.Context) (all []cloud.Image, err error) {
	found, err := a.api.ownImages(ctx, filter("tag-key", tagManaged))
	for _, i := range found {
		all = append(all, a.image(i))
	}
	return all, err
}

// ownImages returns the AMIs of this account that pass filters.
func (c *client) ownImages(ctx context.Context, filters ...types.Filter) (all []types.Image, err error) {
	pages := ec2.NewDescribeImagesPaginator(c.ec2, &ec2.DescribeImagesInput{Owners: []string{"self"}, Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = isList("DescribeImages", page.Images)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, page.Images...)
	}
	return all, nil
}

func (a *amis) image(found types.Image) cloud.Image {
	tags := tagList(found.Tags)
	created, _ := time.Parse(time.RFC3339, sdk.ToString(found.CreationDate)) // zero if it is not a time
	i := cloud.Image{Tag: tags.tag(), Finished: tags.value(tagBaked) != "", State: imageStates[found.State]}
	i.BakedImage = driver.BakedImage{
		ID: sdk.ToString(found.ImageId), Name: sdk.ToString(found.Name), Key: tags.value(tagBaked), Region: a.api.region, Base: tags.value(tagBase), Created: created,
	}
	switch found.Architecture {
	case types.ArchitectureValuesX8664:
		i.Arch = "amd64"
	case types.ArchitectureValuesArm64:
		i.Arch = "arm64"
	}
	for _, m := range found.BlockDeviceMappings {
		if m.Ebs != nil {
			i.SizeGiB += float64(sdk.ToInt32(m.Ebs.VolumeSize))
		}
	}
	if i.SizeGiB > 0 {
		i.HourlyUSD = driver.USD(i.SizeGiB * snapshotUSD)
	}
	if why := found.StateReason; why != nil {
		i.Reason = sdk.ToString(why.Code) + ": " + sdk.ToString(why.Message)
	}
	return i
}

// imageStates are the states of AMIs. One that is deregistered, disabled or invalid serves no launch.
var imageStates = map[types.ImageState]cloud.ImageState{
	types.ImageStatePending: cloud.ImageMaking, types.ImageStateTransient: cloud.ImageMaking, types.ImageStateAvailable: cloud.ImageMade,
	types.ImageStateFailed: cloud.ImageFailed, types.ImageStateError: cloud.ImageFailed, types.ImageStateInvalid: cloud.ImageFailed,
	types.ImageStateDeregistered: cloud.ImageFailed, types.ImageStateDisabled: cloud.ImageFailed,
}

// FinishImage tags an AMI with its key.
func (a *amis) FinishImage(ctx context.Context, image cloud.Image, key string) error {
	tags := tagList{}
	tags.add(tagBaked, key)
	_, err := a.api.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{image.ID}, Tags: tags})
	return err
}

// DeleteImage deregisters an AMI, and with it deletes its snapshots. EC2 may leave one: DeleteBaked and Release delete that.
func (a *amis) DeleteImage(ctx context.Context, image cloud.Image) error {
	_, err := a.api.ec2.DeregisterImage(ctx, &ec2.DeregisterImageInput{ImageId: &image.ID, DeleteAssociatedSnapshots: sdk.Bool(true)})
	return err
}

// base names the image that machines of an offer start from, as the configuration does: the newest
// release of a default image is another AMI every few weeks.
func (i *images) base(o driver.Offer) string {
	s, _ := softwareFor(o.Accelerator)
	arch := o.Arch
	if arch == "" {
		arch = "amd64"
	}
	base := i.ami
	if base == "" {
		base = parameter(i.ubuntu, arch, s)
	}
	if i.username != "" {
		base += " of " + i.username
	}
	return base
}

// baked returns the AMI of a prepared machine.
func (i *images) baked(ctx context.Context, id string) (image, error) {
	found, err := i.byID(ctx, id)
	if err != nil {
		return image{}, err
	}
	im, err := i.read(found)
	if user := tagList(found.Tags).value(tagUser); user != "" {
		im.user = user
	}
	return im, err
}
