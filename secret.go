package gputrain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/docker"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/secretref"
	"github.com/gputrain/gputrain/providers/driver"
)

// givenSecrets are Spec.Secrets, looked up.
type givenSecrets struct {
	values  map[string]Secret //secretvet:ignore as pool.spec
	missing []string          // the names of those that Attach was not given
}

// given returns those of the secrets with these names.
func given(names []string, secrets map[string]Secret) (g givenSecrets) {
	for _, name := range names {
		value, ok := secrets[name]
		if !ok {
			g.missing = append(g.missing, name)
			continue
		}
		if g.values == nil {
			g.values = map[string]Secret{}
		}
		g.values[name] = value
	}
	return g
}

// any reports whether the pool has secrets.
func (g givenSecrets) any() bool { return len(g.values)+len(g.missing) > 0 }

// forNodes returns the secrets as nodes are given them.
func (g givenSecrets) forNodes() node.Given {
	n := node.Given{Secrets: make(map[string]string, len(g.values))}
	for name, value := range g.values {
		n.Secrets[name] = string(value)
	}
	if len(g.missing) > 0 {
		n.Missing = &Error{Op: "prepare a node", Kind: ErrInvalid, Err: notKept(g.missing...)}
	}
	return n
}

// refuses returns why the pool cannot start a task, or nil.
func (g givenSecrets) refuses(t Task) error {
	for _, name := range g.missing {
		if _, own := t.Secrets[name]; !own {
			return notKept(name)
		}
	}
	return nil
}

// check returns an error for a task that cannot be run with the pool's secrets.
func (g givenSecrets) check(t Task) error {
	for name := range t.Env {
		if _, twice := g.values[name]; twice || slices.Contains(g.missing, name) {
			return &Error{Op: "task", Kind: ErrInvalid, Err: fmt.Errorf("%s is in both Env and Spec.Secrets", name), Hint: "Task.Secrets can override a secret of the pool"}
		}
	}
	if err := g.refuses(t); err != nil {
		return &Error{Op: "task", Kind: ErrInvalid, Err: err}
	}
	return nil
}

// notKept is the error of what needs secrets that only an earlier program knew.
func notKept(names ...string) error {
	return fmt.Errorf("it needs the secret %s, which is kept nowhere; give it to Attach by WithSecrets", strings.Join(names, " and "))
}

// A specForm is a spec as a journal stores it: with the names of its secrets, and without their values.
type specForm struct {
	Spec
	SecretNames []string `json:",omitzero"`
}

func formOf(s Spec) specForm { return specForm{s, slices.Sorted(maps.Keys(s.Secrets))} }

// dockerPassword is the name of Image.DockerPassword among the secrets of Attach.
const dockerPassword = "Image.DockerPassword"

// lookUpLogin moves the password of the image's registry to the other secrets, with its reference looked up.
func (o *options) lookUpLogin(ctx context.Context, im *Image) error {
	if im.DockerPassword == "" {
		return nil
	}
	found, err := resolveSecrets(ctx, map[string]Secret{dockerPassword: im.DockerPassword}, map[Secret]Secret{})
	if o.secrets = maps.Clone(o.secrets); o.secrets == nil {
		o.secrets = map[string]Secret{}
	}
	maps.Copy(o.secrets, found)
	im.DockerPassword = ""
	return err
}

// dockerPool returns what the containers of the pool's nodes share, or nil if the image names no container's.
func dockerPool(p *pool) *docker.Pool {
	name, err := docker.ParseReference(p.spec.Image.Docker)
	if err != nil { // it is empty
		return nil
	}
	d := &docker.Pool{ID: p.id, Reference: name, Mounts: docker.Mounts(p.spec.Mounts), Timeout: bootstrap.Image(p.spec.Image).Timeout()}
	if login := imageLogin(p); login.Password != "" {
		p.secrets.Learn(docker.Secrets(login.User, login.Password))
		d.Login = func() (string, Secret) { return login.User, login.Password }
	}
	return d
}

// imageLogin returns the login of the image's registry. It has no password if an earlier program had it.
func imageLogin(p *pool) driver.ImageLogin {
	return driver.ImageLogin{User: p.spec.Image.DockerUser, Password: p.opts.secrets[dockerPassword]}
}

// resolveSecrets returns secrets with their references looked up. The tasks of one call share
// known, so that a reference that is used twice is looked up once.
func resolveSecrets(ctx context.Context, secrets map[string]Secret, known map[Secret]Secret) (map[string]Secret, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	found := make(map[string]Secret, len(secrets))
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		reference := secrets[name]
		value, ok := known[reference]
		if !ok {
			text, err := secretref.Resolve(ctx, string(reference))
			switch {
			case err != nil && ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case err != nil:
				return nil, &Error{Op: "secret " + name, Kind: ErrInvalid, Err: err}
			}
			value = Secret(text)
			known[reference] = value
		}
		found[name] = value
	}
	return found, nil
}
