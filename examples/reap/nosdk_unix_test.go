//go:build unix && !sdk

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goTool puts a fake go command on PATH. It builds the script as the program,
// or fails if the script is empty.
func goTool(t *testing.T, built string) {
	t.Helper()
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

// If a provider needs a vendor's client, the program builds itself with the
// clients and runs the result.
func TestBuildsWithSDKs(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	goTool(t, `echo "ended $*"`)
	want := "ended lambda aws={\"Region\": \"eu-west-1\"}\n"
	if got := output(t, "lambda", `aws={"Region": "eu-west-1"}`); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// The exit status of the other program is that of this one.
func TestExitCodeWithSDKs(t *testing.T) {
	goTool(t, "exit 3")
	err := run(t.Context(), new(strings.Builder), "gcp")
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 3 {
		t.Errorf("it says %v", err)
	}
}

// An interrupt reaches the other program, which ends in good order.
func TestInterruptWithSDKs(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	goTool(t, `trap "echo in good order; exit 1" INT; echo begun; while :; do sleep 0.05; done`)
	said := &sink{begun: interrupt}
	if err := run(ctx, said, "aws"); err == nil || said.String() != "begun\nin good order\n" {
		t.Errorf("it says %q, %v", said.String(), err)
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
	if err := run(t.Context(), new(strings.Builder), "aws"); err == nil || !strings.Contains(err.Error(), "go run -tags sdk ./examples/reap") {
		t.Errorf("it says %v", err)
	}
}
