package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// phasesRepository holds the images that have been through phases of an Image.
	phasesRepository = "localhost/gputrain/phases"
	labelPhases      = labelPrefix + "phases"
	// keptImages bounds those images: a new one replaces the oldest.
	keptImages = 10

	phasesReady = "gputrain: phases: begin"
	// phasesScript keeps the builder up while its program holds its input.
	phasesScript = "echo '" + phasesReady + "'; cat >/dev/null\n"
)

// failedPhases has the images that could not be made, by engine and name, until this program
// ends. The nodes then run the phases themselves and report the error.
var failedPhases sync.Map // map[string]bool

// phasedImage returns an image that has been through those phases of the spec's Image that use
// nothing of a pool: system packages and the Python environment. It is made from the ready
// image in a container of its own, which no pool's key, file or task ever enters, and is found
// by a hash of the ready image and of the phases. If a phase fails, or if there is nothing to
// gain, phasedImage returns the ready image.
func (m *images) phasedImage(ctx context.Context, ready string, req driver.Launch) (string, error) {
	img, ok := m.sharedPhases(req.Packages)
	if !ok {
		return ready, nil
	}
	name, err := phasesName(ready, m.user, img)
	if err != nil {
		return "", err
	}
	unlock, err := m.lockImage(ctx, name)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, failed := failedPhases.Load(m.engine.key() + "\n" + name); failed {
		return ready, nil
	}
	switch _, err := m.engine.inspectImage(ctx, name, m.arch()); {
	case err == nil:
		return name, nil
	case !isMissingImage(err):
		return "", err
	}
	if err := m.makePhases(ctx, ready, name, img, req.Output); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		failedPhases.Store(m.engine.key()+"\n"+name, true)
		return ready, nil
	}
	m.prunePhases(ctx)
	return name, nil
}

// buildVariables are variables of Image.Env, beside pip's and uv's own, that determine how
// packages are fetched and built.
var buildVariables = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "MAX_JOBS", "CUDA_HOME", "TORCH_CUDA_ARCH_LIST",
}

var (
	secretName  = regexp.MustCompile(`(?i)password|passwd|token|secret|credential|username|(^|_)key($|_)`)
	secretValue = regexp.MustCompile(`://[^/?#\s]*@`)
)

// sharedPhases returns the part of an image that every pool can share, and whether there is
// one. There is none if a variable that the phases see may be a secret, which the installed
// packages could keep, or if RunArgs make nodes different from the driver's own containers.
func (m *images) sharedPhases(image driver.Packages) (bootstrap.Image, bool) {
	img := bootstrap.Image{
		Apt: image.Apt, Python: image.Python, Pip: image.Pip, Requirements: image.Requirements, PipIndexes: image.PipIndexes, PhaseTimeout: image.PhaseTimeout,
	}
	if len(img.Apt) == 0 && len(img.Pip) == 0 && img.Requirements == "" && img.Python == "" || m.engine.dialect == apple || m.runArgs {
		return img, false
	}
	for name, value := range image.Env {
		if !strings.HasPrefix(name, "PIP_") && !strings.HasPrefix(name, "UV_") && !slices.Contains(buildVariables, name) {
			continue
		}
		if secretName.MatchString(name) || secretValue.MatchString(value) {
			return img, false
		}
		if img.Env == nil {
			img.Env = map[string]string{}
		}
		img.Env[name] = value
	}
	return img, true
}

