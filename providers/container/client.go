package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/childenv"
)

// A dialect is an engine's way with the command line that Docker began.
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
	pass    []string // variables that its commands see beyond what engines need
}

const (
	// answerTimeout bounds the first calls: an engine behind a dead link would
	// otherwise hold Open for as long as its context lasts.
	answerTimeout = 30 * time.Second
	// pipeDelay is how long a killed command's own children may hold its pipes.
	pipeDelay = 5 * time.Second
)

// findEngine returns the named engine, or the first that is installed. Its
// commands see the variables that pass names, too.
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
		// The version tells who answers: podman often goes by the name of docker.
		out, err := e.run(ctx, "--version")
		if err != nil {
			return nil, err
		}
		if e.dialect, err = dialectOf(string(out)); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return e, nil
	}
	kind := gputrain.ErrUnavailable
	if binary != "" {
		return nil, &gputrain.Error{Kind: kind, Err: fmt.Errorf("there is no %q on this machine", binary),
			Hint: "install it, or set Binary to the engine's command"}
	}
	return nil, &gputrain.Error{Kind: kind, Err: errors.New("no container engine on this machine"),
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
	return 0, fmt.Errorf("%w: an engine that is none of docker, podman, nerdctl and container: %.80q", gputrain.ErrUnsupported, line)
}

// run runs one command and returns what it prints. A failure is a [*commandError],
// or the context's error where that is why.
func (e *engine) run(ctx context.Context, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := e.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s %s: %w", e.dialect, verb(args), context.Cause(ctx))
		}
		return stdout.Bytes(), &commandError{command: e.dialect.String() + " " + verb(args), stderr: tail(stderr.String()), err: err}
	}
	return stdout.Bytes(), nil
}

// command prepares a command that a Ctrl-C in the terminal does not reach: the
// signal is the user's program's, which then ends its pool in good order. It sees
// the part of this program's environment that engines need, not its credentials.
func (e *engine) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, e.path, args...)
	cmd.Env = childenv.Of(childenv.System, childenv.Network, childenv.Containers, e.pass)
	cmd.WaitDelay = pipeDelay
	ownGroup(cmd)
	return cmd
}

// verb is the part of the arguments that is safe and useful to print: "network
// rm". What follows can hold what a user has put into RunArgs.
func verb(args []string) string {
	if len(args) > 1 && (args[0] == "network" || args[0] == "image" || args[0] == "context" || args[0] == "system") {
		return args[0] + " " + args[1]
	}
	return args[0]
}

// A commandError is a command that ended with other than success.
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

// tailLines is how much of a command's or a node's output an error shows.
const tailLines = 12

// tail returns the last lines of a text.
func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if n := len(lines) - tailLines; n > 0 {
		lines = lines[n:]
	}
	return strings.Join(lines, "\n")
}
