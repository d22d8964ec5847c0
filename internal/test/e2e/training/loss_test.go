package training

import (
	"maps"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// TestTrainingSameLoss trains the same model under every launcher, with a rank that is killed, and with a node that is lost
// and replaced. All end with the same loss, to the last digit.
func TestTrainingSameLoss(t *testing.T) {
	c := open(t, 2)
	want := ""
	run := func(t *testing.T, training gputrain.Training) gputrain.TrainResult {
		t.Helper()
		result, err := c.train(t, training)
		if err != nil {
			t.Fatal(err)
		}
		got := loss(t, result)
		if want == "" {
			want = got
		}
		if got != want || result.Step != 20 {
			t.Errorf("the final loss is %s after step %d, want %s after 20", got, result.Step, want)
		}
		return result
	}
	train := func(t *testing.T, name string, env map[string]string) gputrain.Training {
		all := map[string]string{"GROUP_SECONDS": "120"}
		maps.Copy(all, env)
		return program(t, name, "train.py", all)
	}
	t.Run("processes", func(t *testing.T) { run(t, train(t, "processes", nil)) })
	t.Run("torchrun", func(t *testing.T) {
		training := train(t, "torchrun", nil)
		training.Launcher, training.Task.Args = gputrain.Torchrun, []string{"torchrun", "testdata/train.py"}
		run(t, training)
	})
	t.Run("mpi", func(t *testing.T) {
		training := train(t, "mpi", nil) // PyTorch's gloo finds its peers by RANK and the like
		training.Launcher = gputrain.MPI
		run(t, training)
	})
	t.Run("rank killed", func(t *testing.T) {
		training := train(t, "killed", map[string]string{"FAULT": "kill:1:13:1", "STEP_SECONDS": "0.1"})
		training.Restarts = 1
		result := run(t, training)
		if len(result.Attempts) != 2 || result.Attempts[1].Resumed != "step-10" || result.Attempts[1].FirstStep != 11 {
			t.Fatalf("attempts %+v", result.Attempts)
		}
		wantRoot(t, result.Attempts[0], cause{cause: gputrain.CauseSignal, rank: 1, node: 1, exitCode: -1, signal: "KILL"})
	})
	t.Run("node lost", func(t *testing.T) {
		lost := c.pool.Nodes()[1]
		training := train(t, "lost", map[string]string{"STEP_SECONDS": "0.3"})
		defer c.during(t, "step 8", atStep("lost", 1, 8), func() { e2etest.Docker(t, "kill", lost.ID) })()
		result := run(t, training)
		if len(result.Attempts) != 2 || result.Attempts[1].Resumed == "" {
			t.Fatalf("attempts %+v", result.Attempts)
		}
		wantRoot(t, result.Attempts[0], cause{cause: gputrain.CauseNodeLost, node: 1, exitCode: -1})
		before, after := result.Attempts[0].Nodes, result.Attempts[1].Nodes
		if before[0].ID != after[0].ID || before[1].ID != lost.ID || after[1].ID == lost.ID {
			t.Errorf("attempt 1 ran on %v, attempt 2 on %v", before, after)
		}
	})
}
