package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// defaultPullTimeout bounds a pull of DefaultImage if HomeMadeImage can take its place.
const defaultPullTimeout = time.Minute

// unpullable has the engines that could not pull DefaultImage, until this program ends.
// Otherwise each pool would wait for a registry that does not answer.
var unpullable sync.Map // map[string]bool

// key identifies an engine among those that this program may use.
func (e *engine) key() string { return e.path + "\n" + os.Getenv("DOCKER_HOST") }

// baseImage returns the image that nodes start from, before it is made ready. It pulls a
// missing image.
func (m *images) baseImage(ctx context.Context) (imageReport, error) {
	if m.image != "" {
		return m.localOrPulled(ctx, m.image)
	}
	if r, there, err := m.localImage(ctx, DefaultImage); there || err != nil {
		return r, err
	}
	homeMade, there, err := m.localImage(ctx, HomeMadeImage)
	if err != nil {
		return imageReport{}, err
	}
	if !there {
		return m.localOrPulled(ctx, DefaultImage)
	}
	unpulled := m.engine.key() + "\n" + m.platform
	if _, known := unpullable.Load(unpulled); known {
		return homeMade, nil
	}
	pull, cancel := context.WithTimeout(ctx, defaultPullTimeout)
	defer cancel()
	r, err := m.localOrPulled(pull, DefaultImage)
	if err != nil && ctx.Err() == nil {
		unpullable.Store(unpulled, true)
		return homeMade, nil
	}
	return r, err
}

// localImage returns an image, and whether the engine has it for the wanted platform.
func (m *images) localImage(ctx context.Context, image string) (r imageReport, there bool, err error) {
	r, err = m.engine.inspectImage(ctx, image, m.arch())
	switch {
	case err == nil:
		r.name = image
		return r, m.arch() == "" || m.arch() == r.arch, nil
	case isMissingImage(err):
		return r, false, nil
	}
	return r, false, err
}

// localOrPulled returns an image. It pulls a missing one.
func (m *images) localOrPulled(ctx context.Context, image string) (imageReport, error) {
	if r, there, err := m.localImage(ctx, image); there || err != nil {
		return r, err
	}
	args := []string{"pull"}
	if m.engine.dialect == apple {
		args = []string{"image", "pull"}
	}
	if m.platform != "" {
		args = append(args, "--platform", m.platform)
	}
	if err := m.pull(ctx, args, image); err != nil {
		if ctx.Err() != nil || errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrUnsupported) {
			return imageReport{}, err
		}
		hint := "set Image to an image that the engine has or can pull; a private image needs " + m.engine.dialect.String() + " login, or the spec's Image.DockerUser and DockerPassword"
		if image == DefaultImage {
			hint = "run gputrain's scripts/container-image, which makes " + HomeMadeImage + " instead, or set Image"
		}
		return imageReport{}, &driver.Error{Kind: driver.ErrNotFound, Hint: hint,
			Err: fmt.Errorf("the engine does not have image %s and cannot pull it: %w", image, err)}
	}
	r, err := m.engine.inspectImage(ctx, image, m.arch())
	r.name = image
	return r, err
}

// arch returns the processor in Config.Platform, or "".
func (m *images) arch() string {
	parts := strings.Split(m.platform, "/")
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
