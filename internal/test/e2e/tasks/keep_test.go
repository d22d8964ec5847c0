//go:build unix

package tasks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// began waits until a file of a task exists.
func began(t *testing.T, file string) {
	t.Helper()
	e2etest.Until(t, "the task's file", func() bool { return e2etest.Exists(file) })
}

// content returns what a result's output file has.
func content(t *testing.T, r gputrain.Result, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.OutputDir, name))
	if err != nil {
		t.Errorf("%v; outputs %q", err, names(r.Outputs))
	}
	return string(b)
}

// Outputs come back however a command ended, and the failure is what it would be without them.
func TestOutputsHoweverACommandEnds(t *testing.T) {
	const half = `echo half >result.txt; echo mine >"$GPUTRAIN_SCRATCH/own.txt"; `
	for name, tt := range map[string]struct {
		then  string
		end   func(*gputrain.Job)
		drop  bool
		cause gputrain.Cause
		code  int
	}{
		"exit":      {then: "exit 3", cause: gputrain.CauseExit, code: 3},
		"signal":    {then: "kill -9 $$", cause: gputrain.CauseSignal, code: -1},
		"timeout":   {then: "exec sleep 600", cause: gputrain.CauseTimeout, code: -1},
		"cancelled": {then: "trap 'echo last words >result.txt; exit' TERM; echo >began; while :; do sleep 0.05; done", end: (*gputrain.Job).Cancel, cause: gputrain.CauseCancelled, code: -1},
		"dropped":   {then: "echo >began; exec sleep 600", end: (*gputrain.Job).Cancel, drop: true, cause: gputrain.CauseCancelled, code: -1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			pool := e2etest.Open(t, gputrain.Spec{})
			task := gputrain.Script(half + tt.then)
			task.Dir, task.DropIfCancelled = dir, tt.drop
			task.Outputs = []string{"result.txt", "own.txt", "there is none"}
			if tt.cause == gputrain.CauseTimeout {
				task.Timeout = 3 * time.Second
			}
			job := pool.Start(task)
			if tt.end != nil {
				began(t, filepath.Join(dir, "began"))
				tt.end(job)
			}
			r, err := job.Wait()
			var failed *gputrain.TaskError
			if !errors.As(err, &failed) || failed.Cause != tt.cause || failed.ExitCode != tt.code || r.Err != err || strings.Contains(err.Error(), "there is none") {
				t.Errorf("%v", err)
			}
			if tt.drop {
				if r.OutputDir != "" || r.Outputs != nil {
					t.Errorf("%+v in %q", r.Outputs, r.OutputDir)
				}
				return
			}
			if got := names(r.Outputs); !slices.Equal(got, []string{"own.txt", "result.txt"}) || r.Outputs[0].Attempt != 1 {
				t.Errorf("%+v", r.Outputs)
			}
			want := "half\n"
			if name == "cancelled" {
				want = "last words\n"
			}
			if got := content(t, r, "result.txt"); got != want || content(t, r, "own.txt") != "mine\n" {
				t.Errorf("%q came", got)
			}
		})
	}
}

type ending struct{ How, Dir string }

var endBadly = gputrain.Func("end-badly", func(ctx context.Context, e ending) (bool, error) {
	scratch := gputrain.ThisNode(ctx).Scratch
	write := func(name, text string) { _ = os.WriteFile(name, []byte(text), 0o600) }
	write(filepath.Join(scratch, "result.txt"), "half")
	write(filepath.Join(e.Dir, "began"), "")
	switch e.How {
	case "panic":
		panic("no")
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "cancelled":
		<-ctx.Done()
		write(filepath.Join(scratch, "result.txt"), "last words")
	}
	return false, errors.New("bad end")
})

// The same holds for functions, also if the process that ran them is gone.
func TestOutputsHoweverACallEnds(t *testing.T) {
	for how, cause := range map[string]gputrain.Cause{
		"error": gputrain.CauseFunction, "panic": gputrain.CausePanic, "killed": gputrain.CauseWorkerLost, "cancelled": gputrain.CauseCancelled,
	} {
		t.Run(how, func(t *testing.T) {
			pool := e2etest.Open(t, gputrain.Spec{})
			dir := t.TempDir()
			task := endBadly.Call(ending{how, dir})
			task.Outputs = []string{"*.txt"}
			job := pool.Start(task)
			if how == "cancelled" {
				began(t, filepath.Join(dir, "began"))
				job.Cancel()
			}
			r, err := job.Wait()
			var failed *gputrain.TaskError
			if !errors.As(err, &failed) || failed.Cause != cause || strings.Contains(err.Error(), "outputs") {
				t.Errorf("%v", err)
			}
			want := "half"
			if how == "cancelled" {
				want = "last words"
			}
			if got := content(t, r, "result.txt"); got != want {
				t.Errorf("%q came", got)
			}
		})
	}
}

