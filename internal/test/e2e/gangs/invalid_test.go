//go:build unix

package gangs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// A node points to the next one of a list.
type node struct{ Next *node }

// loop returns a list without an end.
func loop() *node {
	n := &node{}
	n.Next = n
	return n
}

var (
	loops  = gputrain.Func("gangs/loops", func(context.Context, *node) (int, error) { return 0, nil })
	counts = gputrain.Func("gangs/counts", func(_ context.Context, n int) (int, error) { return n, nil })
)

// Whatever is wrong with a training is refused by its name before anything runs.
func TestInvalid(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	for says, change := range map[string]func(*gputrain.Training){
		"Task: ":                           func(g *gputrain.Training) { g.Task.Script = "" },
		"Task.Retries":                     func(g *gputrain.Training) { g.Task.Retries = 1 },
		"Task.Critical":                    func(g *gputrain.Training) { g.Task.Critical = true },
		"Task.Accelerators":                func(g *gputrain.Training) { g.Task.Accelerators = 1 },
		"Task.TTY":                         func(g *gputrain.Training) { g.Task.TTY = true },
		"Task.StallTimeout":                func(g *gputrain.Training) { g.Task.StallTimeout = time.Minute },
		"Timeout":                          func(g *gputrain.Training) { g.Task.Timeout = -1 },
		"Outputs[0]":                       func(g *gputrain.Training) { g.Task.Outputs = []string{"/etc/passwd"} },
		"Checkpoints.Keep":                 func(g *gputrain.Training) { g.Task.Checkpoints.Keep = -1 },
		"HF_TOKEN":                         func(g *gputrain.Training) { g.Task.Env = map[string]string{"HF_TOKEN": "x"} },
		"Launcher is gputrain.Launcher(3)": func(g *gputrain.Training) { g.Launcher = 3 },
		"Launcher is gputrain.":            func(g *gputrain.Training) { g.Launcher = -1 },
		"Nodes is -1":                      func(g *gputrain.Training) { g.Nodes = -1 },
		"Nodes is 3":                       func(g *gputrain.Training) { g.Nodes = 3 },
		"ProcessesPerNode is -":            func(g *gputrain.Training) { g.ProcessesPerNode = -1 },
		"Restarts is -1":                   func(g *gputrain.Training) { g.Restarts = -1 },
		"StartTimeout is -2":               func(g *gputrain.Training) { g.StartTimeout = -2 },
		"StallTimeout is -2":               func(g *gputrain.Training) { g.StallTimeout = -2 },
		"IdleTimeout is -2":                func(g *gputrain.Training) { g.IdleTimeout = -2 },
		"Check is a call":                  func(g *gputrain.Training) { g.Check = counts.Call(1) },
		"Check: ":                          func(g *gputrain.Training) { g.Check = gputrain.Script("true"); g.Check.Timeout = -1 },
		"Check.Retries":                    func(g *gputrain.Training) { g.Check = gputrain.Script("true"); g.Check.Retries = 1 },
		"Check has Outputs":                func(g *gputrain.Training) { g.Check = gputrain.Script("true"); g.Check.Outputs = []string{"x"} },
		"Check: task: invalid: the command is empty":           func(g *gputrain.Training) { g.Check.Env = map[string]string{"A": "b"} },
		"a function runs once":                                 func(g *gputrain.Training) { g.Task = counts.Call(1); g.ProcessesPerNode = 2 },
		"Task: torchrun starts the processes of a gang itself": func(g *gputrain.Training) { g.Task = gputrain.Cmd("torchrun", "train.py") },
		"Check: torchrun starts":                               func(g *gputrain.Training) { g.Check = gputrain.Script("torchrun check.py") },
		"torchrun --standalone is for one node": func(g *gputrain.Training) {
			g.Task, g.Launcher = gputrain.Cmd("torchrun", "--standalone", "train.py"), gputrain.Torchrun
		},
		"without a Launcher": func(g *gputrain.Training) { g.Task = counts.Call(1); g.Launcher = gputrain.Torchrun },
	} {
		training := named("x", gputrain.Script("true"))
		change(&training)
		r, err := pool.Train(training)
		if !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), says) || len(r.Attempts) > 0 || strings.Count(err.Error(), "StallTimeout is set") > 1 {
			t.Errorf("%s: %v", says, err)
		}
	}
	for says, task := range map[string]gputrain.Task{"argument: ": loops.Call(loop())} {
		if _, err := pool.Train(named("x", task)); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	for _, rank := range []int{1, 7} {
		training := named("x", gputrain.Script("true"))
		training.Task.Target = gputrain.OnRank(rank)
		if r, err := pool.Train(training); err == nil || len(r.Attempts) > 0 {
			t.Errorf("two nodes of rank %d: %v", rank, err)
		}
	}
	nodesWork(t, pool)
}

// Two trainings of one name cannot run at the same time, and one after the other can.
func TestSameName(t *testing.T) {
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	training := named("x", d.script("note runs; await go"))
	training.Nodes = 1
	ended := make(chan error, 1)
	go func() {
		_, err := pool.Train(training)
		ended <- err
	}()
	d.await(t, "1 0 runs")
	if _, err := pool.Train(training); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), `"x"`) {
		t.Error(err)
	}
	d.allow(t, "go")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := pool.Train(training); err != nil {
		t.Error(err)
	}
	pool.Close()
	if _, err := pool.Train(training); !errors.Is(err, gputrain.ErrClosed) {
		t.Error(err)
	}
}
