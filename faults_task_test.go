//go:build unix

package gputrain_test

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
)

// TestWhatACommandLeavesBehind has commands that fork and leave. The task ends
// with its own process; its group ends then, and a daemon with the pool.
func TestWhatACommandLeavesBehind(t *testing.T) {
	h := newHost(t)
	pool := openHosts(t, gputrain.Spec{}, nil, h)
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
	for _, pid := range pidsIn(t, dir+"/group", 2) {
		until(t, "the end of the task's group", func() bool { return !runs(pid) }) // which KILL may take a moment for
	}
	daemon := pidsIn(t, dir+"/daemon", 1)[0]
	if !runs(daemon) {
		t.Error("the daemon did not outlive its task")
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the daemon's end with the pool", func() bool { return !runs(daemon) })
}

// cancelledCommands ends commands by the context: TERM first, to the whole
// group, and KILL for who does not listen.
func cancelledCommands(t *testing.T) {
	h := newHost(t)
	pool := openHosts(t, gputrain.Spec{Concurrency: 4}, nil, h)
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
		pids[name] = pidsIn(t, dirs[name]+"/pids", 1)
		for _, pid := range pids[name] {
			if !runs(pid) {
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
			until(t, "the end of what ran in "+name, func() bool { return !runs(pid) })
		}
		if name == "trap" && (string(r.Stdout) != "bye\n" || !exists(dirs[name]+"/bye")) {
			t.Errorf("the trap did not run: %q", r.Stdout)
		}
	}
	if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
		t.Errorf("the pool itself: %v", err)
	}
}

// TestSecretsAreNowhere looks for a secret on the host while a task has it: in
// every command line, and in every file.
func TestSecretsAreNowhere(t *testing.T) {
	const script = `echo x > "$D/here"; until [ -e "$D/go" ]; do sleep 0.05; done; printf %s "$TOKEN"; echo "$TOKEN" >&2; exit 1`
	for name, task := range map[string]gputrain.Task{"script": gputrain.Script(script), "command": gputrain.Cmd("sh", "-c", script)} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			var logged bytes.Buffer
			results, dir := t.TempDir(), t.TempDir()
			pool := openHosts(t, gputrain.Spec{Concurrency: 2}, []gputrain.Option{
				gputrain.WithOutput(&logged, &logged), gputrain.WithResultsDir(results),
			}, h)
			secret := rand.Text() + `'"$(x) ` + rand.Text()
			task.Env = map[string]string{"D": dir}
			task.Secrets = map[string]gputrain.Secret{"TOKEN": gputrain.Secret(secret)}
			job := pool.Start(task)
			call := pool.Start(count.Call(tally{File: dir + "/call", Go: dir + "/go"}))
			until(t, "both running", func() bool { return exists(dir+"/here") && exists(dir+"/call") })
			wantNowhere(t, secret, h.home, h.srv.Dir, results)
			write(t, dir+"/go", nil)
			r, err := job.Wait()
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("the error has the secret: %v", err)
			}
			if string(r.Stdout) != secret { // a result is the program's own
				t.Errorf("the task had %q", r.Stdout)
			}
			if _, err := call.Wait(); err != nil {
				t.Error(err)
			}
			if err := pool.Close(); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(logged.String(), secret) || strings.Contains(h.srv.Log(), secret) {
				t.Errorf("it is shown:\n%s\n%s", logged.String(), h.srv.Log())
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
