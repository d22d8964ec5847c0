package container

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gputrain/gputrain"
)

// Config runs nodes in containers. The zero value works wherever an engine does.
type Config struct {
	// Binary is the engine's command: "docker", "podman", "nerdctl",
	// "container", or a path. Empty means the first of these that is installed.
	Binary string
	// Image is what nodes start from. Empty means DefaultImage if that is here or can be
	// pulled, else HomeMadeImage if that is here.
	Image string
	// Platform chooses a variant of the image: "linux/arm64". Empty means the
	// engine's own.
	Platform string
	// ShmSizeGiB is the size of /dev/shm, which data loaders of PyTorch pass
	// their batches through. Zero means the engine's default, often 64 MiB.
	ShmSizeGiB float64
	// GPUs gives GPUs to every node, in the words of docker's --gpus: "all",
	// "2", "device=0,1". Podman gets the same ones as CDI devices. Empty gives
	// none. The pool takes it at your word that they are what the spec asks for.
	GPUs string
	// Devices gives further devices: paths ("/dev/fuse") or CDI names
	// ("nvidia.com/gpu=0").
	Devices []string
	// Labels are put on every container and on the network. Those that begin
	// with "gputrain." are the pool's own.
	Labels map[string]string
	// RunArgs are further arguments of the engine's create command, for what has
	// no field here. They are visible to all who can see this machine's processes.
	//
	// A variable that they name without a value ("--env", "HF_HOME") is taken from this
	// program's environment.
	RunArgs []string
	// PassEnv names variables of this program's environment that the engine's command
	// sees besides those that engines need: for a credential helper "AWS_PROFILE", or
	// "AWS_*" for all that begin so. Empty adds none.
	PassEnv []string
}

// DefaultImage is what nodes start from if Config.Image is empty.
const DefaultImage = "debian:bookworm-slim"

// HomeMadeImage is what nodes start from if Config.Image is empty and DefaultImage is
// neither here nor can be pulled. The repository's scripts/container-image makes it, from
// Debian's packages. It has a name of its own, so that nothing takes it for Debian's image.
const HomeMadeImage = "gputrain-debian:bookworm"

const (
	providerName = "container"
	labelPrefix  = "gputrain."
)

var _ gputrain.Provider = Config{}

// Name returns "container".
func (Config) Name() string { return providerName }

// Open finds the engine and checks that it answers. It starts nothing.
func (c Config) Open(ctx context.Context) (gputrain.Driver, error) {
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
	d := &driver{cfg: c.clone(), engine: e, facts: facts}
	if _, err := d.deviceArgs(); err != nil {
		return nil, fail("open", err)
	}
	return d, nil
}

// validate returns every fault at once.
func (c Config) validate() error {
	var faults []error
	invalid := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{gputrain.ErrInvalid}, args...)...))
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

// namedVariables returns the variables that arguments of a create command name
// without a value: the engine looks for that in its own environment.
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

// clone copies what a caller could go on changing.
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
