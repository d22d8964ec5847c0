//go:build unix

package launcher

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/trainimage"
)

// Containers are nodes that reach each other by address and run no SSH server.
type containers struct {
	ids, addrs []string
}

const label = "gputrain.test=launcher"

func startContainers(t *testing.T, n int) *containers {
	t.Helper()
	trainimage.Require(t)
	c := &containers{}
	for range n {
		id := docker(t, "run", "--detach", "--init", "--label", label, trainimage.Image, "sleep", "1200")
		t.Cleanup(func() { docker(t, "rm", "--force", "--volumes", id) })
		docker(t, "cp", "../test/e2e/training/testdata", id+":/src")
		c.ids = append(c.ids, id)
		c.addrs = append(c.addrs, docker(t, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", id))
	}
	return c
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// command returns a command of a node.
func (c *containers) command(ctx context.Context, node int, env map[string]string, args ...string) *exec.Cmd {
	all := []string{"exec", "--interactive"}
	for name, value := range env {
		all = append(all, "--env", name+"="+value)
	}
	return exec.CommandContext(ctx, "docker", append(append(all, c.ids[node]), args...)...)
}

// open is a Relay.Open on the first node.
func (c *containers) open(ctx context.Context, command string) (io.ReadWriteCloser, error) {
	return openCommand(c.command(context.WithoutCancel(ctx), 0, nil, "sh", "-c", command))
}

// marked returns the processes of a node that have a variable, and with signal sends it to them first.
func (c *containers) marked(t *testing.T, node int, variable, signal string) string {
	t.Helper()
	const script = `for p in /proc/[0-9]*; do
		tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -qx "$1" || continue
		[ -z "$2" ] || kill -s "$2" "${p#/proc/}"
		tr '\0' ' ' <"$p/cmdline"
		echo
	done`
	return docker(t, "exec", c.ids[node], "sh", "-c", script, "sh", variable, signal)
}

// An mpiRun is mpirun of a gang on containers, with what the relay started.
type mpiRun struct {
	code   int
	output string
	relay  error
}

// mpirun runs a program on all nodes and returns when mpirun has ended. Whenever mpirun prints something, printed is called
// with all of it so far.
func (c *containers) mpirun(t *testing.T, g *Gang, env map[string]string, printed func(string), args ...string) mpiRun {
	t.Helper()
	scratch := "/tmp/scratch-" + g.Training
	variables := func(node int) map[string]string {
		all := g.Env(MPI, node, 0)
		all["GPUTRAIN_SCRATCH"] = scratch
		maps.Copy(all, env)
		return all
	}
	for node := range c.ids {
		docker(t, "exec", c.ids[node], "mkdir", "-p", scratch)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	relayed := make(chan error, 1)
	go func() {
		r := Relay{Open: c.open, Scratch: scratch, Nodes: g.Addrs, Start: func(ctx context.Context, node int, command string) (int, error) {
			return exitCode(c.command(ctx, node, variables(node), "sh", "-c", command).Run())
		}}
		relayed <- r.Run(ctx)
	}()
	words, _ := g.Command(MPI, args, "")
	cmd := c.command(ctx, 0, variables(0), words...)
	out := &watched{printed: printed}
	cmd.Stdout, cmd.Stderr = out, out
	code, err := exitCode(cmd.Run())
	if err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	cancel()
	return mpiRun{code, out.String(), <-relayed}
}

func exitCode(err error) (int, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// A watched buffer calls printed after each write.
type watched struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	printed func(string)
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.buf.Write(p)
	text := w.buf.String()
	w.mu.Unlock()
	if w.printed != nil {
		w.printed(text)
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}
