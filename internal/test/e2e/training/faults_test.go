package training

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// TestTrainingFaults has processes and nodes of trainings fail in every way that has been seen: each training ends at once,
// with the cause, and goes on.
func TestTrainingFaults(t *testing.T) {
	c := open(t, 2)
	// again runs a training whose first attempt fails and whose second one does not.
	again := func(t *testing.T, training gputrain.Training, want cause) gputrain.TrainResult {
		t.Helper()
		training.Restarts = 1
		result, err := c.train(t, training)
		if err != nil || len(result.Attempts) != 2 {
			t.Fatalf("%v after %d attempts: %s", err, len(result.Attempts), printed(result))
		}
		wantRoot(t, result.Attempts[0], want)
		if result.Step != 20 {
			t.Errorf("the last step is %d, want 20", result.Step)
		}
		return result
	}
	torchrun := func(training gputrain.Training) gputrain.Training {
		training.Launcher, training.Task.Args = gputrain.Torchrun, []string{"torchrun", "testdata/train.py"}
		return training
	}
	t.Run("rank exits", func(t *testing.T) {
		training := program(t, "exits", "peers.py", map[string]string{"FAULT": "exit17:1:12:1"})
		result := again(t, training, cause{gputrain.CauseExit, 1, 1, 17, ""})
		if failures := failuresOf(t, result.Attempts[0].Err); len(failures) != 2 || failures[0].Step != 11 {
			t.Errorf("got %v, want the rank and its peer, at step 11", failures)
		}
	})
	t.Run("rank killed", func(t *testing.T) {
		again(t, program(t, "killed", "peers.py", map[string]string{"FAULT": "kill:0:12:1"}), cause{gputrain.CauseSignal, 0, 0, -1, "KILL"})
	})
	t.Run("restarts are used up", func(t *testing.T) {
		training := program(t, "twice", "peers.py", map[string]string{"FAULT": "kill:1:8:1,raise:0:15:2"})
		training.Restarts = 1
		result, err := c.train(t, training)
		if root := failuresOf(t, err)[0]; len(result.Attempts) != 2 || root.Rank != 0 || root.Cause != gputrain.CauseExit || !strings.Contains(root.Tail, "ValueError: the loss is not a number") {
			t.Errorf("got %v after %d attempts", err, len(result.Attempts))
		}
		if result.Checkpoint == "" || result.Step != 15 { // which the other rank has begun
			t.Errorf("the checkpoint is %q, the last step %d", result.Checkpoint, result.Step)
		}
	})
	t.Run("torchrun's worker killed", func(t *testing.T) {
		training := program(t, "worker", "train.py", map[string]string{"FAULT": "kill:1:8:1"})
		again(t, torchrun(training), cause{gputrain.CauseSignal, 1, 1, -1, "KILL"})
	})
	t.Run("torchrun's worker records its exception", func(t *testing.T) {
		training := torchrun(program(t, "recorded", "recorded.py", map[string]string{"FAULT": "raise:1:8:1"}))
		training.Task.Args[1] = "testdata/recorded.py"
		result := again(t, training, cause{gputrain.CauseExit, 1, 1, 1, ""})
		root := failuresOf(t, result.Attempts[0].Err)[0]
		if !strings.Contains(root.Stack, "faults.py") || !strings.Contains(root.Error(), "ValueError: the loss is not a number") {
			t.Errorf("%v, at %s", root, root.Stack)
		}
	})
	t.Run("hang with a timeout of the group", func(t *testing.T) {
		training := program(t, "group", "train.py", map[string]string{"FAULT": "hang:1:8:1", "GROUP_SECONDS": "8"})
		result := again(t, training, cause{gputrain.CauseStalled, 1, 1, -1, ""})
		if failures := failuresOf(t, result.Attempts[0].Err); !errors.Is(failures[0], gputrain.ErrStalled) || len(failures) != 2 {
			t.Errorf("got %v, want a rank that has stalled, and its peer", failures)
		}
	})
	t.Run("hang found by step", func(t *testing.T) {
		training := program(t, "step", "peers.py", map[string]string{"FAULT": "hang:1:8:1"})
		training.StallTimeout = 10 * time.Second
		result := again(t, training, cause{gputrain.CauseStalled, 1, 1, -1, ""})
		root := failuresOf(t, result.Attempts[0].Err)[0]
		if !errors.Is(root, gputrain.ErrStalled) || root.Step != 7 || !strings.Contains(root.Stack, "(python3)") {
			t.Errorf("got step %d, %v", root.Step, root)
		}
	})
	t.Run("node frozen", func(t *testing.T) {
		node := c.pool.Nodes()[1]
		training := program(t, "frozen", "train.py", map[string]string{"STEP_SECONDS": "0.2", "GROUP_SECONDS": "8"})
		thaw := c.during(t, "the end of attempt 1", inState("frozen", 1, "failing"), func() { e2etest.Docker(t, "unpause", node.ID) })
		defer thaw()
		defer c.during(t, "step 8", atStep("frozen", 1, 8), func() { e2etest.Docker(t, "pause", node.ID) })()
		again(t, training, cause{gputrain.CauseStalled, 1, 1, -1, ""})
	})
	t.Run("stale rank that ignores TERM", func(t *testing.T) {
		training := program(t, "stale", "", map[string]string{"STEP_SECONDS": "0.1", "FAULT": "exit17:0:12:1"})
		training.Task.Args, training.Task.Script = nil, ". testdata/leftover.sh"
		result := again(t, training, cause{gputrain.CauseExit, 0, 0, 17, ""})
		if ports := regexp.MustCompile(`at port (\d+) in attempt 2`).FindSubmatch(result.Ranks[0].Stdout); ports == nil || string(ports[1]) == "29500" {
			t.Errorf("attempt 2 has the port of attempt 1: %s", printed(result))
		}
	})
	t.Run("torchrun's node lost", func(t *testing.T) {
		node := c.pool.Nodes()[1]
		training := program(t, "node", "train.py", map[string]string{"STEP_SECONDS": "0.3"})
		defer c.during(t, "step 8", atStep("node", 1, 8), func() { e2etest.Docker(t, "kill", node.ID) })()
		result := again(t, torchrun(training), cause{gputrain.CauseNodeLost, 0, 1, -1, ""})
		// The torchrun of the other node would wait for five minutes.
		if pause := result.Attempts[1].From.Sub(result.Attempts[0].To); pause > 3*time.Minute {
			t.Errorf("attempt 2 began %v after the end of attempt 1", pause)
		}
	})
}
