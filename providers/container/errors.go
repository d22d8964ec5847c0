package container

import (
	"errors"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// fail puts a failure into the form that callers see. The engines have no codes, only text;
// this is the only place that derives the kind of a failure from it.
func fail(op string, err error) error {
	if err == nil {
		return nil
	}
	e := &driver.Error{Provider: providerName, Op: op, Err: err}
	if inner, ok := err.(*driver.Error); ok { // errors below run have this form
		copied := *inner
		e = &copied
		e.Provider, e.Op = providerName, op
	}
	if e.Kind != nil {
		return e
	}
	var ce *commandError
	if errors.As(err, &ce) {
		text := strings.ToLower(ce.stderr)
		for _, s := range symptoms {
			if strings.Contains(text, s.text) {
				e.Kind = s.kind
				if e.Hint == "" {
					e.Hint = s.hint
				}
				break
			}
		}
	}
	return e
}

// says reports whether err is an engine's failure whose text contains one of the parts.
func says(err error, parts ...string) bool {
	var ce *commandError
	if !errors.As(err, &ce) {
		return false
	}
	text := strings.ToLower(ce.stderr)
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

const (
	startDocker = "start the engine, or check that DOCKER_HOST and the docker context name the right one"
	roomForNets = "remove unused networks: docker network prune"
	noGPU       = "install the NVIDIA Container Toolkit for this engine, or leave GPUs empty"
)

// symptoms are texts of the engines, in lower case, the most specific first.
var symptoms = []struct {
	text string
	kind error
	hint string
}{
	{"permission denied while trying to connect", driver.ErrAuth, "add yourself to the docker group and log in again, or use rootless podman"},
	{"cannot connect to the docker daemon", driver.ErrUnavailable, startDocker},
	{"failed to connect to the docker api", driver.ErrUnavailable, startDocker},
	{"error during connect", driver.ErrUnavailable, startDocker},
	{"cannot connect to podman", driver.ErrUnavailable, "start its machine: podman machine start"},
	{"unable to connect to podman", driver.ErrUnavailable, "start its machine: podman machine start"},
	{"cannot access containerd socket", driver.ErrUnavailable, "start containerd, or check that you may use its socket"},
	{"rootless containerd not running", driver.ErrUnavailable, "start it: containerd-rootless-setuptool.sh install"},
	{"xpc connection error", driver.ErrUnavailable, "start the engine: container system start"},
	{"could not select device driver", driver.ErrUnsupported, noGPU},
	{"unresolvable cdi devices", driver.ErrUnsupported, noGPU},
	{"cdi device injection failed", driver.ErrUnsupported, noGPU},
	{"non-overlapping ipv4 address pool", driver.ErrQuota, roomForNets},
	{"have been fully subnetted", driver.ErrQuota, roomForNets},
	{"could not find free subnet", driver.ErrQuota, roomForNets},
	{"port is already allocated", driver.ErrNoCapacity, ""},
	{"address already in use", driver.ErrNoCapacity, ""},
	{"no space left on device", driver.ErrNoCapacity, "make room on the engine's disk: docker system prune"},
	{"range of cpus is from", driver.ErrNoCapacity, "ask for fewer VCPUs"},
	{"minimum memory limit", driver.ErrInvalid, "ask for more MemoryGiB"},
	{"bind source path does not exist", driver.ErrNotFound, "make the folder first: a mount's source is on the engine's machine"},
	{"statfs", driver.ErrNotFound, "make the folder first: a mount's source is on the engine's machine"},
	{"gputrain: user: ", driver.ErrInvalid, "set User to a user of the image with a home folder and a login shell, or leave it empty"},
	{"container-init binary not found", driver.ErrUnsupported, "install catatonit, podman's init"},
	{"docker-init", driver.ErrUnsupported, "install docker-init (tini), the engine's init"},
	{"unknown flag", driver.ErrUnsupported, "this engine is too old, or RunArgs has an argument that it does not know"},
	{"exec format error", driver.ErrUnsupported, "the image is for another processor: set Platform, or another Image"},
}
