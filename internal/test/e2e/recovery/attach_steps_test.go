//go:build unix

package recovery

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// Attach goes on with the steps of a task, and with what ends it if it stalls.
func TestAttachFollowsSteps(t *testing.T) {
	pool, _, _ := takenOver(t, func(pool *gputrain.Compute, dir, _ string) {
		task := gputrain.Script("echo gputrain: step=41; echo gputrain: step=42 >&2; echo >" + dir + "/began; exec sleep 600")
		task.StallTimeout = 8 * time.Second
		pool.Start(task)
		e2etest.Until(t, "the task", func() bool { return e2etest.Exists(filepath.Join(dir, "began")) })
	})
	_, err := pool.Jobs()[0].Wait()
	var failed *gputrain.TaskError
	if !errors.As(err, &failed) || failed.Cause != gputrain.CauseStalled || failed.Step != 42 {
		t.Errorf("%v", err)
	}
}
