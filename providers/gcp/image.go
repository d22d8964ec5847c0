package gcp

import (
	"context"
	"errors"
	"fmt"

	"github.com/gputrain/gputrain"
)

// A source is what a node's disk begins with.
type source struct {
	link   string
	diskGB int64 // at least; zero where that is not known
}

// A familyName is a family of images: its newest one is taken.
type familyName struct{ project, family string }

// families are the default images, the best first: Google retires them at short notice.
func families(gpu bool, arch string) []familyName {
	const learning, ubuntu, driver = "deeplearning-platform-release", "ubuntu-os-cloud", "ubuntu-os-accelerator-images"
	switch {
	case gpu && arch == "arm64":
		return []familyName{{driver, "ubuntu-accelerator-2404-arm64-with-nvidia-580"}, {driver, "ubuntu-accelerator-2204-arm64-with-nvidia-570"}}
	case gpu:
		return []familyName{
			{learning, "common-cu129-ubuntu-2404-nvidia-580"}, {learning, "common-cu129-ubuntu-2204-nvidia-580"},
			{learning, "common-cu128-ubuntu-2204-nvidia-570"}, {driver, "ubuntu-accelerator-2404-amd64-with-nvidia-580"},
		}
	case arch == "arm64":
		return []familyName{{ubuntu, "ubuntu-2404-lts-arm64"}}
	}
	return []familyName{{ubuntu, "ubuntu-2404-lts-amd64"}, {ubuntu, "ubuntu-2204-lts"}}
}

// image returns what nodes start from. It is looked up once, so that all nodes have the
// same.
func (d *driver) image(ctx context.Context, gpu bool, arch string) (source, error) {
	candidates := families(gpu, arch)
	if m := imageForm.FindStringSubmatch(d.cfg.Image); m != nil {
		if m[2] == "" {
			return source{link: d.cfg.Image}, nil
		}
		candidates = []familyName{{m[1], m[3]}}
	}
	d.mu.Lock()
	found, ok := d.images[candidates[0]]
	d.mu.Unlock()
	if ok {
		return found, nil
	}
	var errs []error
	for _, f := range candidates {
		image, err := d.api.imageOf(ctx, f.project, f.family)
		if isGone(err) {
			errs = append(errs, fmt.Errorf("family %s of %s: %w", f.family, f.project, err))
			continue
		}
		if err != nil {
			return source{}, notMade(err)
		}
		found := source{link: image.GetSelfLink(), diskGB: image.GetDiskSizeGb()}
		d.mu.Lock()
		d.images[candidates[0]] = found
		d.mu.Unlock()
		return found, nil
	}
	return source{}, &gputrain.Error{Kind: gputrain.ErrNotFound, Err: errors.Join(errs...), Hint: "set Config.Image to an image or a family that is there"}
}
