//go:build unix

package functions

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

var errDiverged = gputrain.RegisterError("functions.diverged", errors.New("loss is NaN"))

// share is a share of a training job. That of rank 1 fails once all have begun; the others ignore the end of their
// context.
var share = gputrain.Func("training-share", func(ctx context.Context, dir string) (bool, error) {
	n := gputrain.ThisNode(ctx)
	if err := os.WriteFile(filepath.Join(dir, "began-"+string(rune('0'+n.Rank))), nil, 0o600); err != nil {
		return false, err
	}
	for n.Rank != 1 {
		time.Sleep(time.Hour)
	}
	for {
		if began, _ := filepath.Glob(filepath.Join(dir, "began-*")); len(began) == n.Nodes {
			return false, errDiverged
		}
		time.Sleep(10 * time.Millisecond)
	}
})

// A critical function that fails ends the others of its call, also those that ignore that. The nodes serve the next call.
func TestCriticalFunction(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 3})
	results, err := pool.Broadcast(critical(share.Call(t.TempDir())))
	var failed *gputrain.TaskError
	if !errors.As(err, &failed) || failed.Index != 1 || !errors.Is(err, errDiverged) || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	for i, r := range results {
		if i != 1 && (!errors.Is(r.Err, context.Canceled) || !errors.Is(r.Err, errDiverged)) {
			t.Errorf("share %d: %v", i, r.Err)
		}
	}
	if _, err := share.With(gputrain.Task{Critical: true, Timeout: time.Minute}).Broadcast(pool, t.TempDir()); !errors.Is(err, errDiverged) {
		t.Errorf("the next call: %v", err)
	}
}

func critical(t gputrain.Task) gputrain.Task {
	t.Critical = true
	return t
}

// steps leaves a file for each step, and goes on when the file go is there.
var steps = gputrain.Func("training-steps", func(ctx context.Context, dir string) (bool, error) {
	scratch := gputrain.ThisNode(ctx).Scratch
	if err := os.WriteFile(filepath.Join(scratch, "step-1"), []byte("one"), 0o600); err != nil {
		return false, err
	}
	for !e2etest.Exists(filepath.Join(dir, "go")) {
		time.Sleep(10 * time.Millisecond)
	}
	return true, os.WriteFile(filepath.Join(scratch, "step-2"), []byte("two"), 0o600)
})

// The files of a function come while it runs, as those of a command do.
func TestSyncEveryOfAFunction(t *testing.T) {
	dir, results := t.TempDir(), t.TempDir()
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithResultsDir(results))
	task := steps.Call(dir)
	task.Outputs, task.SyncEvery = []string{"step-*"}, time.Second
	job := pool.Start(task)
	here := filepath.Join(results, job.ID()+"-a1", "outputs")
	e2etest.Until(t, "the first step", func() bool { return e2etest.Exists(filepath.Join(here, "step-1")) })
	e2etest.WriteText(t, filepath.Join(dir, "go"), "")
	r, err := job.Wait()
	if ok, valueErr := steps.Value(r); err != nil || valueErr != nil || !ok || len(r.Outputs) != 2 || e2etest.ReadText(t, filepath.Join(here, "step-2")) != "two" {
		t.Errorf("%+v, %v, %v", r.Outputs, err, valueErr)
	}
}
