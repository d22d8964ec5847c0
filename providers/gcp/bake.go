package gcp

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// labelBaked is the label of a finished image: "true". Its description has the tag, with the key, which
// no label has room for.
const labelBaked = "gputrain-baked"

// imageUSD is the hourly price of a GB of an image: $0.05 a month, by Google's price page of disks and
// images. Google stores images compressed, and reports that size.
const imageUSD = 0.05 / 730

const bytesOfGiB = 1 << 30

var _ driver.Baker = (*gcpDriver)(nil)

// baked are the images of the project that gputrain has made.
type baked struct {
	cfg    Config //secretvet:ignore complete, without credentials
	api    *client
	images *images
}

// Bake makes an image of the project of a machine's disk. It is finished by a label.
func (d *gcpDriver) Bake(ctx context.Context, req driver.Bake) (driver.BakedImage, error) {
	return d.bakery.Bake(ctx, req)
}

// BakedImages lists the finished images of the project.
func (d *gcpDriver) BakedImages(ctx context.Context) ([]driver.BakedImage, error) {
	return d.bakery.BakedImages(ctx)
}

// DeleteBaked deletes images.
func (d *gcpDriver) DeleteBaked(ctx context.Context, ids ...string) error {
	return d.bakery.DeleteBaked(ctx, ids...)
}

// MakeImage makes an image of the disk of a machine that runs on, since its timer ends it if this
// program dies. The machine has written its disk, and runs nothing any more.
func (b *baked) MakeImage(ctx context.Context, order cloud.ImageOrder) (string, error) {
	zone, name, ok := parseID(order.Instance.ID)
	if !ok {
		return "", errors.Join(driver.ErrInvalid, errors.New("the instance's ID is not like zone/name"))
	}
	t := tagOf(order.Tag)
	t.Base, t.Key = b.images.base(order.Instance.Offer, b.cfg.SSHUser), order.Key
	op, err := b.api.insertImage(ctx, &computepb.Image{
		Name: &order.Name, Description: proto.String(t.String()), Labels: labelsOf(order.Tag),
		SourceDisk: proto.String("projects/" + b.cfg.ProjectID + "/zones/" + zone + "/disks/" + name), // a boot disk has its instance's name
	})
	if exists(err) { // it is this pool's, from an attempt whose answer was lost, or a list shows that it is not
		return "", &driver.Error{Kind: driver.ErrUnavailable, Err: err}
	}
	if err != nil {
		return "", err
	}
	if err := b.api.await(ctx, op); isOperation(err) {
		return "", err
	}
	return order.Name, nil // the list reports the rest
}

// Images lists the images that have gputrain's label, in any state.
func (b *baked) Images(ctx context.Context) (all []cloud.Image, err error) {
	found, err := b.api.listImages(ctx)
	for _, i := range found {
		if t, ok := parseTag(i.GetDescription()); ok && i.GetLabels()[labelManaged] != "" {
			all = append(all, imageOf(i, t))
		}
	}
	return all, err
}

// imageStates are the states of images.
var imageStates = map[string]cloud.ImageState{"PENDING": cloud.ImageMaking, "READY": cloud.ImageMade, "FAILED": cloud.ImageFailed, "DELETING": cloud.ImageFailed}

func imageOf(i *computepb.Image, t tag) cloud.Image {
	image := cloud.Image{
		Tag: pooltag.Tag{
			Pool: t.Pool, Owner: t.Owner, Lease: time.Duration(t.Lease) * time.Second, Created: fromUnix(t.Created), Expires: fromUnix(t.Expires),
		},
		State: imageStates[i.GetStatus()], Reason: i.GetStatus(), Finished: i.GetLabels()[labelBaked] != "",
	}
	image.BakedImage = driver.BakedImage{
		ID: i.GetName(), Name: i.GetName(), Key: t.Key, Base: t.Base, Created: created(i.GetCreationTimestamp()), SizeGiB: float64(i.GetArchiveSizeBytes()) / bytesOfGiB,
		Arch: map[string]string{"X86_64": "amd64", "ARM64": "arm64"}[i.GetArchitecture()],
	}
	if image.SizeGiB > 0 {
		image.HourlyUSD = driver.USD(image.SizeGiB * imageUSD)
	}
	return image
}

