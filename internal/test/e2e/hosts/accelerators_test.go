//go:build unix

package hosts

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// Tasks of different sizes never share a device of a host. A host may have more devices than the spec asks for.
func TestAcceleratorsOfAHost(t *testing.T) {
	host := e2etest.NewHost(t, "PATH="+e2etest.FakeGPUs(t, 4)+":"+os.Getenv("PATH"))
	pool := e2etest.OpenHosts(t, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2))}, nil, host)
	dir := t.TempDir()
	var tasks []gputrain.Task
	for i := range 10 {
		task := gputrain.Script(e2etest.HoldsDevices(dir, "0,1,2,3", "sleep 0.1"))
		task.Accelerators = []int{1, 3, 1, 0, 4}[i%5]
		tasks = append(tasks, task)
	}
	if _, err := pool.Gather(tasks...); err != nil {
		t.Error(err)
	}
	tasks[0].Accelerators = 5
	if _, err := pool.Run(tasks[0]); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "has 4 at most") {
		t.Errorf("%v", err)
	}
}

// The control daemon of MPS is the pool's own, and is asked to end before the host is left. NewHost checks what is left.
func TestSharedAcceleratorsOfAHost(t *testing.T) {
	bin := e2etest.FakeGPUs(t, 1)
	log := e2etest.FakeMPS(t, bin)
	host := e2etest.NewHostAt(t, e2etest.ShortDir(t), "PATH="+bin+":"+os.Getenv("PATH"))
	pool := e2etest.OpenHosts(t, gputrain.Spec{Accelerator: accelerators.A100(), GPUSharing: 4, Concurrency: 3}, nil, host)
	dir := t.TempDir()
	var tasks []gputrain.Task
	for i := range 4 { // all at once: a slot has one share of four, and so has each other task
		task := gputrain.Script(`cd '` + dir + `'; : >"$GPUTRAIN_SLOT"; until [ "$(ls | wc -l)" -eq 4 ]; do sleep 0.01; done
test -e "$CUDA_MPS_PIPE_DIRECTORY/control" && echo "$CUDA_VISIBLE_DEVICES $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"`)
		task.Accelerators, task.Timeout = i%2, time.Minute
		tasks = append(tasks, task)
	}
	results, err := pool.Gather(tasks...)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if got := string(r.Stdout); i%2 == 1 && got != "0 25\n" || i%2 == 0 && got != "0 25\n" {
			t.Errorf("task %d: %q", i, got)
		}
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if got := e2etest.ReadText(t, log); got != "begins all PCI_BUS_ID\nquits\n" {
		t.Errorf("%q", got)
	}
}
