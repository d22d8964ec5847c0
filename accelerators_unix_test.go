//go:build unix

package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/local"
)

// Tasks of different sizes, commands and functions, with devices of their own and in slots, never share a device.
func TestAcceleratorsOfTasks(t *testing.T) {
	e2etest.OnPath(t, e2etest.FakeGPUs(t, 4))
	for _, slots := range []int{1, 2} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			pool := e2etest.Open(t, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(4)), Concurrency: slots})
			dir := t.TempDir()
			var tasks []gputrain.Task
			for i := range 16 {
				task := gputrain.Script(e2etest.HoldsDevices(dir, "0,1,2,3", "sleep 0.1") + `; echo "$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER"`)
				task.Accelerators = []int{1, 2, 0, 1, 4, 1, 3, 1}[i%8]
				tasks = append(tasks, task)
			}
			results, err := pool.Gather(tasks...)
			if err != nil {
				t.Fatalf("two tasks had the same device or slot: %v", err)
			}
			for i, r := range results {
				words := strings.Split(strings.TrimSuffix(string(r.Stdout), "\n"), " ")
				devices := strings.Split(words[0], ",")
				if n := tasks[i].Accelerators; n > 0 && (len(devices) != n || !slices.IsSorted(devices) || words[1] != "PCI_BUS_ID") || n == 0 && slots == 2 && len(devices) != 2 {
					t.Errorf("task %d, of %d devices, had %q", i, n, r.Stdout)
				}
			}
		})
	}
}

var myDevices = gputrain.Func("root.my-devices", func(ctx context.Context, _ struct{}) (gputrain.NodeInfo, error) {
	return gputrain.ThisNode(ctx), nil
})

// Functions learn their devices, and the number in place of a slot's.
func TestAcceleratorsOfFunctions(t *testing.T) {
	e2etest.OnPath(t, e2etest.FakeGPUs(t, 4))
	pool := e2etest.Open(t, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(4)), Nodes: 1})
	two := myDevices.With(gputrain.Task{Accelerators: 2})
	info, err := two.Run(pool, struct{}{})
	if err != nil || !slices.Equal(info.Accelerators, []string{"0", "1"}) || info.Slot != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	infos, err := two.Broadcast(pool, struct{}{})
	if err != nil || len(infos) != 1 || len(infos[0].Accelerators) != 2 {
		t.Errorf("%+v, %v", infos, err)
	}
	if info, err := myDevices.Run(pool, struct{}{}); err != nil || len(info.Accelerators) != 4 || info.Slot != 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

// A task that wants what no node can have is refused before anything runs.
func TestAcceleratorsThatNoNodeHas(t *testing.T) {
	e2etest.OnPath(t, e2etest.FakeGPUs(t, 2))
	with := func(n int) gputrain.Task {
		task := gputrain.Cmd("true")
		task.Accelerators = n
		return task
	}
	pool := e2etest.Open(t, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2))})
	for what, err := range map[string]error{
		"Run": func() error { _, err := pool.Run(with(3)); return err }(), "Broadcast": func() error { _, err := pool.Broadcast(with(3)); return err }(),
		"Start": func() error { _, err := pool.Start(with(3)).Wait(); return err }(),
	} {
		if !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "a task asks for 3 of its own, and any node has 2 at most") || !strings.Contains(err.Error(), "Spec.Accelerator") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := pool.Run(with(-1)); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "Accelerators is -1") {
		t.Errorf("%v", err)
	}
	elastic := e2etest.Open(t, gputrain.Spec{Accelerator: accelerators.A100(), MaxNodes: 2}) // no node is there yet
	if _, err := elastic.Run(with(2)); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "has 1 at most") {
		t.Errorf("%v", err)
	}
	if r, err := elastic.Run(with(1)); err != nil || r.Node.Rank != 0 {
		t.Errorf("on %d: %v", r.Node.Rank, err)
	}
}

// In a pool that asks for no accelerator a node's slots take the place of devices.
func TestAcceleratorsOfNone(t *testing.T) {
	e2etest.OnPath(t, e2etest.FakeGPUs(t, 0))
	with := func(n int) gputrain.Task {
		task := gputrain.Script(`echo "${CUDA_VISIBLE_DEVICES-none}"`)
		task.Accelerators = n
		return task
	}
	none := e2etest.Open(t, gputrain.Spec{Concurrency: 2}) // its slots take the place of devices
	if r, err := none.Run(with(2)); err != nil || string(r.Stdout) != "none\n" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
	if r, err := none.Broadcast(with(2)); err != nil || string(r[0].Stdout) != "none\n" {
		t.Errorf("a broadcast: %v, %v", r, err)
	}
	if _, err := none.Broadcast(with(3)); !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("a broadcast of too many: %v", err)
	}
	if _, err := none.Run(with(3)); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "has 2 at most") || !strings.Contains(err.Error(), "Spec.Accelerator") {
		t.Errorf("%v", err)
	}
}

