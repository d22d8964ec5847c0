package container

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
)

// defaultPullTimeout bounds a pull of DefaultImage where HomeMadeImage can take its place.
const defaultPullTimeout = time.Minute

// unpullable has the engines that could not pull DefaultImage, for as long as this program
// runs: each pool would otherwise wait for a registry that does not answer.
var unpullable sync.Map // map[string]bool

// key tells an engine from others that this program may talk to.
func (e *engine) key() string { return e.path + "\n" + os.Getenv("DOCKER_HOST") }

// baseImage returns the image that nodes start from, before it is made ready. It is pulled
// if it is not here.
func (d *driver) baseImage(ctx context.Context) (imageReport, error) {
	if d.cfg.Image != "" {
		return d.hereOrPulled(ctx, d.cfg.Image)
	}
	if r, there, err := d.here(ctx, DefaultImage); there || err != nil {
		return r, err
	}
	homeMade, there, err := d.here(ctx, HomeMadeImage)
	if err != nil {
		return imageReport{}, err
	}
	if !there {
		return d.hereOrPulled(ctx, DefaultImage)
	}
	unpulled := d.engine.key() + "\n" + d.cfg.Platform
	if _, known := unpullable.Load(unpulled); known {
		return homeMade, nil
	}
	pull, cancel := context.WithTimeout(ctx, defaultPullTimeout)
	defer cancel()
	r, err := d.hereOrPulled(pull, DefaultImage)
	if err != nil && ctx.Err() == nil {
		unpullable.Store(unpulled, true)
		return homeMade, nil
	}
	return r, err
}

// here returns an image, and whether it is here for the platform that is wanted.
func (d *driver) here(ctx context.Context, image string) (r imageReport, there bool, err error) {
	r, err = d.engine.inspectImage(ctx, image, d.arch())
	switch {
	case err == nil:
		r.name = image
		return r, d.arch() == "" || d.arch() == r.arch, nil
	case isMissingImage(err):
		return r, false, nil
	}
	return r, false, err
}

// hereOrPulled returns an image, pulled if it is not here.
func (d *driver) hereOrPulled(ctx context.Context, image string) (imageReport, error) {
	if r, there, err := d.here(ctx, image); there || err != nil {
		return r, err
	}
	args := []string{"pull"}
	if d.engine.dialect == apple {
		args = []string{"image", "pull"}
	}
	if d.cfg.Platform != "" {
		args = append(args, "--platform", d.cfg.Platform)
	}
	if _, err := d.engine.run(ctx, append(args, image)...); err != nil {
		if ctx.Err() != nil {
			return imageReport{}, err
		}
		hint := "set Image to one that is here or can be pulled; a private one needs " + d.engine.dialect.String() + " login"
		if image == DefaultImage {
			hint = "run gputrain's scripts/container-image, which makes " + HomeMadeImage + " here for that, or set Image"
		}
		return imageReport{}, &gputrain.Error{Kind: gputrain.ErrNotFound, Hint: hint,
			Err: fmt.Errorf("image %s is not here, and cannot be pulled: %w", image, err)}
	}
	r, err := d.engine.inspectImage(ctx, image, d.arch())
	r.name = image
	return r, err
}

// arch is the processor that Config.Platform names, or "".
func (d *driver) arch() string {
	parts := strings.Split(d.cfg.Platform, "/")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

func (e *engine) inspectImage(ctx context.Context, name, arch string) (imageReport, error) {
	out, err := e.run(ctx, "image", "inspect", name)
	if err != nil {
		return imageReport{}, err
	}
	return e.dialect.parseImage(out, arch)
}

func isMissingImage(err error) bool {
	return says(err, "no such image", "image not known", "no such object", "not found", "failed to find image")
}
