//go:build !sdk

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/light"
)

var newProvider = light.New

// needsSDK reports whether an argument names a provider that this program does not link.
func needsSDK(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return name == "aws" || name == "gcp"
}

// After an interrupt, the other program may take this long to end.
const interruptTimeout = 10 * time.Minute

// runWithSDKs builds this program with the vendors' clients, and runs the
// result with the same arguments.
func runWithSDKs(ctx context.Context, out io.Writer, args []string) error {
	dir, err := os.MkdirTemp("", "gputrain-reap-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(os.Stderr, "building with the clients of aws and gcp, which takes some minutes the first time")
	program := filepath.Join(dir, "reap.exe") // Windows wants the ending, and no other system minds
	build := exec.CommandContext(ctx, "go", "build", "-tags", "sdk", "-o", program, "github.com/gputrain/gputrain/examples/reap")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("aws and gcp need their vendors' clients, and building with them failed (%v): "+
			"run this in the folder of the module, with the Go toolchain: go run -tags sdk ./examples/reap NAME", err)
	}
	run := exec.CommandContext(ctx, program, args...)
	run.Stdout, run.Stderr, run.WaitDelay = out, os.Stderr, interruptTimeout
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) } // so that it ends in good order
	return run.Run()
}
