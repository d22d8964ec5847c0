//go:build unix

package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

// After cancelling at any point, List reports everything that exists.
func TestCancelling(t *testing.T) {
	long(t)
	onEngines(t, func(t *testing.T, binary string) {
		for _, stage := range []string{"network create", "create", "start", "inspect"} {
			t.Run(stage, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				d, err := Config{Binary: wrapEngine(t, binary, stage, cancel)}.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				r := rigFor(t, d.(*containerDriver))
				err = r.driver.Prepare(ctx, r.pool)
				var nodes []driver.Instance
				if err == nil {
					nodes, err = r.driver.Launch(ctx, r.request(2, gputrain.Spec{}))
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("the error is %v", err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute): // of a bell that was not heard yet
					t.Fatal("the stage was not reached")
				}
				machines := 0
				for _, res := range r.list(t.Context()) {
					if res.Kind == "machine" {
						machines++
					}
				}
				if machines != len(nodes) {
					t.Errorf("%d machines exist, %d were returned", machines, len(nodes))
				}
			})
		}
	})
}

// wrapEngine returns a wrapper of the engine's command. It calls cancel as soon as the command
// of a stage has begun, which then goes on for a moment.
func wrapEngine(t *testing.T, binary, stage string, cancel context.CancelFunc) string {
	t.Helper()
	real, err := exec.LookPath(binary)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fifo := filepath.Join(dir, "begun")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	bell, err := os.OpenFile(fifo, os.O_RDWR, 0) // both ends, so that opening does not block
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if n, _ := bell.Read(make([]byte, 1)); n > 0 {
			cancel()
		}
	})
	t.Cleanup(func() { bell.Close(); wg.Wait() })
	path := filepath.Join(dir, "engine")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$1 $2 \" in %q*) echo >%q ;; esac\nexec %q \"$@\"\n", stage+" ", fifo, real)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
