//go:build unix

package launcher

import (
	"maps"
	"regexp"
	"sync"
	"testing"
)

// shares runs a program with a launcher on all nodes, each in the environment that Env and Command give it, and returns
// their exit codes and outputs. With MPI that is mpirun's.
func (c *containers) shares(t *testing.T, g *Gang, l Launcher, env map[string]string, args ...string) (codes []int, outputs []string) {
	t.Helper()
	if l == MPI {
		r := c.mpirun(t, g, env, nil, args...)
		if r.relay != nil {
			t.Error(r.relay)
		}
		return []int{r.code}, []string{r.output}
	}
	codes, outputs = make([]int, len(c.ids)), make([]string, len(c.ids))
	var wg sync.WaitGroup
	for node := range c.ids {
		scratch := "/tmp/scratch-" + g.Training
		docker(t, "exec", c.ids[node], "mkdir", "-p", scratch)
		all := g.Env(l, node, 0)
		all["GPUTRAIN_SCRATCH"] = scratch
		maps.Copy(all, env)
		words, _ := g.Command(l, args, "")
		cmd := c.command(t.Context(), node, all, words...)
		wg.Go(func() {
			out, err := cmd.CombinedOutput()
			code, err := exitCode(err)
			if err != nil {
				t.Error(err)
			}
			codes[node], outputs[node] = code, string(out)
		})
	}
	wg.Wait()
	return codes, outputs
}

// TestTorch trains the same program with each launcher, and with one also after a kill and from a checkpoint, and compares the
// losses to the last digit.
func TestTorch(t *testing.T) {
	c := startContainers(t, 2)
	port := 29500
	gang := func(name string, attempt int) *Gang {
		port++
		return &Gang{Training: name, Attempt: attempt, Port: port, Processes: 1, Addrs: c.addrs, Interfaces: []string{"eth0", "eth0"}}
	}
	env := func(more ...string) map[string]string {
		all := map[string]string{"STEPS": "12", "GPUTRAIN_CHECKPOINTS": "/tmp/checkpoints"}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	program := []string{"python3", "/src/train.py"}
	final := regexp.MustCompile(`final loss [0-9.e-]+`)

	codes, outputs := c.shares(t, gang("killed", 1), Processes, env("FAULT", "kill:1:9:1"), program...)
	if codes[0] != 1 || codes[1] != 137 {
		t.Errorf("killed: exit codes %v, want 1 and 137; %s", codes, outputs)
	}
	docker(t, "exec", c.ids[1], "mkdir", "-p", "/tmp/checkpoints")
	here := t.TempDir()
	docker(t, "cp", c.ids[0]+":/tmp/checkpoints/step-5", here)
	docker(t, "cp", here+"/step-5", c.ids[1]+":/tmp/checkpoints")

	losses := map[string]string{}
	for _, tt := range []struct {
		name     string
		launcher Launcher
		env      map[string]string
		args     []string
	}{
		{"resumed", Processes, env("FAULT", "kill:1:9:1", "GPUTRAIN_RESUME", "/tmp/checkpoints/step-5"), program},
		{"torchrun", Torchrun, env(), []string{"torchrun", "/src/train.py"}},
		{"mpi", MPI, env(), program},
	} {
		codes, outputs := c.shares(t, gang(tt.name, 2), tt.launcher, tt.env, tt.args...)
		for _, code := range codes {
			if code != 0 {
				t.Fatalf("%s: exit codes %v; %s", tt.name, codes, outputs)
			}
		}
		losses[tt.name] = final.FindString(outputs[0])
		if losses[tt.name] == "" || losses[tt.name] != losses["resumed"] {
			t.Errorf("%s: %q, want %q as when it resumed; %s", tt.name, losses[tt.name], losses["resumed"], outputs[0])
		}
	}
}
