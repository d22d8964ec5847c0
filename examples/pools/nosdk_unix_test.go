//go:build unix && !sdk

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/light"
)

// goTool puts a fake go command on PATH. It builds the script as the program, or fails if the script is empty.
func goTool(t *testing.T, built string) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	text := "#!/bin/sh\necho \"$@\" >" + filepath.Join(dir, "args") + "\nwhile [ \"$1\" != -o ]; do shift; done\n" +
		"printf '#!/bin/sh\\n%s\\n' '" + built + "' >\"$2\"\nchmod 700 \"$2\"\n"
	if built == "" {
		text = "#!/bin/sh\nexit 1\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Cleanup(func() {
		if args, _ := os.ReadFile(filepath.Join(dir, "args")); built != "" && !strings.Contains(string(args), "-tags sdk") {
			t.Errorf("built by go %s", args)
		}
	})
}

// If a provider needs a vendor's client, the program builds itself with the clients and runs the result, also for an account of a
// file.
func TestBuildsWithSDKs(t *testing.T) {
	goTool(t, `echo "said $*"`)
	pools(t, "list", "lambda", `aws={"Region": "eu-west-1"}`).wants(t, 0, `^said list lambda aws={"Region": "eu-west-1"}\n$`, "^building")
	file := filepath.Join(t.TempDir(), "accounts.json")
	if err := os.WriteFile(file, []byte(`{"big": {"provider": "gcp"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	pools(t, "gpus", "big", "-accounts", file).wants(t, 0, "^said gpus big -accounts ", "^building")
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// The exit status of the other program is that of this one.
func TestExitCodeWithSDKs(t *testing.T) {
	goTool(t, "exit 3")
	for _, name := range light.Elsewhere() {
		pools(t, "list", name).wants(t, 3, "^$", "^building.*\n$")
	}
}

// An interrupt reaches the other program, which ends in good order.
func TestInterruptWithSDKs(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	goTool(t, `trap "echo in good order; exit 1" INT; echo begun; while :; do sleep 0.05; done`)
	out := &sink{begun: interrupt}
	a := &app{in: strings.NewReader(""), out: out, err: new(strings.Builder)}
	if code := a.main(ctx, []string{"list", "aws"}); code != 1 || out.String() != "begun\nin good order\n" {
		t.Errorf("%d: it says %q", code, out.String())
	}
}

// A sink stores what is written to it, and calls begun at each write.
type sink struct {
	strings.Builder
	begun func()
}

func (s *sink) Write(p []byte) (int, error) {
	s.begun()
	return s.Builder.Write(p)
}

// Without the toolchain, or outside the module, the error says what to run.
func TestNoSDKs(t *testing.T) {
	goTool(t, "")
	pools(t, "list", "aws").wants(t, 1, "^$", "go run -tags sdk ./examples/pools")
}
