//go:build unix

package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/internal/uv"
)

// A localNode runs commands on this machine, in an environment of its own: a PATH with only the test's programs, and an
// empty home.
type localNode struct {
	t     *testing.T
	facts supervisor.Facts
	bin   string   // the first folder of PATH
	also  []string // the rest

	mu   sync.Mutex
	base map[string]string
	path []string
	ids  []string // attempts, in order
	lost error    // if set, Run returns it and runs nothing
}

// tools are the programs that the scripts may use on any node, beside sh's own.
var tools = []string{"sh", "cat", "cksum", "cut", "env", "find", "grep", "id", "mkdir", "mv", "rm", "sed", "sleep", "tr", "touch"}

func newNode(t *testing.T) *localNode {
	t.Helper()
	dir := t.TempDir()
	n := &localNode{t: t, bin: filepath.Join(dir, "bin"), facts: supervisor.Facts{
		OS: "linux", Arch: "amd64",
		Home: filepath.Join(dir, "home"), Root: filepath.Join(dir, "pool one"),
		WorkDir: filepath.Join(dir, "pool one", "work"), CacheDir: filepath.Join(dir, "home", "a cache"),
	}}
	for _, d := range []string{n.bin, n.facts.Home, n.facts.WorkDir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range tools {
		n.link(name)
	}
	return n
}

// link puts a program of this machine on the node.
func (n *localNode) link(name string) {
	n.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		n.t.Skipf("this machine has no %s", name)
	}
	if err := os.Symlink(path, filepath.Join(n.bin, name)); err != nil {
		n.t.Fatal(err)
	}
}

// program puts a shell script on the node under a program's name. It records every call, and all scripts share the
// folder state.
func (n *localNode) program(name, text string) {
	n.t.Helper()
	head := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"%s $*\" >>'%s'\nstate='%s'\n", name, n.callsFile(), n.state())
	path := filepath.Join(n.bin, name)
	os.Remove(path) // it may be a link to the machine's own
	if err := errors.Join(os.MkdirAll(n.state(), 0o755), os.WriteFile(path, []byte(head+text), 0o755)); err != nil {
		n.t.Fatal(err)
	}
}

func (n *localNode) state() string     { return filepath.Join(n.facts.Home, "state") }
func (n *localNode) callsFile() string { return filepath.Join(n.facts.Home, "calls") }

// calls returns the calls of programs since the last time.
func (n *localNode) calls() []string {
	data, _ := os.ReadFile(n.callsFile())
	os.Remove(n.callsFile())
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func (n *localNode) Facts() supervisor.Facts { return n.facts }

func (n *localNode) SetBase(env map[string]string, path []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.base, n.path = env, path
}

func (n *localNode) command(ctx context.Context, args ...string) *exec.Cmd {
	n.mu.Lock()
	defer n.mu.Unlock()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if filepath.Base(args[0]) == args[0] {
		cmd.Path, cmd.Err = filepath.Join(n.bin, args[0]), nil
	}
	cmd.Dir = n.facts.WorkDir
	path := slices.Concat(n.path, []string{n.bin}, n.also)
	cmd.Env = []string{"HOME=" + n.facts.Home, "PATH=" + strings.Join(path, ":")}
	for k, v := range n.base {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd
}

func (n *localNode) Run(ctx context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
	n.mu.Lock()
	n.ids = append(n.ids, spec.ID)
	lost := n.lost
	n.mu.Unlock()
	if lost != nil {
		return supervisor.Exit{}, lost
	}
	limited, cancel := context.WithTimeout(ctx, spec.Timeout)
	defer cancel()
	cmd := n.command(limited, spec.Args...)
	for _, env := range []map[string]string{spec.Env, spec.Secrets} {
		for k, v := range env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	cmd.Stdin = spec.Stdin
	cmd.Stdout, cmd.Stderr = sinks.Stdout, sinks.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return supervisor.Exit{Cause: supervisor.Cancelled, Code: -1}, nil
	case limited.Err() != nil:
		return supervisor.Exit{Cause: supervisor.TimedOut, Code: -1}, nil
	case errors.As(err, &exit):
		return supervisor.Exit{Cause: supervisor.Exited, Code: exit.ExitCode()}, nil
	}
	return supervisor.Exit{Cause: supervisor.Exited}, err
}

// sh runs shell text like a task of the node, and returns its output.
func (n *localNode) sh(text string) string {
	n.t.Helper()
	out, err := n.command(n.t.Context(), "sh", "-c", text).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %v\n%s", text, err, out)
	}
	return strings.TrimSpace(string(out))
}

// A diary records what Run reports.
type diary struct {
	states []string // "pip done"
	output bytes.Buffer
}

func (d *diary) options() Options {
	return Options{
		Output:  func(string) io.Writer { return &d.output },
		release: noUV(),
		Event: func(phase Phase, s State, _ time.Duration) {
			if s != Started {
				d.states = append(d.states, phase.Name+" "+s.String())
			}
		},
	}
}

// boot runs the image, which must succeed, and compares the results of the phases.
func boot(t *testing.T, n Runner, img Image, want ...string) string {
	t.Helper()
	var d diary
	if err := Run(t.Context(), n, noSync, img, d.options()); err != nil {
		t.Fatalf("%v\nstates: %v", err, d.states)
	}
	if !slices.Equal(d.states, want) {
		t.Fatalf("phases: %q, want %q\n%s", d.states, want, d.output.String())
	}
	return d.output.String()
}

// bootFails runs the image, which must fail in a phase.
func bootFails(t *testing.T, n Runner, img Image) *Error {
	t.Helper()
	var d diary
	err := Run(t.Context(), n, noSync, img, d.options())
	var failed *Error
	if !errors.As(err, &failed) {
		t.Fatalf("error %v, want an *Error", err)
	}
	if last := d.states[len(d.states)-1]; last != failed.Phase+" failed" {
		t.Errorf("last state %q, want %s failed", last, failed.Phase)
	}
	return failed
}

// noUV is a release of uv that has no builds: nothing is fetched.
func noUV() *uv.Release { return &uv.Release{Version: "0.0.0"} }

func noSync(context.Context, []transfer.Entry) (transfer.Stats, error) {
	return transfer.Stats{}, errors.New("nothing is to be copied")
}