// Close, and the end of the context that the pool was opened with, wait for the outputs of what they cancel.
func TestCloseKeepsOutputs(t *testing.T) {
	for name, drop := range map[string]bool{"closed": false, "context": false, "dropped": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			pool := e2etest.OpenIn(t, ctx, gputrain.Spec{Concurrency: 2})
			command := gputrain.Script(`cd "$GPUTRAIN_SCRATCH"; trap 'echo last words >result.txt; exit' TERM; echo >` + dir + `/command; while :; do sleep 0.05; done`)
			call := endBadly.Call(ending{"cancelled", dir})
			var jobs []*gputrain.Job
			for _, task := range []gputrain.Task{command, call} {
				task.Outputs, task.DropIfCancelled = []string{"result.txt"}, drop
				jobs = append(jobs, pool.Start(task))
			}
			began(t, filepath.Join(dir, "began"))
			began(t, filepath.Join(dir, "command"))
			if name == "context" {
				cancel()
			}
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
			for i, job := range jobs {
				r, err := job.Wait()
				var failed *gputrain.TaskError
				if !errors.As(err, &failed) || failed.Cause != gputrain.CauseCancelled {
					t.Errorf("job %d: %v", i, err)
				}
				if drop {
					if r.Outputs != nil {
						t.Errorf("job %d: %v", i, r.Outputs)
					}
				} else if got := strings.TrimSpace(content(t, r, "result.txt")); got != "last words" {
					t.Errorf("job %d: %q came, %v", i, got, err)
				}
			}
		})
	}
}

// A result has the outputs of the last attempt that brought any. Those of others stay beside them.
func TestOutputsOfEveryAttempt(t *testing.T) {
	results := t.TempDir()
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithResultsDir(results))
	task := gputrain.Script(`[ "$GPUTRAIN_ATTEMPT" = 3 ] || echo "$GPUTRAIN_ATTEMPT" >"$GPUTRAIN_SCRATCH/result.txt"; exit 1`)
	task.Outputs, task.Retries = []string{"result.txt"}, 2
	r, err := pool.Run(task)
	if err == nil || r.Attempts != 3 || len(r.Outputs) != 1 || r.Outputs[0].Attempt != 2 || content(t, r, "result.txt") != "2\n" {
		t.Errorf("%+v, %v", r, err)
	}
	all, err := filepath.Glob(filepath.Join(results, "*", "outputs", "result.txt"))
	if err != nil || len(all) != 2 {
		t.Errorf("%q are there, %v", all, err)
	}

	task.Script = `[ "$GPUTRAIN_ATTEMPT" = 2 ] || { echo x >"$GPUTRAIN_SCRATCH/result.txt"; exit 1; }`
	task.Outputs = []string{gputrain.Optional("result.txt")}
	r, err = pool.Run(task)
	if err != nil || r.Attempts != 2 || r.OutputDir != "" || r.Outputs != nil {
		t.Errorf("a success without outputs has those of the failure before it: %+v, %v", r, err)
	}
}

// Files come while a task runs.
func TestSyncEvery(t *testing.T) {
	results, dir := t.TempDir(), t.TempDir()
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithResultsDir(results))
	task := gputrain.Script(`mkdir -p "$GPUTRAIN_SCRATCH/ckpt"; cd "$GPUTRAIN_SCRATCH/ckpt"; echo one >1; while [ ! -e "` + dir + `/go" ]; do date +%N >>../log; sleep 0.01; done; echo two >2; rm 1; exit 1`)
	task.Outputs, task.SyncEvery = []string{"ckpt/**", "log"}, time.Second
	job := pool.Start(task)
	here := filepath.Join(results, job.ID()+"-a1", "outputs")
	began(t, filepath.Join(here, "ckpt", "1"))
	began(t, filepath.Join(here, "log"))
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := job.Wait()
	if got := names(r.Outputs); err == nil || !slices.Equal(got, []string{"ckpt/1", "ckpt/2", "log"}) || r.OutputDir != here {
		t.Errorf("%q in %q, %v", got, r.OutputDir, err)
	}
	if content(t, r, "ckpt/1") != "one\n" || content(t, r, "ckpt/2") != "two\n" {
		t.Error("the files are not those of the task")
	}
	for _, f := range r.Outputs {
		if info, err := os.Stat(filepath.Join(here, f.Name)); err != nil || info.Size() != f.Size {
			t.Errorf("%s: %v, %v", f.Name, info, err)
		}
	}
	if left, _ := filepath.Glob(here + ".*"); left != nil {
		t.Errorf("%q are left", left)
	}
}
