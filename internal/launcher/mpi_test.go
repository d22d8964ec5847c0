//go:build unix

package launcher

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMPI runs Open MPI on three nodes without SSH, whose processes end in every way, and checks that nothing is left. The
// outputs are what package rootcause reads.
func TestMPI(t *testing.T) {
	c := startContainers(t, 3)
	program := []string{"python3", "/src/mpi.py"}
	// on runs a command on a node once the first step was reported.
	on := func(t *testing.T, node int, command string) func(string) {
		var once sync.Once
		return func(printed string) {
			if strings.Contains(printed, "step=1/") {
				once.Do(func() { docker(t, "exec", c.ids[node], "sh", "-c", command) })
			}
		}
	}
	for attempt, tt := range []struct {
		name    string
		env     map[string]string
		printed func(*testing.T) func(string)
		code    int
		want    []string
	}{
		{name: "finish", want: []string{"final loss 1.398482877377031"}},
		{name: "exit code", env: map[string]string{"FAULT": "exit17:3:7:*"}, code: 17, want: []string{",1],3]"}},
		{name: "rank killed", env: map[string]string{"FAULT": "kill:4:7:*"}, code: 137, want: []string{"rank 4 ", "node " + c.addrs[2], "signal 9"}},
		{
			name: "orted killed", env: map[string]string{"STEP_SECONDS": "0.2", "STEPS": "1000"}, code: 205,
			printed: func(t *testing.T) func(string) { return on(t, 1, "pkill -KILL -x orted") },
			want:    []string{"lost communication with a remote daemon", ",0],1] on node " + c.addrs[1]},
		},
		{
			name: "mpirun killed", env: map[string]string{"STEP_SECONDS": "0.2", "STEPS": "1000"}, code: 137,
			printed: func(t *testing.T) func(string) { return on(t, 0, "pkill -KILL -x mpirun") },
		},
		{
			name: "stopped rank", env: map[string]string{"FAULT": "stop:5:3:*"}, code: 1,
			printed: func(t *testing.T) func(string) { return on(t, 0, "sleep 1; pkill -TERM -x mpirun") },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := &Gang{Training: strings.ReplaceAll(tt.name, " ", "-"), Attempt: attempt + 1, Port: 29500, Processes: 2, Addrs: c.addrs}
			var printed func(string)
			if tt.printed != nil {
				printed = tt.printed(t)
			}
			r := c.mpirun(t, g, tt.env, printed, program...)
			if r.relay != nil || r.code != tt.code {
				t.Errorf("exit code %d, want %d; relay: %v", r.code, tt.code, r.relay)
			}
			for _, want := range tt.want {
				if !strings.Contains(r.output, want) {
					t.Errorf("no %q", want)
				}
			}
			for rank := range 6 {
				want := fmt.Sprintf("rank %d of 6 has RANK=%d WORLD_SIZE=6 LOCAL_RANK=%d LOCAL_WORLD_SIZE=2 NODE_RANK=%d MASTER_ADDR=%s MASTER_PORT=29500",
					rank, rank, rank%2, rank/2, c.addrs[0])
				if !strings.Contains(r.output, want) {
					t.Errorf("no %q", want)
				}
			}
			c.nothingLeft(t, fmt.Sprintf("GPUTRAIN_ATTEMPT=%d", g.Attempt))
			if t.Failed() {
				t.Log(r.output)
			}
		})
	}
}

// nothingLeft waits until no node has a process with a variable.
func (c *containers) nothingLeft(t *testing.T, variable string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for node := range c.ids {
		for {
			left := c.marked(t, node, variable, "")
			if left == "" {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("left on node %d: %s", node, left)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// TestMPIKilledByEnvironment ends a gang whose ranks have process groups of their own, as gputrain does between attempts.
func TestMPIKilledByEnvironment(t *testing.T) {
	c := startContainers(t, 3)
	g := &Gang{Training: "hang", Attempt: 9, Port: 29500, Processes: 2, Addrs: c.addrs}
	hung := regexp.MustCompile(`step=2/.* rank=5`)
	var once sync.Once
	r := c.mpirun(t, g, map[string]string{"FAULT": "hang:1:3:*"}, func(printed string) {
		if hung.MatchString(printed) {
			once.Do(func() {
				for node := range c.ids {
					if found := c.marked(t, node, "GPUTRAIN_ATTEMPT=9", ""); strings.Count(found, "mpi.py") < 2 {
						t.Errorf("node %d has no ranks: %s", node, found)
					}
				}
				for node := range c.ids {
					c.marked(t, node, "GPUTRAIN_ATTEMPT=9", "KILL")
				}
			})
		}
	}, "python3", "/src/mpi.py")
	if r.code != 137 || r.relay != nil {
		t.Errorf("exit code %d; relay: %v; %s", r.code, r.relay, r.output)
	}
	c.nothingLeft(t, "GPUTRAIN_ATTEMPT=9")
}
