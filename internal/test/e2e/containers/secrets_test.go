//go:build linux

package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/local"
)

// A secret given by reference reaches tasks like a literal one. It is resolved once for all nodes and attempts of a
// call, and is not printed or stored.
func TestSecretsByReference(t *testing.T) {
	const fromEnv, fromFile, fromCommand = "of-the-env-81f3", "of-the-file-77c0\nsecond-line-51aa", "of-the-command-2b9e"
	dir := t.TempDir()
	file, asked := filepath.Join(dir, "key"), filepath.Join(dir, "asked")
	e2etest.WriteText(t, file, fromFile+"\n")
	t.Setenv("GPUTRAIN_TEST_KEY", fromEnv)
	var told printed
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2}, append(told.options(), gputrain.WithOutput(&told, &told))...)

	task := gputrain.Script(`printf '%s|%s|%s|' "$E" "$F" "$C" | cksum; echo "$E" "$F" "$C" canary; echo "it failed with $C" >&2; exit 3`)
	task.Name, task.Retries = "canary", 1
	task.Secrets = map[string]gputrain.Secret{
		"E": "env://GPUTRAIN_TEST_KEY",
		"F": gputrain.Secret("file://" + file),
		"C": gputrain.Secret("cmd://echo once >>'" + asked + "'; echo " + fromCommand),
	}
	results, err := pool.Broadcast(task)
	if len(results) != 2 || err == nil {
		t.Fatalf("%d results, %v", len(results), err)
	}
	told.all(err, task)
	plain := task
	plain.Secrets = map[string]gputrain.Secret{"E": fromEnv, "F": fromFile, "C": fromCommand}
	want, err := pool.Run(plain)
	told.all(err, plain)
	for _, r := range results {
		if r.Attempts != 2 || string(r.Stdout) != string(want.Stdout) {
			t.Errorf("after %d attempts the task got other secrets than by value", r.Attempts)
		}
	}
	if got := e2etest.ReadText(t, asked); got != "once\n" {
		t.Errorf("the command was run for each of %q", got)
	}

	missing := task
	missing.Secrets = map[string]gputrain.Secret{"C": "cmd://echo " + fromCommand + "; echo 'cannot use " + fromCommand + "' >&2; exit 1"}
	ran := filepath.Join(dir, "ran")
	results, err = pool.Gather(gputrain.Cmd("touch", ran), missing)
	if !errors.Is(err, gputrain.ErrInvalid) || results != nil || e2etest.Exists(ran) {
		t.Errorf("a missing secret: %d results, %v, and the other task ran: %v", len(results), err, e2etest.Exists(ran))
	}
	told.all(err)
	_, err = pool.Start(missing).Wait()
	told.all(err)
	for _, err := range pool.Stream(missing) {
		told.all(err)
	}
	told.all(pool.Close())
	secrets := append(strings.Split(fromFile, "\n"), fromEnv, fromCommand)
	wantNone(t, "log, events and errors", told.String(), "canary", secrets...)
	wantNone(t, "the error", err.Error(), `secret C: invalid: "cmd://echo ...": exit status 1: cannot use [redacted]`, secrets...)
}

// Closing a pool ends the commands that resolve its tasks' secrets.
func TestCloseWhileASecretIsLookedUp(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(*gputrain.Compute, gputrain.Task) error{
		"Run":       func(c *gputrain.Compute, t gputrain.Task) error { _, err := c.Run(t); return err },
		"Broadcast": func(c *gputrain.Compute, t gputrain.Task) error { _, err := c.Broadcast(t); return err },
	} {
		pool := e2etest.Open(t, gputrain.Spec{})
		task := gputrain.Cmd("true")
		task.Secrets = map[string]gputrain.Secret{"TOKEN": gputrain.Secret("cmd://echo begun >" + fifo + "; sleep 600")}
		result := make(chan error, 1)
		go func() { result <- call(pool, task) }()
		begun := make(chan string, 1)
		go func() { begun <- e2etest.ReadText(t, fifo) }()
		select {
		case got := <-begun:
			if got != "begun\n" {
				t.Errorf("%q", got)
			}
		case err := <-result:
			t.Fatalf("%s, before the secret was looked up: %v", name, err)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		if err := <-result; !errors.Is(err, gputrain.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A program that attaches supplies the secrets by its own references.
func TestAttachWithReferences(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	state := gputrain.WithStateDir(t.TempDir())
	provider := local.Config{Dir: t.TempDir()}
	older, err := gputrain.Open(ctx, provider, gputrain.Spec{}, gputrain.WithName("secrets"), state)
	if err != nil {
		t.Fatal(err)
	}
	defer older.Close()
	older.Start(gputrain.Script("until [ -e '" + dir + "/go' ]; do sleep 0.05; done"))
	waits := gputrain.Script(`[ "$TOKEN" = of-the-second ] && echo it has it`)
	waits.Secrets = map[string]gputrain.Secret{"TOKEN": "of-the-first"}
	older.Start(waits)

	attach := func(ref gputrain.Secret) (*gputrain.Compute, error) {
		return gputrain.Attach(ctx, provider, "secrets", state, gputrain.WithTakeover(), gputrain.WithSecrets(map[string]gputrain.Secret{"TOKEN": ref}))
	}
	for ref, want := range map[gputrain.Secret]string{"env://": "names no variable", "env://GPUTRAIN_TEST_KEY": "is not set"} {
		if _, err := attach(ref); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", string(ref), err)
		}
	}
	t.Setenv("GPUTRAIN_TEST_KEY", "of-the-second")
	pool, err := attach("env://GPUTRAIN_TEST_KEY")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	jobs := pool.Jobs()
	if len(jobs) != 2 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for i, want := range []string{"", "it has it\n"} {
		if r, err := jobs[i].Wait(); err != nil || string(r.Stdout) != want {
			t.Errorf("%q, %v; want %q", r.Stdout, err, want)
		}
	}
}
