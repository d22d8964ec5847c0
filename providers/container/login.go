package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	registry "github.com/gputrain/gputrain/internal/docker"
	"github.com/gputrain/gputrain/providers/driver"
)

// of returns the images for a launch, whose spec may name the image that Config leaves open, or the same one, with a
// login for its registry.
func (m images) of(req driver.Launch) images {
	m.image = cmp.Or(m.image, req.Query.Image)
	if m.image == req.Query.Image && req.ImageLogin.Password != "" {
		m.login = func() driver.ImageLogin { return req.ImageLogin }
	}
	return m
}

// pull pulls an image. A login is in a folder of its own for the time of the pull, which only this user can read.
func (m *images) pull(ctx context.Context, args []string, image string) (err error) {
	e := *m.engine
	if m.login != nil {
		env, remove, err := m.logIn(ctx, image)
		if err != nil {
			return err
		}
		defer remove()
		e.env = env
	}
	_, err = e.run(ctx, append(args, image)...)
	return err
}

// logIn makes a configuration of the engine's with the login, and returns the variables that name it.
func (m *images) logIn(ctx context.Context, image string) (env []string, remove func(), err error) {
	name, err := registry.ParseReference(image)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	if m.engine.dialect == apple {
		return nil, nil, &driver.Error{Kind: driver.ErrUnsupported, Err: errors.New("the container tool of Apple takes no login for one pull"), Hint: "log in with its own command, and leave Image.DockerUser empty"}
	}
	text, err := registry.Config(name, func() (string, driver.Secret) { l := m.login(); return l.User, l.Password })
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp(memoryFolder(), "gputrain-login-")
	if err != nil {
		return nil, nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		remove()
		return nil, nil, err
	}
	env = []string{"DOCKER_CONFIG=" + dir, "REGISTRY_AUTH_FILE=" + file} // podman's is the second one
	if m.engine.dialect == docker && os.Getenv("DOCKER_HOST") == "" {
		// The user's own configuration may name another daemon.
		host, err := m.engine.run(ctx, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
		if at := strings.TrimSpace(string(host)); err == nil && at != "" {
			env = append(env, "DOCKER_HOST="+at)
		}
	}
	return env, remove, nil
}

// memoryFolder returns a folder in memory, or "" for the one for temporary files.
func memoryFolder() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}
