package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/childenv"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/providers/driver"
)

// A dialect is an engine's variant of docker's command line.
type dialect int

const (
	docker dialect = iota
	podman
	nerdctl
	apple
)

// String returns the dialect's usual command.
func (d dialect) String() string {
	return [...]string{"docker", "podman", "nerdctl", "container"}[d]
}

// An engine is a container engine's command line.
type engine struct {
	path    string
	dialect dialect
	pass    []string // variables that its commands see beside those that engines need
	env     []string // further variables, "NAME=value"
}

const (
	// answerTimeout bounds the first calls. Without it an engine behind a dead link would block
	// Open until its context ends.
	answerTimeout = 30 * time.Second
	// After its end, a killed command's children may hold its pipes for pipeDelay.
	pipeDelay = 5 * time.Second
)

// findEngine returns the named engine, or the first installed one. Its commands also see the
// variables in pass.
func findEngine(ctx context.Context, binary string, pass []string) (*engine, error) {
	names := []string{binary}
	if binary == "" {
		names = []string{"docker", "podman", "nerdctl", "container"}
	}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		e := &engine{path: path, pass: pass}
		// The version identifies the engine: podman often runs under the name of docker.
		out, err := e.run(ctx, "--version")
		if err != nil {
			return nil, err
		}
		if e.dialect, err = dialectOf(string(out)); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return e, nil
	}
	kind := driver.ErrUnavailable
	if binary != "" {
		return nil, &driver.Error{Kind: kind, Err: fmt.Errorf("there is no %q on this machine", binary),
			Hint: "install it, or set Binary to the engine's command"}
	}
	return nil, &driver.Error{Kind: kind, Err: errors.New("there is no container engine on this machine"),
		Hint: "install Docker or podman, or set Binary to the engine's command"}
}

// dialectOf reads the answer to --version.
func dialectOf(version string) (dialect, error) {
	v := strings.ToLower(strings.TrimSpace(version))
	for prefix, d := range map[string]dialect{
		"docker version": docker, "podman version": podman, "nerdctl version": nerdctl, "container cli version": apple,
	} {
		if strings.HasPrefix(v, prefix) {
			return d, nil
		}
	}
	line, _, _ := strings.Cut(v, "\n")
	return 0, fmt.Errorf("%w: the engine is none of docker, podman, nerdctl and container: %.80q", driver.ErrUnsupported, line)
}

// maxAnswer bounds what an engine's command prints, in bytes.
const maxAnswer = 64 << 20

// run runs one command and returns its output. A failure is a [*commandError], or the context's
// error if the context has ended.
func (e *engine) run(ctx context.Context, args ...string) ([]byte, error) {
	stdout := bounded.Buffer{Most: maxAnswer}
	var stderr output.Tail
	cmd := e.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s %s: %w", e.dialect, verb(args), context.Cause(ctx))
		}
		return []byte(stdout.String()), &commandError{command: e.dialect.String() + " " + verb(args), stderr: tail(stderr.String()), err: cmp.Or(stdout.Err(), err)}
	}
	return []byte(stdout.String()), nil
}

// command prepares a command that a Ctrl-C in the terminal does not reach: the user's program
// handles the signal and then closes its pool in order. The command sees the variables of this
// program's environment that engines need, not its credentials.
func (e *engine) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, e.path, args...)
	cmd.Env = append(childenv.Of(childenv.System, childenv.Network, childenv.Containers, e.pass), e.env...)
	cmd.WaitDelay = pipeDelay
	ownGroup(cmd)
	return cmd
}

// verb returns the part of the arguments that is safe and useful to print: "network rm". The
// rest may contain the user's RunArgs.
func verb(args []string) string {
	if len(args) > 1 && (args[0] == "network" || args[0] == "image" || args[0] == "context" || args[0] == "system") {
		return args[0] + " " + args[1]
	}
	return args[0]
}

// A commandError is a failed command.
type commandError struct {
	command string
	stderr  string
	err     error
}

func (e *commandError) Error() string {
	if e.stderr == "" {
		return e.command + ": " + e.err.Error()
	}
	return e.command + ": " + e.stderr
}

func (e *commandError) Unwrap() error { return e.err }

// tailLines bounds the lines of a command's or a node's output in an error.
const tailLines = 12

// tail returns the last lines of a text.
func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if n := len(lines) - tailLines; n > 0 {
		lines = lines[n:]
	}
	return strings.Join(lines, "\n")
}
