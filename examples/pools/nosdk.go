//go:build !sdk

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/light"
)

var (
	newProvider   = light.New
	newAccounts   = light.Accounts
	providerNames = light.Names
)

// errNeedsSDK is returned, before anything is done, if a provider is one that this program does not link.
var errNeedsSDK = fmt.Errorf("%s need their vendors' clients", elsewhere())

func needsSDK(name string) bool { return slices.Contains(light.Elsewhere(), name) }

// elsewhere lists the providers that this program does not link.
func elsewhere() string {
	names := light.Elsewhere()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// After an interrupt, the other program may take this long to end.
const interruptTimeout = 10 * time.Minute

// runWithSDKs builds this program with the vendors' clients, and runs the result with the same arguments.
func (a *app) runWithSDKs(ctx context.Context, args []string) error {
	dir, err := os.MkdirTemp("", "gputrain-pools-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintf(a.err, "building with the clients of %s, which takes some minutes the first time\n", elsewhere())
	program := filepath.Join(dir, "pools.exe") // Windows wants the ending, and no other system minds
	build := exec.CommandContext(ctx, "go", "build", "-tags", "sdk", "-o", program, "github.com/gputrain/gputrain/examples/pools")
	build.Stdout, build.Stderr = a.err, a.err
	if err := build.Run(); err != nil {
		return fmt.Errorf("%w, and building with them failed (%v): "+
			"run this in the folder of the module, with the Go toolchain: go run -tags sdk ./examples/pools", errNeedsSDK, err)
	}
	run := exec.CommandContext(ctx, program, args...)
	run.Stdin, run.Stdout, run.Stderr, run.WaitDelay = a.in, a.out, a.err, interruptTimeout
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) } // so that it ends in good order
	return run.Run()
}
