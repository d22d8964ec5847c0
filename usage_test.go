package gputrain_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// usage returns the folder of the programs that fix the public names.
func usage(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../shared/design/usage")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_SHARED") != "" {
			t.Fatal("../shared is not there, and GPUTRAIN_REQUIRE_SHARED is set")
		}
		t.Skip("../shared/design/usage is not there: the usage programs are not built")
	}
	return dir
}

// module makes a module of the user's own around one program.
func module(t *testing.T, program string) string {
	t.Helper()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "go.mod" {
			_, requires, _ := strings.Cut(string(b), "\n")
			b = []byte("module example.com/user\n" + requires +
				"\nrequire github.com/gputrain/gputrain v0.0.0\nreplace github.com/gputrain/gputrain => " + root + "\n")
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	source, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), source, 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", "program", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s does not build: %v\n%s", program, err, out)
	}
	return dir
}

func runProgram(t *testing.T, dir string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "program"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errOut
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

func TestUsageSweep(t *testing.T) {
	dir := module(t, filepath.Join(usage(t), "sweep", "main.go"))
	out, errOut, err := runProgram(t, dir)
	if err != nil || errOut != "" || strings.Count(out, "<nil>") != 4 || !strings.HasPrefix(out, "task 0 on node") {
		t.Errorf("%v\n%s%s", err, out, errOut)
	}
}

func TestUsageOwnHosts(t *testing.T) {
	dir := module(t, filepath.Join(usage(t), "ownhosts", "main.go"))
	_, errOut, err := runProgram(t, dir)
	if err == nil || !strings.Contains(errOut, "gpu1.lab") {
		t.Errorf("its hosts do not exist, and its host key is a sketch: %v\n%s", err, errOut)
	}
}

func TestUsageFunctions(t *testing.T) {
	dir := module(t, filepath.Join(usage(t), "functions", "main.go"))
	needDocker(t)
	out, errOut, err := runProgram(t, dir)
	if err != nil || !strings.Contains(out, "6 [1 2] [node 0 of 3") {
		t.Errorf("%v\n%s%s", err, out, errOut)
	}
}

func TestUsageCommands(t *testing.T) {
	dir := module(t, filepath.Join(usage(t), "commands", "main.go"))
	needDocker(t)
	os.MkdirAll(filepath.Join(dir, "src"), 0o755)
	os.MkdirAll(filepath.Join(dir, "data"), 0o755)
	os.WriteFile(filepath.Join(dir, "data", "digits.csv"), []byte("1,2,3\n"), 0o644)
	os.WriteFile(filepath.Join(dir, "src", "train.py"), []byte(`
import json, os, sys
seed = int(sys.argv[2])
rows = open("data/digits.csv").read().split(",")
os.makedirs("out", exist_ok=True)
json.dump({"seed": seed, "rows": len(rows)}, open(f"out/{seed}.json", "w"))
print("trained with seed", seed)
if seed == 5:
    sys.exit(3)
`), 0o644)
	out, errOut, err := runProgram(t, dir)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errOut)
	}
	for _, want := range []string{"task 7: trained with seed 7", "task 5 exit code 3", "cost so far: $0.00", "Linux"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s%s", want, out, errOut)
		}
	}
	found, _ := filepath.Glob(filepath.Join(dir, "results", "*", "out", "*.json"))
	names := map[string]bool{} // a task that was tried again has left one on each node that it was on
	for _, f := range found {
		names[filepath.Base(f)] = true
	}
	if len(names) != 8 {
		t.Errorf("downloaded %v", found)
	}
}

// needDocker skips where there is no container engine, and fails where there
// must be one.
func needDocker(t testing.TB) {
	t.Helper()
	if out, err := exec.Command("docker", "image", "inspect", "debian:bookworm-slim").CombinedOutput(); err != nil {
		why := "no container engine with the image debian:bookworm-slim (scripts/container-image makes it): " + strings.TrimSpace(string(out))
		if os.Getenv("GPUTRAIN_REQUIRE_DOCKER") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
}
