//go:build unix

package recovery

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
)

// takenOver opens a pool of two slots, lets start begin tasks, and attaches to it as another program does. The tasks wait
// for files in dir.
func takenOver(t *testing.T, start func(pool *gputrain.Compute, dir, results string)) (pool *gputrain.Compute, dir, results string) {
	t.Helper()
	m := newMarket(t, "127.0.0.1")
	m.edit = func(caps *driver.Capabilities) { caps.LocalAddresses = true }
	dir, results = t.TempDir(), t.TempDir()
	state := gputrain.WithStateDir(t.TempDir())
	older, err := gputrain.Open(t.Context(), m, gputrain.Spec{Concurrency: 2}, state, gputrain.WithName("kept"), gputrain.WithResultsDir(results))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { older.Close() }) // it is fenced off
	start(older, dir, results)
	pool, err = gputrain.Attach(t.Context(), m, "kept", state, gputrain.WithTakeover())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool, dir, results
}

func touch(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Outputs of a task that Attach finds go on coming while it runs, beside those that have come before.
func TestAttachSyncsOn(t *testing.T) {
	pool, dir, results := takenOver(t, func(pool *gputrain.Compute, dir, results string) {
		task := gputrain.Script(`cd "$GPUTRAIN_SCRATCH"; echo 1 >1; until [ -e ` + dir + `/two ]; do sleep 0.05; done; rm 1; echo 2 >2; until [ -e ` + dir + `/go ]; do sleep 0.05; done; exit 4`)
		task.Outputs, task.SyncEvery = []string{"*"}, time.Second
		job := pool.Start(task)
		e2etest.Until(t, "a first file", func() bool { return e2etest.Exists(filepath.Join(results, job.ID()+"-a1", "outputs", "1")) })
	})
	job := pool.Jobs()[0]
	touch(t, dir, "two")
	here := filepath.Join(results, job.ID()+"-a1", "outputs")
	e2etest.Until(t, "a second file", func() bool { return e2etest.Exists(filepath.Join(here, "2")) })
	touch(t, dir, "go")
	r, err := job.Wait()
	var names []string
	for _, f := range r.Outputs {
		names = append(names, f.Name)
	}
	if err == nil || r.ExitCode != 4 || r.OutputDir != here || !slices.Equal(names, []string{"1", "2"}) || r.Outputs[0].Attempt != 1 {
		t.Errorf("%q in %q, %v", names, r.OutputDir, err)
	}
}

// Checkpoints of a task that Attach finds go on coming, and the attempt after it goes on from the last.
func TestAttachCopiesCheckpointsOn(t *testing.T) {
	to := t.TempDir()
	pool, dir, _ := takenOver(t, func(pool *gputrain.Compute, dir, _ string) {
		task := gputrain.Script(`echo "from ${GPUTRAIN_RESUME##*/}"; [ -z "$GPUTRAIN_RESUME" ] || exit 0
save() { mkdir "$GPUTRAIN_CHECKPOINTS/.tmp"; echo x >"$GPUTRAIN_CHECKPOINTS/.tmp/model"; mv "$GPUTRAIN_CHECKPOINTS/.tmp" "$GPUTRAIN_CHECKPOINTS/$1"; }
save step-1; until [ -e ` + dir + `/two ]; do sleep 0.05; done; save step-2; until [ -e ` + dir + `/go ]; do sleep 0.05; done; save step-3; exit 4`)
		task.Name, task.Retries, task.Checkpoints = "llm", 1, gputrain.Checkpoints{To: to, Every: time.Second, Keep: 3}
		pool.Start(task)
		e2etest.Until(t, "a first checkpoint", func() bool { return e2etest.Exists(filepath.Join(to, "llm", "step-1", "model")) })
	})
	job := pool.Jobs()[0]
	touch(t, dir, "two")
	e2etest.Until(t, "a second checkpoint", func() bool { return e2etest.Exists(filepath.Join(to, "llm", "step-2", "model")) })
	touch(t, dir, "go")
	if r, err := job.Wait(); err != nil || string(r.Stdout) != "from step-3\n" || r.Attempts != 2 {
		t.Errorf("attempt %d: %q, %v", r.Attempts, r.Stdout, err)
	}
}

// The tasks of a call with a critical one belong together after Attach too.
func TestAttachToCriticalTasks(t *testing.T) {
	pool, dir, _ := takenOver(t, func(pool *gputrain.Compute, dir, _ string) {
		critical := gputrain.Script(`echo >` + dir + `/began; until [ -e ` + dir + `/fail ]; do sleep 0.05; done; exit 7`)
		critical.Critical = true
		go pool.Gather(critical, gputrain.Script("trap '' TERM; sleep 600; sleep 600"), gputrain.Cmd("true")) // ends when it is fenced off
		e2etest.Until(t, "the critical task", func() bool { return e2etest.Exists(filepath.Join(dir, "began")) })
		pool.Start(gputrain.Cmd("true")) // of another call
	})
	touch(t, dir, "fail")
	jobs := pool.Jobs()
	if len(jobs) != 4 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for i, job := range jobs {
		r, err := job.Wait()
		var failed, why *gputrain.TaskError
		switch {
		case i == 3 && err == nil:
		case i == 0 && r.ExitCode == 7:
		case i > 0 && errors.As(err, &failed) && failed.Cause == gputrain.CauseCancelled && errors.As(failed.Err, &why) && why.ExitCode == 7:
		default:
			t.Errorf("job %d: %v", i, err)
		}
	}
}
