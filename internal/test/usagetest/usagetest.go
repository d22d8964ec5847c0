// Package usagetest builds and runs the programs of internal/test/usage as a user would: each in its own module,
// which requires this one.
package usagetest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/localnet"
)

// A Program is a program that was built.
type Program struct {
	// Dir is its module's folder, in which it runs. It has the program's own files.
	Dir string
	// State is the folder of its pools' records: XDG_STATE_HOME.
	State string
}

// Build builds a usage program. own are pairs of a text of the program, and what this user has written in its place.
func Build(t testing.TB, name string, own ...string) Program {
	t.Helper()
	root, dir := repository(t), t.TempDir()
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, requires, _ := strings.Cut(read(filepath.Join(root, "go.mod")), "\n")
	write("go.mod", "module example.com/user\n"+requires+
		"\nrequire github.com/gputrain/gputrain v0.0.0\nreplace github.com/gputrain/gputrain => "+root+"\n")
	write("go.sum", read(filepath.Join(root, "go.sum")))
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "internal", "test", "usage", name))); err != nil {
		t.Fatal(err)
	}
	for pair := range slices.Chunk(own, 2) {
		source := read(filepath.Join(dir, "main.go"))
		if !strings.Contains(source, pair[0]) {
			t.Fatalf("usage/%s has no %s", name, pair[0])
		}
		write("main.go", strings.Replace(source, pair[0], pair[1], 1))
	}
	build := exec.Command("go", "build", "-mod=mod", "-ldflags", localnet.Linked(), "-o", "program", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("usage/%s does not build: %v\n%s", name, err, out)
	}
	return Program{Dir: dir, State: t.TempDir()}
}

// repository returns the folder of this module.
func repository(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}

// Run runs the program to its end, with env added to its environment. It must leave no pool behind.
func (p Program) Run(t testing.TB, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(p.Dir, "program"), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.Dir, append(append(os.Environ(), "XDG_STATE_HOME="+p.State), env...), &out, &errOut
	err = cmd.Run()
	if left, _ := filepath.Glob(filepath.Join(p.State, "gputrain", "*.ledger")); left != nil {
		t.Errorf("left behind: %v", left)
	}
	return out.String(), errOut.String(), err
}