// FinishImage labels an image. It adds the pool's labels, without which no list has the image, if they were removed
// meanwhile.
func (b *baked) FinishImage(ctx context.Context, image cloud.Image, _ string) error {
	i, err := b.api.image(ctx, image.ID)
	if err != nil {
		return err
	}
	if t, _ := parseTag(i.GetDescription()); t.Pool != image.Tag.Pool {
		return &driver.Error{Kind: driver.ErrNotFound, Err: errors.New("image " + image.ID + " is another one now: its description is not the pool's")}
	}
	labels := labelsOf(image.Tag)
	maps.Copy(labels, i.GetLabels())
	labels[labelBaked] = "true"
	op, err := b.api.labelImage(ctx, image.ID, i.GetLabelFingerprint(), labels)
	if err != nil {
		return err
	}
	return b.api.await(ctx, op)
}

// DeleteImage deletes an image.
func (b *baked) DeleteImage(ctx context.Context, image cloud.Image) error {
	op, err := b.api.deleteImage(ctx, image.ID)
	if err != nil {
		return err
	}
	return b.api.await(ctx, op)
}

// base names the image that machines of an offer start from, as the configuration does: the newest
// image of a family is another one every few weeks.
func (i *images) base(o driver.Offer, user string) string {
	family := families(!o.Accelerator.IsZero(), cmp.Or(o.Arch, "amd64"))[0]
	return cmp.Or(i.given, family.project+"/"+family.family) + " of " + user
}

// baked returns a baked image.
func (i *images) baked(ctx context.Context, name string) (source, error) {
	image, err := i.api.image(ctx, name)
	if isGone(err) {
		return source{}, &driver.Error{Kind: driver.ErrNotFound, Err: err}
	}
	if err != nil {
		return source{}, notMade(err)
	}
	return source{link: "projects/" + i.api.project + "/global/images/" + name, diskGB: image.GetDiskSizeGb()}, nil
}

func (c *client) insertImage(ctx context.Context, in *computepb.Image) (*computepb.Operation, error) {
	op, err := c.images.Insert(ctx, &computepb.InsertImageRequest{Project: c.project, RequestId: proto.String(newRequestID()), ForceCreate: proto.Bool(true), ImageResource: in}, again())
	return c.operation(ctx, "images.insert", "", op, err)
}

// image returns an image of the project, or an error that isGone.
func (c *client) image(ctx context.Context, name string) (*computepb.Image, error) {
	i, err := c.images.Get(ctx, &computepb.GetImageRequest{Project: c.project, Image: name}, again())
	if err == nil && i.GetName() != name {
		err = errors.Join(errAnswer, errors.New("the answer is not image "+name))
	}
	return i, c.done(ctx, "images.get", err)
}

func (c *client) listImages(ctx context.Context) ([]*computepb.Image, error) {
	return listAll(ctx, c, "images.list", "compute#imageList", func(ctx context.Context) (func() (*computepb.Image, error), func() any) {
		it := c.images.List(ctx, &computepb.ListImagesRequest{Project: c.project, Filter: filterOf(""), MaxResults: proto.Uint32(pageSize)}, again())
		return it.Next, func() any { return it.Response }
	})
}

func (c *client) labelImage(ctx context.Context, name, fingerprint string, labels map[string]string) (*computepb.Operation, error) {
	op, err := c.images.SetLabels(ctx, &computepb.SetLabelsImageRequest{
		Project: c.project, Resource: name, GlobalSetLabelsRequestResource: &computepb.GlobalSetLabelsRequest{LabelFingerprint: &fingerprint, Labels: labels},
	}, again())
	return c.operation(ctx, "images.setLabels", "", op, err)
}

func (c *client) deleteImage(ctx context.Context, name string) (*computepb.Operation, error) {
	op, err := c.images.Delete(ctx, &computepb.DeleteImageRequest{Project: c.project, Image: name, RequestId: proto.String(newRequestID())}, again())
	return c.operation(ctx, "images.delete", "", op, err)
}