// phasesName returns the name of the image with the phases. It depends on the digest of the
// ready image, on the phases, and on the user whose home has the Python environment.
func phasesName(ready, user string, img bootstrap.Image) (string, error) {
	phases, err := bootstrap.Plan(img)
	if err != nil {
		return "", fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", ready)
	if user != root {
		fmt.Fprintf(h, "user %q\n", user)
	}
	for _, p := range phases {
		fmt.Fprintf(h, "%q %q\n", p.Name, p.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(img.Env)) {
		fmt.Fprintf(h, "%q %q\n", name, img.Env[name])
	}
	return phasesRepository + ":" + hex.EncodeToString(h.Sum(nil)[:10]), nil
}

// makePhases runs the phases in a container of the ready image, and keeps it as an image once
// all have succeeded. Like makeReady's, the container ends with its program.
func (m *images) makePhases(ctx context.Context, ready, name string, img bootstrap.Image, output func(string) io.Writer) error {
	_, hash, _ := strings.Cut(name, ":")
	id, remove, err := m.createToCommit(ctx, "gputrain-phases-", labelPhases, hash, ready)
	if err != nil {
		return err
	}
	defer remove()
	at, err := m.engine.start(ctx, id, phasesScript, phasesReady)
	if err != nil {
		return err
	}
	defer at.detach()
	none := func(context.Context, []transfer.Entry) (transfer.Stats, error) { return transfer.Stats{}, nil }
	changed := false
	event := func(_ bootstrap.Phase, state bootstrap.State, _ time.Duration) {
		changed = changed || state == bootstrap.Done
	}
	for user, part := range byUser(m.user, img) {
		b := &builder{engine: m.engine, id: id, user: user}
		if err := b.look(ctx); err != nil {
			return err
		}
		if err := bootstrap.Run(ctx, b, none, part, bootstrap.Options{Output: output, Event: event}); err != nil {
			return err
		}
	}
	if !changed { // the ready image has everything
		_, err = m.engine.run(ctx, "tag", ready, name)
		return err
	}
	_, err = m.engine.run(ctx, "commit", id, name)
	return err
}

// byUser yields the parts of an image, in order, with the users who run them: only root can
// install system packages, and the tasks' user owns the Python environment.
func byUser(user string, img bootstrap.Image) iter.Seq2[string, bootstrap.Image] {
	return func(yield func(string, bootstrap.Image) bool) {
		if user == root {
			yield(root, img)
			return
		}
		system, own := img, img
		system.Python, system.Pip, system.Requirements, system.PipIndexes = "", nil, "", nil
		own.Apt = nil
		_ = (len(img.Apt) == 0 || yield(root, system)) && yield(user, own)
	}
}

// prunePhases removes all but the latest images with phases. An image in use stays.
func (m *images) prunePhases(ctx context.Context) {
	out, err := m.engine.run(ctx, "image", "ls", "--format", "{{.CreatedAt}}\t{{.Repository}}:{{.Tag}}", phasesRepository)
	if err != nil {
		return // the next pool tries again
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	for _, line := range lines[:max(0, len(lines)-keptImages)] {
		if _, name, ok := strings.Cut(line, "\t"); ok && strings.HasPrefix(name, phasesRepository+":") {
			_, _ = m.engine.run(ctx, "image", "rm", name)
		}
	}
}

// A builder is a container in which phases run as a user: a bootstrap.Runner.
type builder struct {
	engine *engine
	id     string
	user   string
	facts  supervisor.Facts
	base   map[string]string
}

// lookScript prints the facts about a machine that the phases need: its processor, and the
// user's home folder by SSH. It makes the folder for everything on a node, as nodes make it.
const lookScript = `uname -m
home=/root
me=$(id -u)
while IFS=: read -r _ _ uid _ _ dir _; do
	[ "$uid" != "$me" ] || { home=$dir; break; }
done </etc/passwd
umask 077
mkdir -p "$home/.gputrain" && printf '%s\n' "$home"`

// login returns the user as the engine takes it: root by number, whatever its name in the image.
func (b *builder) login() string {
	if b.user == root {
		return "0:0"
	}
	return b.user
}

// look reads the facts that the phases need.
func (b *builder) look(ctx context.Context) error {
	out, err := b.engine.run(ctx, "exec", "--user", b.login(), b.id, "sh", "-c", lookScript)
	if err != nil {
		return err
	}
	machine, home, ok := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if !ok || !strings.HasPrefix(home, "/") {
		return fmt.Errorf("%s exec: cannot read the answer: %.80q", b.engine.dialect, out)
	}
	b.facts = supervisor.Facts{OS: "linux", Arch: supervisor.GoArch(machine), Home: home, CacheDir: home + "/.gputrain/cache"}
	return nil
}

// Facts returns the result of look.
func (b *builder) Facts() supervisor.Facts { return b.facts }

// SetBase sets the environment of later commands. It ignores the path, which matters only after
// the last phase, when nothing runs any more.
func (b *builder) SetBase(env map[string]string, _ []string) { b.base = env }

// Run runs a phase's commands. A command that runs too long stays there and ends with the
// container.
func (b *builder) Run(ctx context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, spec.Timeout)
	defer cancel()
	args := []string{"exec", "--interactive", "--user", b.login(), "--env", "HOME=" + b.facts.Home}
	env := maps.Clone(b.base)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, spec.Env)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		args = append(args, "--env", name+"="+env[name]) // none is a secret: see sharedPhases
	}
	cmd := b.engine.command(ctx, append(append(args, b.id), spec.Args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = spec.Stdin, sinks.Stdout, sinks.Stderr
	start := time.Now()
	err := cmd.Run()
	exit := supervisor.Exit{Cause: supervisor.Exited, Elapsed: time.Since(start)}
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		exit.Code, err = failed.ExitCode(), nil
	}
	return exit, err
}
