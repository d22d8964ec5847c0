package container

import (
	"errors"
	"strings"

	"github.com/gputrain/gputrain"
)

// fail gives a failure the form that callers see. The engines have no codes, only
// text, and this is the one place that reads it for what kind of failure it is.
func fail(op string, err error) error {
	if err == nil {
		return nil
	}
	e := &gputrain.Error{Provider: providerName, Op: op, Err: err}
	if inner, ok := err.(*gputrain.Error); ok { // as it is made below run
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

// says is whether err is an engine's failure whose text has one of the parts.
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
	startDocker = "start the engine, or see whether DOCKER_HOST and the docker context name the right one"
	roomForNets = "remove networks that are not used: docker network prune"
	noGPU       = "install the NVIDIA Container Toolkit for this engine, or leave GPUs empty"
)

// symptoms are texts of the engines, in lower case, the telling ones first.
var symptoms = []struct {
	text string
	kind error
	hint string
}{
	{"permission denied while trying to connect", gputrain.ErrAuth, "add yourself to the docker group and log in again, or use rootless podman"},
	{"cannot connect to the docker daemon", gputrain.ErrUnavailable, startDocker},
	{"failed to connect to the docker api", gputrain.ErrUnavailable, startDocker},
	{"error during connect", gputrain.ErrUnavailable, startDocker},
	{"cannot connect to podman", gputrain.ErrUnavailable, "start its machine: podman machine start"},
	{"unable to connect to podman", gputrain.ErrUnavailable, "start its machine: podman machine start"},
	{"cannot access containerd socket", gputrain.ErrUnavailable, "start containerd, or see that you may use its socket"},
	{"rootless containerd not running", gputrain.ErrUnavailable, "start it: containerd-rootless-setuptool.sh install"},
	{"xpc connection error", gputrain.ErrUnavailable, "start the engine: container system start"},
	{"could not select device driver", gputrain.ErrUnsupported, noGPU},
	{"unresolvable cdi devices", gputrain.ErrUnsupported, noGPU},
	{"cdi device injection failed", gputrain.ErrUnsupported, noGPU},
	{"non-overlapping ipv4 address pool", gputrain.ErrQuota, roomForNets},
	{"have been fully subnetted", gputrain.ErrQuota, roomForNets},
	{"could not find free subnet", gputrain.ErrQuota, roomForNets},
	{"port is already allocated", gputrain.ErrNoCapacity, ""},
	{"address already in use", gputrain.ErrNoCapacity, ""},
	{"no space left on device", gputrain.ErrNoCapacity, "make room on the engine's disk: docker system prune"},
	{"range of cpus is from", gputrain.ErrNoCapacity, "ask for fewer VCPUs"},
	{"minimum memory limit", gputrain.ErrInvalid, "ask for more MemoryGiB"},
	{"bind source path does not exist", gputrain.ErrNotFound, "make the folder first: a mount's source is on the engine's machine"},
	{"statfs", gputrain.ErrNotFound, "make the folder first: a mount's source is on the engine's machine"},
	{"container-init binary not found", gputrain.ErrUnsupported, "install catatonit, podman's init"},
	{"docker-init", gputrain.ErrUnsupported, "install docker-init (tini), the engine's init"},
	{"unknown flag", gputrain.ErrUnsupported, "this engine is too old, or RunArgs has what it does not know"},
	{"exec format error", gputrain.ErrUnsupported, "the image is for another processor: set Platform, or another Image"},
}
