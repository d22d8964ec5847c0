package training

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// openLocal opens a pool of nodes on this machine, with its real GPU or without.
func openLocal(t *testing.T, nodes int, gpu bool) *cluster {
	a := e2etest.NeedGPU(t)
	s := spec(nodes)
	if gpu {
		s.Accelerator = a
	}
	return &cluster{pool: e2etest.Open(t, s)}
}

// A training on a real GPU, with NCCL, ends with the same loss under each launcher, and after a rank was killed.
func TestTrainingOnGPU(t *testing.T) {
	c := openLocal(t, 1, true)
	want := ""
	run := func(t *testing.T, training gputrain.Training) gputrain.TrainResult {
		t.Helper()
		result, err := c.pool.Train(training)
		if err != nil {
			t.Fatalf("%v\n%s", err, printed(result))
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
	t.Run("processes", func(t *testing.T) { run(t, program(t, "processes", "train.py", nil)) })
	t.Run("torchrun", func(t *testing.T) {
		training := program(t, "torchrun", "train.py", nil)
		training.Launcher, training.Task.Args = gputrain.Torchrun, []string{"torchrun", "testdata/train.py"}
		run(t, training)
	})
	t.Run("rank killed", func(t *testing.T) {
		training := program(t, "killed", "train.py", map[string]string{"FAULT": "kill:0:13:1", "STEP_SECONDS": "0.1"})
		training.Restarts = 1
		result := run(t, training)
		if len(result.Attempts) != 2 || result.Attempts[1].Resumed == "" {
			t.Errorf("attempts %+v", result.Attempts)
		}
	})
	t.Run("jax", func(t *testing.T) {
		result, err := c.pool.Train(program(t, "jax", "jaxsum.py", nil))
		if err != nil || !strings.Contains(printed(result), "process 0 of 1 on gpu: sum 0.0") {
			t.Errorf("%v\n%s", err, printed(result))
		}
	})
	t.Run("two ranks on one GPU", func(t *testing.T) {
		training := program(t, "two", "train.py", map[string]string{"LOCAL_RANK": "0"})
		training.ProcessesPerNode = 2
		_, err := c.pool.Train(training)
		if err == nil || !strings.Contains(err.Error(), "two ranks may use one GPU") {
			t.Errorf("got %v, want the hint that two ranks may use one GPU", err)
		}
		t.Log(err)
	})
	t.Run("out of memory", func(t *testing.T) {
		training := program(t, "full", "full.py", nil)
		_, err := c.pool.Train(training)
		if err == nil || !strings.Contains(err.Error(), "the GPU's memory is full") {
			t.Errorf("got %v, want the hint that the GPU's memory is full", err)
		}
		t.Log(err)
	})
	t.Run("idle", func(t *testing.T) {
		training := program(t, "idle", "idle.py", nil)
		training.IdleTimeout = 20 * time.Second
		began := time.Now()
		_, err := c.pool.Train(training)
		if !errors.Is(err, gputrain.ErrIdle) {
			t.Errorf("got %v, want ErrIdle", err)
		}
		t.Log(time.Since(began), err)
	})
}

// Processes of JAX on two nodes find each other by the variables that they are given.
func TestTrainingJAX(t *testing.T) {
	c := openLocal(t, 2, false)
	result, err := c.pool.Train(program(t, "jax", "jaxsum.py", map[string]string{"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}))
	if err != nil {
		t.Fatalf("%v\n%s", err, printed(result))
	}
	for _, want := range []string{"process 0 of 2 on cpu: sum 1.0", "process 1 of 2 on cpu: sum 1.0"} {
		if !strings.Contains(printed(result), want) {
			t.Errorf("no process has printed %q:\n%s", want, printed(result))
		}
	}
}
