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

	"github.com/gputrain/gputrain"
)

const (
	// readyRepository holds the images that were made ready. Its name begins with
	// localhost so that no engine ever asks a registry for it.
	readyRepository = "localhost/gputrain/ready"
	labelReady      = labelPrefix + "ready"
	imageReady      = "gputrain: image:"
	imageChanged    = imageReady + " made ready"
)

// building holds one lock for each image that is being made, whichever pool
// wants it. Two programs that do so at once are harmless: both make the same.
var building sync.Map // map[string]chan struct{}

// readyImage returns an image with an SSH server: under what name, and with what
// environment.
func (d *driver) readyImage(ctx context.Context) (name string, env []string, err error) {
	name, base, err := d.readyName(ctx)
	if err != nil {
		return "", nil, err
	}
	unlock, err := d.lockImage(ctx, name)
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	switch _, err := d.engine.inspectImage(ctx, name, d.arch()); {
	case err == nil:
		return name, base.env, nil
	case !isMissingImage(err):
		return "", nil, err
	}
	if d.engine.dialect == apple {
		return name, base.env, d.buildReady(ctx, base, name)
	}
	return name, base.env, d.makeReady(ctx, base, name)
}

// lockImage waits until nothing else in this program makes the image of that name.
func (d *driver) lockImage(ctx context.Context, name string) (unlock func(), err error) {
	held, _ := building.LoadOrStore(d.engine.key()+"\n"+name, make(chan struct{}, 1))
	lock := held.(chan struct{})
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readyName returns what the ready image is called, there or not: a name that
// changes with the user's image, and with how it is made ready.
func (d *driver) readyName(ctx context.Context) (string, imageReport, error) {
	base, err := d.baseImage(ctx)
	if err != nil {
		return "", imageReport{}, err
	}
	sum := sha256.Sum256([]byte(base.id + "\n" + d.cfg.Platform + "\n" + readyScript))
	return readyRepository + ":" + hex.EncodeToString(sum[:10]), base, nil
}

// makeReady runs the ready script in a container of the image. Where that had to
// install an SSH server, the container's content becomes the ready image; where
// there was one, the ready image is but another name, which saves looking again.
//
// The container lives on this program's attachment to it: should the program die,
// its standard input ends, the script with it, and the engine removes what is left.
func (d *driver) makeReady(ctx context.Context, base imageReport, name string) error {
	_, hash, _ := strings.Cut(name, ":")
	source := base.id // the name may come to mean another image at any time
	if d.engine.dialect == nerdctl {
		source = base.name
	}
	id, remove, err := d.createToCommit(ctx, "gputrain-ready-", labelReady, hash, source)
	if err != nil {
		return err
	}
	defer remove()
	at, err := d.engine.start(ctx, id, readyScript, imageReady)
	if err != nil {
		return d.notReady(ctx, base.name, err)
	}
	if strings.Contains(at.output.String(), imageChanged) {
		_, err = d.engine.run(ctx, "commit", id, name)
	} else {
		_, err = d.engine.run(ctx, "tag", source, name)
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	at.wait(wait)
	return err
}

// createToCommit creates a container of an image that is to become another image, under a
// name and a label with the hash of that one. It reads a script from its standard input,
// with which it ends; remove only makes that sooner.
func (d *driver) createToCommit(ctx context.Context, prefix, label, hash, source string) (id string, remove func(), err error) {
	suffix := make([]byte, 4)
	_, _ = rand.Read(suffix) // never fails
	args := []string{"create", "--interactive", "--rm", "--init", "--pull", "never", "--name", prefix + hash + "-" + hex.EncodeToString(suffix),
		"--label", label + "=" + hash, "--user", "0:0", "--entrypoint", "sh"}
	if d.cfg.Platform != "" {
		args = append(args, "--platform", d.cfg.Platform)
	}
	id, err = d.create(ctx, append(args, source, "-s"), func(r report) bool { return r.labels[label] == hash })
	if err != nil {
		return "", nil, err
	}
	return id, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		_ = d.remove(ctx, id)
	}, nil
}

// buildReady makes the ready image with an engine that cannot commit containers.
func (d *driver) buildReady(ctx context.Context, base imageReport, name string) error {
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
	if d.cfg.Platform != "" {
		args = append(args, "--platform", d.cfg.Platform)
	}
	if _, err := d.engine.run(ctx, append(args, dir)...); err != nil {
		return d.notReady(ctx, base.name, err)
	}
	return nil
}

// notReady says why an image could not be made ready.
func (d *driver) notReady(ctx context.Context, image string, err error) error {
	switch {
	case ctx.Err() != nil, says(err, "docker-init", "exec format error"):
		return err
	case says(err, "gputrain: no package manager"):
		return &gputrain.Error{Kind: gputrain.ErrUnsupported,
			Err:  fmt.Errorf("image %s has no SSH server, and none of apt-get, apk, dnf, microdnf and yum to install one with", image),
			Hint: "add openssh-server to it, or set another Image"}
	case says(err, `"sh"`, "executable file not found", "no such file or directory"):
		return &gputrain.Error{Kind: gputrain.ErrUnsupported, Err: fmt.Errorf("image %s has no shell: %w", image, err),
			Hint: "a node needs sh: set another Image"}
	}
	return &gputrain.Error{Kind: gputrain.ErrBootstrap,
		Err:  fmt.Errorf("no SSH server could be installed into image %s: %w", image, err),
		Hint: "see whether containers reach the package mirror, or set an Image that has openssh-server"}
}
