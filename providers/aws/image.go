package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

// An image is a disk image that nodes start from.
type image struct {
	id, user, arch string
	root           string // the name of its root device
	diskGB         int    // the smallest disk that it fits on
}

// images finds the images that nodes start from.
type images struct {
	api      *client
	ami      string // the user's; if empty, Canonical's or AWS's newest
	ubuntu   string // the release of the default images
	username string // the user's; if empty, the image's

	mu    sync.Mutex
	known map[string]image // by architecture and software
}

// forNode returns the image for an architecture and its accelerators. It looks an image up
// once.
func (i *images) forNode(ctx context.Context, arch string, s software) (image, error) {
	key := arch + "/" + string(s)
	if i.ami != "" {
		key = i.ami
	}
	i.mu.Lock()
	im, known := i.known[key]
	i.mu.Unlock()
	if known {
		return im, nil
	}
	found, err := i.find(ctx, arch, s)
	if err != nil {
		return image{}, err
	}
	if im, err = i.read(found); err != nil {
		return image{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known[key] = im
	return im, nil
}

// find finds an image by the parameter that names the newest one. If that parameter is missing
// or may not be read, it finds the image by owner and name.
func (i *images) find(ctx context.Context, arch string, s software) (types.Image, error) {
	if i.ami != "" {
		return i.byID(ctx, i.ami)
	}
	path := parameter(i.ubuntu, arch, s)
	id, err := i.readParameter(ctx, path)
	if err == nil {
		return i.byID(ctx, id)
	}
	owner, name := ownerAndName(i.ubuntu, arch, s)
	if !isDenied(err) && !isGone(err) || owner == "" {
		return types.Image{}, fmt.Errorf("%s: %w", path, err)
	}
	out, err := i.api.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{
		Owners:  []string{owner},
		Filters: []types.Filter{filter("name", name), filter("state", "available"), filter("architecture", archOf(arch))},
	})
	if err != nil {
		return types.Image{}, err
	}
	if len(out.Images) == 0 {
		return types.Image{}, &driver.Error{Kind: driver.ErrNotFound, Hint: "set Config.AMI",
			Err: fmt.Errorf("no image for %s: the parameter %s names none, and %s owns none named %q", arch, path, owner, name)}
	}
	return slices.MaxFunc(out.Images, func(a, b types.Image) int {
		return cmp.Compare(sdk.ToString(a.CreationDate), sdk.ToString(b.CreationDate))
	}), nil
}

func (i *images) byID(ctx context.Context, id string) (types.Image, error) {
	out, err := i.api.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}})
	if err != nil {
		return types.Image{}, err
	}
	if len(out.Images) != 1 {
		return types.Image{}, &driver.Error{Kind: driver.ErrNotFound, Err: fmt.Errorf("there is no image %s in %s", id, i.api.region),
			Hint: "images belong to a region and can be withdrawn: set Config.AMI to an image of this region"}
	}
	return out.Images[0], nil
}

// readParameter reads a public parameter.
func (i *images) readParameter(ctx context.Context, path string) (string, error) {
	var out struct {
		Parameter struct{ Value string }
	}
	err := jsonCall(ctx, i.api.ssm, "AmazonSSM.GetParameter", map[string]string{"Name": path}, &out)
	if err == nil && !imageForm.MatchString(out.Parameter.Value) {
		err = fmt.Errorf("GetParameter: %w: the value %q is not an image ID", rest.ErrAnswer, out.Parameter.Value)
	}
	return out.Parameter.Value, err
}

// archOf returns EC2's name of an architecture.
func archOf(arch string) string {
	if arch == "amd64" {
		return "x86_64"
	}
	return arch
}

// parameter returns the parameter that names the newest image. Canonical and AWS have different
// names for an architecture.
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

// ownerAndName returns the owner and the name of the default images. The name of Neuron's
// images is not known.
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

var errNoRoot = errors.New("no root device on EBS")

// read returns what a launch needs of an image.
func (i *images) read(found types.Image) (image, error) {
	im := image{id: sdk.ToString(found.ImageId), root: sdk.ToString(found.RootDeviceName), user: cmp.Or(i.username, userOf(found))}
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
		return image{}, fmt.Errorf("%w: image %s: %w", driver.ErrInvalid, im.id, errNoRoot)
	}
	return im, nil
}

// user returns the user to log in as on an instance. It is in the instance's tags, as the image
// may have been withdrawn since. Without a tag, the user of AWS's own images is known, and that
// of another image is looked up once.
func (i *images) user(ctx context.Context, tags tagList) (string, error) {
	user := cmp.Or(i.username, tags.value(tagUser))
	if user != "" || i.ami == "" {
		return cmp.Or(user, "ubuntu"), nil
	}
	im, err := i.forNode(ctx, "", plain)
	return im.user, err
}

// ownArch returns the architecture of the user's own image, or "" if there is none.
func (i *images) ownArch(ctx context.Context) (string, error) {
	if i.ami == "" {
		return "", nil
	}
	im, err := i.forNode(ctx, "", plain)
	return im.arch, err
}

// unfit returns why no image is for an instance type, or "". ownArch is the architecture of the
// user's own image.
func (i *images) unfit(k kind, ownArch string) string {
	switch s, unfit := softwareFor(k.accelerator); {
	case i.ami != "" && ownArch != k.arch:
		return fmt.Sprintf("is %s; Config.AMI is %s", k.arch, ownArch)
	case i.ami != "":
		return ""
	case unfit != "":
		return unfit
	case s != plain && i.ubuntu == "20.04":
		return "needs drivers, and no default image of Ubuntu 20.04 has them; set Config.UbuntuVersion to 24.04 or 22.04"
	}
	return ""
}

// userOf returns the login user of an image, by the image's name.
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
