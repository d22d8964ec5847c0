package crossbuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/childenv"
)

// ErrNoToolchain means that there is no go command.
var ErrNoToolchain = errors.New("there is no go command in PATH or in GOROOT")

// A toolchain runs the go command for one platform.
type toolchain struct {
	command string
	env     []string // overrides this program's environment
}

func newToolchain(p *Program, to Platform) (*toolchain, error) {
	name, err := findGo()
	if err != nil {
		return nil, err
	}
	t := &toolchain{command: name, env: []string{"GOOS=" + to.OS, "GOARCH=" + to.Arch, "CGO_ENABLED=0"}}
	for _, key := range []string{"GOEXPERIMENT", "GOFIPS140"} {
		if value := setting(p.Info, key); value != "" {
			t.env = append(t.env, key+"="+value)
		}
	}
	return t, nil
}

func findGo() (string, error) {
	found, err := exec.LookPath("go")
	if err == nil {
		return found, nil
	}
	if root := os.Getenv("GOROOT"); filepath.IsAbs(root) {
		name := filepath.Join(root, "bin", "go")
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		if found, err := exec.LookPath(name); err == nil {
			return found, nil
		}
	}
	return "", ErrNoToolchain
}

// A commandError is a failed go command, with the first lines of its output.
type commandError struct {
	what string
	said string
	err  error
}

func (e *commandError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("%s: %v", e.what, e.err)
	}
	return fmt.Sprintf("%s: %s", e.what, e.said)
}

func (e *commandError) Unwrap() error { return e.err }

// maxOutput bounds what a go command prints, in bytes: the longest is a list of packages.
const maxOutput = 256 << 20

// run runs the go command in a folder and returns its output, even if it fails. The command gets
// only the environment variables that it needs, and no credentials. If ctx ends, the command is
// interrupted, so that it removes unfinished files.
func (t *toolchain) run(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, t.command, args...)
	cmd.Dir = dir
	cmd.Env = slices.Concat(childenv.Of(childenv.System, childenv.Network, childenv.Go), []string{"PWD=" + dir}, t.env, env)
	out, said := bounded.Buffer{Most: maxOutput}, bounded.Buffer{First: true}
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Cancel = func() error {
		if err := cmd.Process.Signal(os.Interrupt); err == nil || errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return cmd.Process.Kill() // there is no other signal on Windows
	}
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	switch {
	case err == nil:
		return []byte(out.String()), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return []byte(out.String()), &commandError{what: "go " + args[0], said: firstLines(said.String()), err: err}
}

// firstLines returns the go command's errors, without its progress.
func firstLines(said string) string {
	const lines, bytes = 12, 2000
	var kept []string
	for line := range strings.Lines(said) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && !strings.HasPrefix(line, "go: downloading ") {
			kept = append(kept, line)
		}
	}
	if len(kept) > lines {
		kept = append(kept[:lines], fmt.Sprintf("and %d lines more", len(kept)-lines))
	}
	text := strings.Join(kept, "\n\t")
	if len(text) > bytes {
		text = strings.ToValidUTF8(text[:bytes], "") + " …"
	}
	return text
}
