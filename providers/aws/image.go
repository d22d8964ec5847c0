package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
)

// An image is what a node starts from.
type image struct {
	id, user, arch string
	root           string // the name of its root device
	diskGB         int    // the least that its disk needs
}

// image returns the image for an architecture and its accelerators. It is looked up once.
func (d *driver) image(ctx context.Context, arch string, s software) (image, error) {
	key := arch + "/" + string(s)
	if d.cfg.AMI != "" {
		key = d.cfg.AMI
	}
	d.mu.Lock()
	im, known := d.images[key]
	d.mu.Unlock()
	if known {
		return im, nil
	}
	found, err := d.findImage(ctx, arch, s)
	if err != nil {
		return image{}, err
	}
	if im, err = d.readImage(found); err != nil {
		return image{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.images[key] = im
	return im, nil
}

// findImage finds an image by the parameter that names the newest one, or, where that may
// not be read or is not there, by its owner and name.
func (d *driver) findImage(ctx context.Context, arch string, s software) (types.Image, error) {
	if d.cfg.AMI != "" {
		return d.describeImage(ctx, d.cfg.AMI)
	}
	path := parameter(d.cfg.UbuntuVersion, arch, s)
	id, err := d.readParameter(ctx, path)
	if err == nil {
		return d.describeImage(ctx, id)
	}
	owner, name := ownerAndName(d.cfg.UbuntuVersion, arch, s)
	if !isDenied(err) && !isGone(err) || owner == "" {
		return types.Image{}, fmt.Errorf("%s: %w", path, err)
	}
	out, err := d.api.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{
		Owners:  []string{owner},
		Filters: []types.Filter{filter("name", name), filter("state", "available"), filter("architecture", archOf(arch))},
	})
	if err != nil {
		return types.Image{}, err
	}
	if len(out.Images) == 0 {
		return types.Image{}, &gputrain.Error{Kind: gputrain.ErrNotFound, Hint: "set Config.AMI",
			Err: fmt.Errorf("there is no image for %s: neither by the parameter %s nor of %s by the name %q", arch, path, owner, name)}
	}
	return slices.MaxFunc(out.Images, func(a, b types.Image) int {
		return cmp.Compare(sdk.ToString(a.CreationDate), sdk.ToString(b.CreationDate))
	}), nil
}

func (d *driver) describeImage(ctx context.Context, id string) (types.Image, error) {
	out, err := d.api.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}})
	if err != nil {
		return types.Image{}, err
	}
	if len(out.Images) != 1 {
		return types.Image{}, &gputrain.Error{Kind: gputrain.ErrNotFound, Err: fmt.Errorf("there is no image %s in %s", id, d.api.region),
			Hint: "images belong to a region, and can be withdrawn: set Config.AMI to one of this region's"}
	}
	return out.Images[0], nil
}

// readParameter reads one of the public parameters.
func (d *driver) readParameter(ctx context.Context, path string) (string, error) {
	var out struct {
		Parameter struct{ Value string }
	}
	err := jsonCall(ctx, d.api.ssm, "AmazonSSM.GetParameter", map[string]string{"Name": path}, &out)
	if err == nil && !imageForm.MatchString(out.Parameter.Value) {
		err = fmt.Errorf("GetParameter: %w: its value %q is not the ID of an image", rest.ErrAnswer, out.Parameter.Value)
	}
	return out.Parameter.Value, err
}

// archOf is EC2's word for an architecture.
func archOf(arch string) string {
	if arch == "amd64" {
		return "x86_64"
	}
	return arch
}

// parameter names the newest image. Canonical and AWS call one architecture differently.
func parameter(ubuntu, arch string, s software) string {
	switch s {
	case nvidia:
		return "/aws/service/deeplearning/ami/" + archOf(arch) + "/base-oss-nvidia-driver-gpu-ubuntu-" + ubuntu + "/latest/ami-id"
	case neuron:
		return "/aws/service/neuron/dlami/multi-framework/ubuntu-" + ubuntu + "/latest/image_id"
	}
	disk := "ebs-gp3"
	if ubuntu != newestUbuntu {
		disk = "ebs-gp2"
	}
	return "/aws/service/canonical/ubuntu/server/" + ubuntu + "/stable/current/" + arch + "/hvm/" + disk + "/ami-id"
}

// ownerAndName are whose images those are, and what they are called. Of Neuron's images no
// name is known.
func ownerAndName(ubuntu, arch string, s software) (owner, name string) {
	switch s {
	case nvidia:
		prefix := ""
		if arch == "arm64" {
			prefix = "ARM64 "
		}
		return "898082745236", "Deep Learning " + prefix + "Base OSS Nvidia Driver GPU AMI (Ubuntu " + ubuntu + ") *"
	case neuron:
		return "", ""
	}
	code, disk := map[string]string{"24.04": "noble", "22.04": "jammy", "20.04": "focal"}[ubuntu], "hvm-ssd"
	if ubuntu == newestUbuntu {
		disk = "hvm-ssd-gp3"
	}
	return "099720109477", "ubuntu/images/" + disk + "/ubuntu-" + code + "-" + ubuntu + "-" + arch + "-server-*"
}

var errNoRoot = errors.New("it has no root device on EBS")

// readImage reads what a launch has to know of an image.
func (d *driver) readImage(found types.Image) (image, error) {
	im := image{id: sdk.ToString(found.ImageId), root: sdk.ToString(found.RootDeviceName), user: cmp.Or(d.cfg.Username, userOf(found))}
	switch found.Architecture {
	case types.ArchitectureValuesX8664:
		im.arch = "amd64"
	case types.ArchitectureValuesArm64:
		im.arch = "arm64"
	}
	for _, m := range found.BlockDeviceMappings {
		if sdk.ToString(m.DeviceName) == im.root && m.Ebs != nil {
			im.diskGB = int(sdk.ToInt32(m.Ebs.VolumeSize))
		}
	}
	if im.id == "" || im.root == "" || im.arch == "" {
		return image{}, fmt.Errorf("%w: image %s: %w", gputrain.ErrInvalid, im.id, errNoRoot)
	}
	return im, nil
}

// userOf is whom an image lets log in, by what it is called.
func userOf(found types.Image) string {
	said := strings.ToLower(sdk.ToString(found.Name) + " " + sdk.ToString(found.Description))
	for _, s := range []struct{ text, user string }{
		{"ubuntu", "ubuntu"}, {"amazon linux", "ec2-user"}, {"al2023", "ec2-user"}, {"amzn", "ec2-user"}, {"rhel", "ec2-user"},
		{"suse", "ec2-user"}, {"debian", "admin"}, {"rocky", "rocky"}, {"fedora", "fedora"},
	} {
		if strings.Contains(said, s.text) {
			return s.user
		}
	}
	return "ubuntu"
}
