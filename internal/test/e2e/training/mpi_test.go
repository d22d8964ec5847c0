package training

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

// TestTrainingMPI has ranks, daemons and mpirun of Open MPI fail on nodes without SSH between them, and checks that nothing
// is left on any node.
func TestTrainingMPI(t *testing.T) {
	c := open(t, 3)
	mpi := func(t *testing.T, name string, env map[string]string) gputrain.Training {
		training := program(t, name, "mpi.py", env)
		training.Launcher, training.ProcessesPerNode = gputrain.MPI, 2
		return training
	}
	t.Run("finish", func(t *testing.T) {
		result, err := c.train(t, mpi(t, "finish", nil))
		if err != nil || loss(t, result) != "1.398482877377031" || len(result.Ranks) != 1 || len(result.Attempts) != 1 {
			t.Errorf("%v: %s", err, printed(result))
		}
	})
	steady := map[string]string{"STEPS": "1000", "STEP_SECONDS": "0.2"}
	for _, tt := range []struct {
		name, fault string
		node        int    // on which a process is killed, if there is no fault
		kill        string // its name
		want        cause
	}{
		{name: "rank exits", fault: "exit17:3:7:*", want: cause{gputrain.CauseExit, 3, 1, 17, ""}},
		{name: "rank killed", fault: "kill:4:7:*", want: cause{gputrain.CauseSignal, 4, 2, -1, "KILL"}},
		{name: "orted killed", node: 1, kill: "orted", want: cause{gputrain.CauseExit, 0, 1, 205, ""}},
		{name: "mpirun killed", kill: "mpirun", want: cause{gputrain.CauseSignal, 0, 0, -1, "KILL"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			training := mpi(t, tt.name, map[string]string{"FAULT": tt.fault})
			if tt.kill != "" {
				training.Task.Env = steady
				node := c.pool.Nodes()[tt.node]
				defer c.during(t, "step 3", atStep(tt.name, 1, 3), func() { kill(t, node, "-x", tt.kill) })()
			}
			result, err := c.train(t, training)
			if err == nil || len(result.Attempts) != 1 {
				t.Fatalf("%v after %d attempts", err, len(result.Attempts))
			}
			wantRoot(t, result.Attempts[0], tt.want)
		})
	}
	t.Run("hang found by step", func(t *testing.T) {
		training := mpi(t, "hang", map[string]string{"FAULT": "hang:3:7:*"})
		training.StallTimeout = 10 * time.Second
		result, err := c.train(t, training)
		if err == nil {
			t.Fatal("it has not failed")
		}
		wantRoot(t, result.Attempts[0], cause{gputrain.CauseStalled, 3, 1, -1, ""})
		if stack := failuresOf(t, err)[0].Stack; strings.Count(stack, "(python3)") < 6 || !strings.Contains(stack, "node 2 of the gang") {
			t.Errorf("the stack is %s", stack)
		}
	})
	t.Run("goes on from a checkpoint", func(t *testing.T) {
		training := mpi(t, "again", map[string]string{"FAULT": "kill:5:13:1", "STEP_SECONDS": "0.1"})
		training.Restarts = 1
		result, err := c.train(t, training)
		if err != nil || loss(t, result) != "1.398482877377031" || len(result.Attempts) != 2 || result.Attempts[1].FirstStep != 11 {
			t.Errorf("%v: %+v: %s", err, result.Attempts, printed(result))
		}
		if root := failuresOf(t, result.Attempts[0].Err)[0]; root.Rank != 5 || errors.Is(root, gputrain.ErrStalled) {
			t.Errorf("the root cause is %v", root)
		}
	})
}
