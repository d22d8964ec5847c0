package gcp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gputrain/gputrain/providers/driver"
)

// A source is the image that a node's disk starts from.
type source struct {
	link   string
	diskGB int64 // the smallest disk that it fits on; zero if unknown
}

// A familyName is a family of images; its newest image is used.
type familyName struct{ project, family string }

// families returns the default images, best first. Google retires them at short notice.
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

// images finds the images that nodes start from.
type images struct {
	api   *client
	given string // the user's; if empty, the first of Google's families that exists

	mu    sync.Mutex
	known map[familyName]source
}

// forNode returns the image that nodes start from. It is looked up once, so that all nodes have
// the same one.
func (i *images) forNode(ctx context.Context, gpu bool, arch string) (source, error) {
	candidates := families(gpu, arch)
	if m := imageForm.FindStringSubmatch(i.given); m != nil {
		if m[2] == "" {
			return source{link: i.given}, nil
		}
		candidates = []familyName{{m[1], m[3]}}
	}
	i.mu.Lock()
	found, ok := i.known[candidates[0]]
	i.mu.Unlock()
	if ok {
		return found, nil
	}
	var errs []error
	for _, f := range candidates {
		image, err := i.api.imageOf(ctx, f.project, f.family)
		if isGone(err) {
			errs = append(errs, fmt.Errorf("family %s of %s: %w", f.family, f.project, err))
			continue
		}
		if err != nil {
			return source{}, notMade(err)
		}
		found := source{link: image.GetSelfLink(), diskGB: image.GetDiskSizeGb()}
		i.mu.Lock()
		i.known[candidates[0]] = found
		i.mu.Unlock()
		return found, nil
	}
	return source{}, &driver.Error{Kind: driver.ErrNotFound, Err: errors.Join(errs...), Hint: "set Config.Image to an image or a family that exists"}
}
