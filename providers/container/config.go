package container

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// Config runs nodes in containers. The zero value works on every machine with an engine.
type Config struct {
	// Binary is the engine's command: "docker", "podman", "nerdctl", "container", or a path. If
	// empty, it is the first of these that is installed.
	Binary string
	// Image is the image that nodes start from. If empty, it is DefaultImage if the engine has
	// it or can pull it, else HomeMadeImage if the engine has that.
	Image string
	// Platform chooses a variant of the image: "linux/arm64". If empty, it is the engine's own.
	Platform string
	// ShmSizeGiB is the size of /dev/shm, through which PyTorch's data loaders pass their
	// batches. Zero means the engine's default, often 64 MiB.
	ShmSizeGiB float64
	// GPUs gives GPUs to every node, in the syntax of docker's --gpus: "all", "2",
	// "device=0,1". Podman gets the same ones as CDI devices. Empty gives none. The pool does
	// not check whether they match the spec.
	GPUs string
	// Devices gives further devices: paths ("/dev/fuse") or CDI names
	// ("nvidia.com/gpu=0").
	Devices []string
	// Labels are put on every container and on the network. Labels that begin with "gputrain."
	// are reserved for the pool.
	Labels map[string]string
	// RunArgs are further arguments of the engine's create command, for options that have no
	// field here. All users who can see this machine's processes can see them.
	//
	// A variable without a value ("--env", "HF_HOME") gets its value from this program's
	// environment.
	RunArgs []string
	// PassEnv names variables of this program's environment that the engine's command sees
	// beside those that engines need: "AWS_PROFILE" for a credential helper, or "AWS_*" for all
	// with that prefix. Empty adds none.
	PassEnv []string
}

// DefaultImage is the image that nodes start from if Config.Image is empty.
const DefaultImage = "debian:bookworm-slim"

// HomeMadeImage is the image that nodes start from if Config.Image is empty and the engine
// neither has DefaultImage nor can pull it. The repository's scripts/container-image makes it
// from Debian's packages. Its own name distinguishes it from Debian's image.
const HomeMadeImage = "gputrain-debian:bookworm"

const (
	providerName = "container"
	labelPrefix  = "gputrain."
)

var _ driver.Provider = Config{}

// Name returns "container".
func (Config) Name() string { return providerName }

// Open finds the engine and checks that it answers. It starts nothing.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	if err := c.validate(); err != nil {
		return nil, fail("open", err)
	}
	e, err := findEngine(ctx, c.Binary, slices.Concat(c.PassEnv, namedVariables(c.RunArgs)))
	if err != nil {
		return nil, fail("open", err)
	}
	facts, err := e.facts(ctx)
	if err != nil {
		return nil, fail("open", err)
	}
	d := &containerDriver{cfg: c.clone(), engine: e, facts: facts, images: newImages(e, c)}
	if _, err := d.deviceArgs(); err != nil {
		return nil, fail("open", err)
	}
	return d, nil
}

// validate reports all faults at once.
func (c Config) validate() error {
	var faults []error
	invalid := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...))
	}
	if strings.HasPrefix(c.Image, "-") || strings.ContainsAny(c.Image, " \t\n\x00") {
		invalid("Image %q is not the name of an image", c.Image)
	}
	if strings.HasPrefix(c.Platform, "-") {
		invalid("Platform %q is not like linux/arm64", c.Platform)
	}
	if c.ShmSizeGiB < 0 || math.IsNaN(c.ShmSizeGiB) || math.IsInf(c.ShmSizeGiB, 0) {
		invalid("ShmSizeGiB is %v", c.ShmSizeGiB)
	}
	for _, d := range c.Devices {
		if d == "" || strings.HasPrefix(d, "-") {
			invalid("Devices has %q, which is neither a path nor a CDI name", d)
		}
	}
	for k := range c.Labels {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.HasPrefix(k, labelPrefix) {
			invalid("Labels has %q: a label needs a name, without \"=\", that does not begin with %q", k, labelPrefix)
		}
	}
	for _, a := range c.RunArgs {
		if strings.ContainsRune(a, 0) {
			invalid("RunArgs has a NUL byte in %q", a)
		}
	}
	return errors.Join(faults...)
}

// namedVariables returns the variables that arguments of a create command name without a value:
// the engine reads those from its own environment.
func namedVariables(args []string) (names []string) {
	for i, a := range args {
		name, joined := strings.CutPrefix(a, "--env=")
		if !joined && i > 0 && (args[i-1] == "--env" || args[i-1] == "-e") {
			name, joined = a, true
		}
		if joined && !strings.Contains(name, "=") {
			names = append(names, name)
		}
	}
	return names
}

// clone copies everything that a caller could go on changing.
func (c Config) clone() Config {
	c.Devices = append([]string(nil), c.Devices...)
	c.RunArgs = append([]string(nil), c.RunArgs...)
	c.PassEnv = append([]string(nil), c.PassEnv...)
	labels := make(map[string]string, len(c.Labels))
	for k, v := range c.Labels {
		labels[k] = v
	}
	c.Labels = labels
	return c
}
