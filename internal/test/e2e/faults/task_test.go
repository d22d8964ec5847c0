//go:build unix

package faults

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// TestWhatACommandLeavesBehind runs a command that forks and exits. The task ends with its own process. Its process
// group ends then, and its daemon ends with the pool.
func TestWhatACommandLeavesBehind(t *testing.T) {
	h := e2etest.NewHost(t)
	pool := e2etest.OpenHosts(t, gputrain.Spec{}, nil, h)
	dir := t.TempDir()
	task := gputrain.Script(`
sleep 600 & echo $! >> "$D/group"
(trap '' TERM HUP; sleep 600) & echo $! >> "$D/group"
setsid sh -c 'echo $$ > "$D/daemon"; trap "" TERM HUP; sleep 600; sleep 600' &
until [ -s "$D/daemon" ]; do sleep 0.05; done
echo done`)
	task.Env = map[string]string{"D": dir}
	r, err := pool.Run(task)
	if err != nil || string(r.Stdout) != "done\n" {
		t.Fatalf("%q, %v", r.Stdout, err)
	}
	for _, pid := range e2etest.PidsIn(t, dir+"/group", 2) {
		e2etest.Until(t, "the end of the task's group", func() bool { return !e2etest.Runs(pid) }) // KILL may take a moment
	}
	daemon := e2etest.PidsIn(t, dir+"/daemon", 1)[0]
	if !e2etest.Runs(daemon) {
		t.Error("the daemon did not outlive its task")
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	e2etest.Until(t, "the daemon's end with the pool", func() bool { return !e2etest.Runs(daemon) })
}

// cancelledCommands ends commands by the context: TERM goes to the whole group first, and KILL follows if TERM is
// ignored.
func cancelledCommands(t *testing.T) {
	h := e2etest.NewHost(t)
	pool := e2etest.OpenHosts(t, gputrain.Spec{Concurrency: 4}, nil, h)
	scripts := map[string]string{
		"plain":    `sleep 600 & echo $$ $! > "$D/pids"; wait`,
		"no shell": `echo $$ > "$D/pids"; exec sleep 600`,
		"trap":     `trap 'echo bye; echo x > "$D/bye"; exit 3' TERM; echo $$ > "$D/pids"; while :; do sleep 0.05; done`,
		"ignores":  `trap '' TERM INT HUP; sleep 600 & echo $$ $! > "$D/pids"; while :; do sleep 0.05; done`,
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dirs, jobs := map[string]string{}, map[string]*gputrain.Job{}
	for name, script := range scripts {
		dirs[name] = t.TempDir()
		task := gputrain.Script(script)
		task.Env = map[string]string{"D": dirs[name]}
		jobs[name] = pool.WithContext(ctx).Start(task)
	}
	pids := map[string][]int{}
	for name := range scripts {
		pids[name] = e2etest.PidsIn(t, dirs[name]+"/pids", 1)
		for _, pid := range pids[name] {
			if !e2etest.Runs(pid) {
				t.Errorf("%s: %d does not run", name, pid)
			}
		}
	}
	cancel()
	for name, job := range jobs {
		r, err := job.Wait()
		var te *gputrain.TaskError
		if !errors.As(err, &te) || te.Cause != gputrain.CauseCancelled || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		for _, pid := range pids[name] {
			e2etest.Until(t, "the end of what ran in "+name, func() bool { return !e2etest.Runs(pid) })
		}
		if name == "trap" && (string(r.Stdout) != "bye\n" || !e2etest.Exists(dirs[name]+"/bye")) {
			t.Errorf("the trap did not run: %q", r.Stdout)
		}
	}
	if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
		t.Errorf("the pool itself: %v", err)
	}
}

// TestSecretsAreNowhere searches the host for a secret while a task has it: all command lines, and all files.
func TestSecretsAreNowhere(t *testing.T) {
	const script = `echo x > "$D/here"; until [ -e "$D/go" ]; do sleep 0.05; done; printf %s "$TOKEN"; echo "$TOKEN" >&2; exit 1`
	for name, task := range map[string]gputrain.Task{"script": gputrain.Script(script), "command": gputrain.Cmd("sh", "-c", script)} {
		t.Run(name, func(t *testing.T) {
			h := e2etest.NewHost(t)
			var logged bytes.Buffer
			results, dir := t.TempDir(), t.TempDir()
			pool := e2etest.OpenHosts(t, gputrain.Spec{Concurrency: 2}, []gputrain.Option{
				gputrain.WithOutput(&logged, &logged), gputrain.WithResultsDir(results),
			}, h)
			secret := rand.Text() + `'"$(x) ` + rand.Text()
			task.Env = map[string]string{"D": dir}
			task.Secrets = map[string]gputrain.Secret{"TOKEN": gputrain.Secret(secret)}
			job := pool.Start(task)
			call := pool.Start(count.Call(tally{File: dir + "/call", Go: dir + "/go"}))
			e2etest.Until(t, "both running", func() bool { return e2etest.Exists(dir+"/here") && e2etest.Exists(dir+"/call") })
			wantNowhere(t, secret, h.Home, h.Server.Dir, results)
			e2etest.Write(t, dir+"/go", nil)
			r, err := job.Wait()
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("the error has the secret: %v", err)
			}
			if string(r.Stdout) != secret { // the caller may see the secret in the result
				t.Errorf("the task had %q", r.Stdout)
			}
			if _, err := call.Wait(); err != nil {
				t.Error(err)
			}
			if err := pool.Close(); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(logged.String(), secret) || strings.Contains(h.Server.Log(), secret) {
				t.Errorf("a log has the secret:\n%s\n%s", logged.String(), h.Server.Log())
			}
		})
	}
}

func wantNowhere(t *testing.T, secret string, dirs ...string) {
	t.Helper()
	needle := []byte(secret[:20])
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, needle) {
			t.Errorf("%s has the secret: %q", file, b)
		}
	}
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, needle) {
				t.Errorf("%s has the secret", path)
			}
			return nil
		})
	}
}