// With GPUSharing so many tasks share a device, by a control daemon of the pool's own that ends with it.
func TestSharedAccelerators(t *testing.T) {
	bin := e2etest.FakeGPUs(t, 2)
	log := e2etest.FakeMPS(t, bin)
	e2etest.OnPath(t, bin)
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", "/of/another/user")
	home := e2etest.ShortDir(t)
	pool, err := gputrain.Open(t.Context(), local.Config{Dir: home}, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2)), GPUSharing: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	dir := t.TempDir()
	var tasks []gputrain.Task
	for range 4 { // all must run at once
		task := gputrain.Script(`cd '` + dir + `'; : >"$GPUTRAIN_SLOT"; until [ "$(ls | wc -l)" -eq 4 ]; do sleep 0.01; done
echo "$CUDA_VISIBLE_DEVICES $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE $(ls "$CUDA_MPS_PIPE_DIRECTORY/control" | sed 's=.*/==')"`)
		task.Accelerators, task.Timeout = 1, time.Minute
		tasks = append(tasks, task)
	}
	results, err := pool.Gather(tasks...)
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, r := range results {
		seen = append(seen, string(r.Stdout))
	}
	slices.Sort(seen)
	if want := []string{"0 50 control\n", "0 50 control\n", "1 50 control\n", "1 50 control\n"}; !slices.Equal(seen, want) {
		t.Errorf("%q", seen)
	}
	both := gputrain.Script(`echo "$CUDA_VISIBLE_DEVICES $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"`)
	both.Accelerators = 2
	if r, err := pool.Run(both); err != nil || string(r.Stdout) != "0 100\n" {
		t.Errorf("two shares of one device: %q, %v", r.Stdout, err)
	}
	whole, err := pool.Run(gputrain.Script(`echo "$CUDA_VISIBLE_DEVICES $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"; test -e "$CUDA_MPS_PIPE_DIRECTORY/control"`))
	if err != nil || string(whole.Stdout) != "0,1 \n" {
		t.Errorf("the whole node: %q, %v", whole.Stdout, err)
	}
	both.Accelerators = 5
	if _, err := pool.Run(both); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "has 4 at most") {
		t.Errorf("%v", err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if got := e2etest.ReadText(t, log); !strings.HasPrefix(got, "begins all PCI_BUS_ID\n") {
		t.Errorf("%q", got)
	}
	if left, err := filepath.Glob(home + "/*/.gputrain/*/*/mps*"); err != nil || left != nil {
		t.Errorf("%v are left", left)
	}
}

// A node whose devices cannot be shared fails, and its error says why. A node is given up if its daemon ends.
func TestAcceleratorsThatCannotBeShared(t *testing.T) {
	spec := gputrain.Spec{Accelerator: accelerators.A100(), GPUSharing: 2, MaxReplacements: -1}
	open := func(t *testing.T) (*gputrain.Compute, error) {
		return gputrain.Open(t.Context(), local.Config{Dir: e2etest.ShortDir(t)}, spec)
	}
	t.Run("without MPS", func(t *testing.T) {
		program(t, "nvidia-cuda-mps-control", "exit 1")
		e2etest.OnPath(t, e2etest.FakeGPUs(t, 1))
		if _, err := open(t); err == nil || !strings.Contains(err.Error(), "nvidia-cuda-mps-control ended with exit code 1") {
			t.Errorf("%v", err)
		}
	})
	t.Run("broken at once", func(t *testing.T) {
		bin := e2etest.FakeGPUs(t, 1)
		log := e2etest.FakeMPS(t, bin)
		e2etest.OnPath(t, bin)
		e2etest.WriteText(t, log+".broken", "")
		if _, err := open(t); !errors.Is(err, gputrain.ErrNoOffers) || !strings.Contains(err.Error(), "ended with exit code 9: no such device") {
			t.Errorf("%v", err)
		}
	})
	t.Run("broken later", func(t *testing.T) {
		bin := e2etest.FakeGPUs(t, 1)
		log := e2etest.FakeMPS(t, bin)
		e2etest.OnPath(t, bin)
		pool, err := open(t)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		e2etest.WriteText(t, log+".broken", "")
		_, err = pool.Run(gputrain.Cmd("sleep", "60"))
		if !errors.Is(err, gputrain.ErrNodeLost) || !strings.Contains(err.Error(), "tasks can no longer share its accelerators: nvidia-cuda-mps-control ended with exit code 9") {
			t.Errorf("%v", err)
		}
	})
}
