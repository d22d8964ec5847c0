// Package usagetest builds and runs the programs of ../shared/design/usage as a user would: each in its own module,
// which requires this one.
package usagetest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A Program is a program that was built.
type Program struct {
	// Dir is its module's folder, in which it runs. It has the program's own files.
	Dir string
}

// Build builds a usage program. If the folder of the programs is missing, the test is skipped, or fails if
// GPUTRAIN_REQUIRE_SHARED is set.
func Build(t testing.TB, name string) Program {
	t.Helper()
	root := repository(t)
	programs := filepath.Join(filepath.Dir(root), "shared", "design", "usage")
	if _, err := os.Stat(programs); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_SHARED") != "" {
			t.Fatal("../shared is missing, and GPUTRAIN_REQUIRE_SHARED is set")
		}
		t.Skip("../shared/design/usage is missing: the usage programs are not built")
	}
	dir := t.TempDir()
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
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(programs, name))); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", "program", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("usage/%s does not build: %v\n%s", name, err, out)
	}
	return Program{dir}
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

// Run runs the program to its end, with env added to its environment.
func (p Program) Run(t testing.TB, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(p.Dir, "program"), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.Dir, append(os.Environ(), env...), &out, &errOut
	err = cmd.Run()
	return out.String(), errOut.String(), err
}
