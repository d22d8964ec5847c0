package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// Config runs nodes in containers. The zero value works on every machine with an engine.
type Config struct {
	// Binary is the engine's command: "docker", "podman", "nerdctl", "container", or a path. If
	// empty, it is the first of these that is installed.
	Binary string
	// Image is the image that nodes start from. If empty, it is the spec's Image.Docker, or else
	// DefaultImage if the engine has it or can pull it, else HomeMadeImage if the engine has that.
	Image string
	// Platform chooses a variant of the image: "linux/arm64". If empty, it is the engine's own.
	Platform string
	// ShmSizeGiB is the size of /dev/shm, through which PyTorch's data loaders pass their
	// batches. Zero means the engine's default, often 64 MiB.
	ShmSizeGiB float64
	// Network is a network of the engine, by its name, that nodes join. It must exist, and is
	// neither made nor removed. Other pools' nodes may be in it, so nodes have no alias by rank
	// there. If empty, each pool has a network of its own.
	Network string
	// NamePrefix begins the names of the nodes' containers, before the node's name, by which
	// nodes reach each other. Empty means none.
	NamePrefix string
	// User is the user that tasks run as: one of the image's /etc/passwd, by name, with a home
	// folder and a login shell. The SSH server runs as root in any case. Empty means root.
	User string
	// GPUs gives GPUs to every node, the same ones to all, in the syntax of docker's --gpus:
	// "all", "2", "device=0,1". Podman gets the same ones as CDI devices. Empty gives none. The
	// pool does not check whether they match the spec.
	GPUs string
	// OwnGPUs are GPUs of the engine's machine, by index ("0") or UUID ("GPU-8f6a..."), of which
	// each node gets as many of its own as Spec.Accelerator asks for, and none without that. No
	// other node with OwnGPUs has them, whatever its pool or program, if all of these programs
	// use the same name for a GPU. The names are those of "nvidia-smi -L". The engine does not
	// report what the GPUs are: they must be what the spec asks for. Empty means none. GPUs and
	// OwnGPUs exclude each other.
	OwnGPUs []string
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

var (
	objectName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)
	userName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,31}$`)
	gpuName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9:-]*$`)
)

var _ driver.Provider = driver.RegisterConfig(Config{})

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
	if c.Network != "" && !objectName.MatchString(c.Network) || slices.Contains([]string{"host", "none", "bridge", "default"}, c.Network) {
		invalid("Network is %q; it must be the name of a network that was made for containers", c.Network)
	}
	if c.NamePrefix != "" && !objectName.MatchString(c.NamePrefix) {
		invalid("NamePrefix is %q; a name begins with a letter or a digit and has letters, digits, dots, dashes and underscores, 63 at most", c.NamePrefix)
	}
	if c.User != "" && !userName.MatchString(c.User) {
		invalid("User is %q; it must be the name of a user of the image", c.User)
	}
	if c.GPUs != "" && len(c.OwnGPUs) > 0 {
		invalid("GPUs and OwnGPUs are set; the first gives all nodes the same GPUs, the second each its own")
	}
	for i, g := range c.OwnGPUs {
		if !gpuName.MatchString(g) {
			invalid("OwnGPUs has %q, which is neither an index nor a UUID of a GPU", g)
		}
		if slices.Contains(c.OwnGPUs[:i], g) {
			invalid("OwnGPUs has %q twice", g)
		}
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

// root is the user that tasks run as, unless Config.User is set.
const root = "root"

// user returns the user that tasks run as.
func (c Config) user() string { return cmp.Or(c.User, root) }

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
	c.OwnGPUs = append([]string(nil), c.OwnGPUs...)
	c.RunArgs = append([]string(nil), c.RunArgs...)
	c.PassEnv = append([]string(nil), c.PassEnv...)
	labels := make(map[string]string, len(c.Labels))
	for k, v := range c.Labels {
		labels[k] = v
	}
	c.Labels = labels
	return c
}
