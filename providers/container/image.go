package container

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// readyRepository holds the images that were made ready. Its name begins with localhost so
	// that no engine asks a registry for it.
	readyRepository = "localhost/gputrain/ready"
	labelReady      = labelPrefix + "ready"
	imageReady      = "gputrain: image:"
	imageChanged    = imageReady + " made ready"
)

// building holds one lock for each image that is being made, for any pool. Two programs may
// make the same image at once without harm.
var building sync.Map // map[string]chan struct{}

// images are the images that nodes start from: the user's image, that image with an SSH server,
// and that with the packages of a spec's Image.
type images struct {
	engine   *engine
	image    string // Config.Image
	platform string // Config.Platform
	runArgs  bool   // Config.RunArgs is not empty
	user     string // of the phases that are not root's

	login func() driver.ImageLogin // of the image's registry; nil if there is none
}

func newImages(e *engine, c Config) images {
	return images{engine: e, image: c.Image, platform: c.Platform, runArgs: len(c.RunArgs) > 0, user: c.user()}
}

// readyImage returns the name and the environment of an image with an SSH server.
func (m *images) readyImage(ctx context.Context) (name string, env []string, err error) {
	name, base, err := m.readyName(ctx)
	if err != nil {
		return "", nil, err
	}
	unlock, err := m.lockImage(ctx, name)
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	switch _, err := m.engine.inspectImage(ctx, name, m.arch()); {
	case err == nil:
		return name, base.env, nil
	case !isMissingImage(err):
		return "", nil, err
	}
	if m.engine.dialect == apple {
		return name, base.env, m.buildReady(ctx, base, name)
	}
	return name, base.env, m.makeReady(ctx, base, name)
}

// lockImage waits until nothing else in this program makes the image of that name.
func (m *images) lockImage(ctx context.Context, name string) (unlock func(), err error) {
	held, _ := building.LoadOrStore(m.engine.key()+"\n"+name, make(chan struct{}, 1))
	lock := held.(chan struct{})
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readyName returns the name of the ready image, which may not exist yet. The name depends on
// the user's image and on the ready script.
func (m *images) readyName(ctx context.Context) (string, imageReport, error) {
	base, err := m.baseImage(ctx)
	if err != nil {
		return "", imageReport{}, err
	}
	sum := sha256.Sum256([]byte(base.id + "\n" + m.platform + "\n" + readyScript))
	return readyRepository + ":" + hex.EncodeToString(sum[:10]), base, nil
}

// makeReady runs the ready script in a container of the image. If the script has to install an
// SSH server, the container's content becomes the ready image. If there is one, the ready image
// is only another name, which saves the next check.
//
// The container depends on this program's attachment: if the program dies, its standard input
// ends, the script ends, and the engine removes the container.
func (m *images) makeReady(ctx context.Context, base imageReport, name string) error {
	_, hash, _ := strings.Cut(name, ":")
	source := base.id // the name may move to another image at any time
	if m.engine.dialect == nerdctl {
		source = base.name
	}
	id, remove, err := m.createToCommit(ctx, "gputrain-ready-", labelReady, hash, source)
	if err != nil {
		return err
	}
	defer remove()
	at, err := m.engine.start(ctx, id, readyScript, imageReady)
	if err != nil {
		return m.notReady(ctx, base.name, err)
	}
	if strings.Contains(at.output.String(), imageChanged) {
		_, err = m.engine.run(ctx, "commit", id, name)
	} else {
		_, err = m.engine.run(ctx, "tag", source, name)
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	at.wait(wait)
	return err
}

// createToCommit creates a container that is to become another image, under a name and a label
// with the hash of that image. The container reads a script from its standard input and ends
// with it; remove only ends it sooner.
func (m *images) createToCommit(ctx context.Context, prefix, label, hash, source string) (id string, remove func(), err error) {
	suffix := make([]byte, 4)
	_, _ = rand.Read(suffix) // never fails
	args := []string{"create", "--interactive", "--rm", "--init", "--pull", "never", "--name", prefix + hash + "-" + hex.EncodeToString(suffix),
		"--label", label + "=" + hash, "--user", "0:0", "--entrypoint", "sh"}
	if m.platform != "" {
		args = append(args, "--platform", m.platform)
	}
	id, err = m.engine.create(ctx, append(args, source, "-s"), func(r report) bool { return r.labels[label] == hash })
	if err != nil {
		return "", nil, err
	}
	return id, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		_ = m.engine.remove(ctx, id)
	}, nil
}

// buildReady makes the ready image with an engine that cannot commit containers.
func (m *images) buildReady(ctx context.Context, base imageReport, name string) error {
	dir, err := os.MkdirTemp("", "gputrain-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	recipe := "FROM " + base.name + "\nUSER 0:0\nCOPY ready.sh /run/gputrain-ready.sh\n" +
		"RUN sh /run/gputrain-ready.sh </dev/null && rm /run/gputrain-ready.sh\n"
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "ready.sh"), []byte(readyScript), 0o600),
		os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(recipe), 0o600))
	if err != nil {
		return err
	}
	args := []string{"build", "--progress", "plain", "--tag", name}
	if m.platform != "" {
		args = append(args, "--platform", m.platform)
	}
	if _, err := m.engine.run(ctx, append(args, dir)...); err != nil {
		return m.notReady(ctx, base.name, err)
	}
	return nil
}

// notReady returns the error of an image that could not be made ready.
func (m *images) notReady(ctx context.Context, image string, err error) error {
	switch {
	case ctx.Err() != nil, says(err, "docker-init", "exec format error"):
		return err
	case says(err, "gputrain: no package manager"):
		return &driver.Error{Kind: driver.ErrUnsupported,
			Err:  fmt.Errorf("image %s has no SSH server, and none of apt-get, apk, dnf, microdnf and yum to install one", image),
			Hint: "add openssh-server to it, or set another Image"}
	case says(err, `"sh"`, "executable file not found", "no such file or directory"):
		return &driver.Error{Kind: driver.ErrUnsupported, Err: fmt.Errorf("image %s has no shell: %w", image, err),
			Hint: "a node needs sh: set another Image"}
	}
	return &driver.Error{Kind: driver.ErrBootstrap,
		Err:  fmt.Errorf("cannot install an SSH server into image %s: %w", image, err),
		Hint: "check that containers reach the package mirror, or set an Image that has openssh-server"}
}
