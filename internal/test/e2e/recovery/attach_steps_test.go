package recovery

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// Attach goes on with the steps of a task, and with what ends it if it stalls.
func TestAttachFollowsSteps(t *testing.T) {
	exec := func(ctx context.Context, cmd sim.Command) int {
		fmt.Fprintln(cmd.Stdout, "gputrain: step=41")
		fmt.Fprintln(cmd.Stderr, "gputrain: step=42")
		return e2etest.Words(ctx, sim.Command{Args: []string{"sleep", "10h"}})
	}
	e2etest.InCloud(t, sim.Options{Exec: exec}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{})
		task := gputrain.Cmd("train")
		task.StallTimeout = 8 * time.Minute
		p.Start(task)
		time.Sleep(time.Minute)
		leave(t, p)
		time.Sleep(time.Hour) // nobody watches it, or ends it
		p = reattach(t, c, p.ID())
		began := time.Now()
		_, err := p.Jobs()[0].Wait()
		var failed *gputrain.TaskError
		if took := time.Since(began); !errors.As(err, &failed) || failed.Cause != gputrain.CauseStalled || failed.Step != 42 || took < 8*time.Minute || took > 10*time.Minute {
			t.Errorf("after %v: %v", took, err)
		}
		c.CloseAndCheck(t, p)
	})
}
