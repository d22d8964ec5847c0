//go:build unix

package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// holdsDevice makes a file for each of its devices, and waits until another one exists.
var holdsDevice = gputrain.Func("crash/holds-device", func(ctx context.Context, dir string) ([]string, error) {
	devices := gputrain.ThisNode(ctx).Accelerators
	for _, d := range devices {
		if err := os.Mkdir(filepath.Join(dir, gputrain.ThisNode(ctx).Pool+"."+d), 0o700); err != nil {
			return nil, err
		}
	}
	for ctx.Err() == nil {
		if _, err := os.Stat(filepath.Join(dir, "go")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return devices, ctx.Err()
})

// deviceTask returns a task that holds so many devices until the file go is there.
func deviceTask(dir string, devices int) gputrain.Task {
	t := gputrain.Script(e2etest.HoldsDevices(dir, "0,1,2,3", `echo began >>"`+dir+`/began"; until [ -e "`+dir+`/go" ]; do sleep 0.05; done`))
	t.Accelerators, t.Name = devices, fmt.Sprint(devices, " devices")
	return t
}

func init() {
	victimWork["devices"] = func(pool *gputrain.Compute, v victim) {
		pool.Start(deviceTask(v.Shared, 2))
		pool.Start(holdsDevice.With(gputrain.Task{Accelerators: 1}).Call(v.Shared))
		pool.Start(deviceTask(v.Shared, 4)) // it waits
		e2etest.Say("all started")
		select {}
	}
	victimWork["shares"] = func(pool *gputrain.Compute, v victim) {
		pool.Start(deviceTask(v.Shared, 1))
		select {}
	}
}

// startOnGPUs starts a victim with a local node that has GPUs, and shares them if sharing is above 1. It returns the log
// of the fake daemon for that.
func startOnGPUs(t *testing.T, work string, gpus, sharing int) (v victim, child *e2etest.Child, log string) {
	bin := e2etest.FakeGPUs(t, gpus)
	log = e2etest.FakeMPS(t, bin)
	e2etest.OnPath(t, bin)
	v = victim{State: t.TempDir(), Name: "devices", Local: e2etest.ShortDir(t), Shared: t.TempDir(), Work: work, Spec: gputrain.Spec{
		Accelerator: accelerators.A100(accelerators.Count(float64(gpus))), Concurrency: 2, GPUSharing: sharing, Lease: time.Minute,
	}}
	return v, v.start(t), log
}

func (v victim) attachLocal(t *testing.T) *gputrain.Compute {
	t.Helper()
	pool, err := gputrain.Attach(t.Context(), local.Config{Dir: v.Local}, v.Name, gputrain.WithStateDir(v.State), gputrain.WithResultsDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return pool
}

// A program is killed while a command and a function have devices of their own. A program that attaches gives these
// devices to no other task, and its tasks that waited still wait for as many.
func TestAttachAccelerators(t *testing.T) {
	v, child, _ := startOnGPUs(t, "devices", 4, 1)
	child.Await("all started")
	e2etest.Until(t, "both have devices", func() bool {
		held, _ := filepath.Glob(filepath.Join(v.Shared, "*.[0-3]"))
		return len(held) == 3
	})
	child.Kill()
	pool := v.attachLocal(t)
	jobs := pool.Jobs()
	if len(jobs) != 3 {
		t.Fatalf("%d jobs", len(jobs))
	}
	one := gputrain.Script(`echo "$CUDA_VISIBLE_DEVICES"`)
	one.Accelerators = 1
	if job := pool.Start(one); true {
		select { // the task of four was first, and the node is reserved for it
		case <-job.Done():
			t.Error("a smaller task has overtaken the oldest")
		case <-time.After(300 * time.Millisecond):
		}
		e2etest.WriteText(t, filepath.Join(v.Shared, "go"), "")
		if _, err := job.Wait(); err != nil {
			t.Error(err)
		}
	}
	for i, want := range []int{2, 1, 4} {
		r, err := jobs[i].Wait()
		if err != nil || r.Attempts != 1 {
			t.Errorf("the task of %d devices: %v in attempt %d", want, err, r.Attempts)
		}
	}
	r, _ := jobs[1].Wait()
	if got, err := holdsDevice.Value(r); err != nil || !slices.Equal(got, []string{"2"}) {
		t.Errorf("the function had %q, %v", got, err)
	}
	if n := e2etest.Lines(filepath.Join(v.Shared, "began")); n != 2 {
		t.Errorf("the commands began %d times", n)
	}
}

// A task that had devices ends while its program is dead. The program that attaches has its result, and its devices are free.
func TestAttachAcceleratorsOfTheEnded(t *testing.T) {
	v, child, _ := startOnGPUs(t, "devices", 4, 1)
	running := func() bool {
		slots, _ := filepath.Glob(filepath.Join(v.Shared, "*.s*"))
		return len(slots) > 0
	}
	e2etest.Until(t, "the command has its devices", running)
	child.Kill()
	e2etest.WriteText(t, filepath.Join(v.Shared, "go"), "")
	e2etest.Until(t, "the command has ended", func() bool { return !running() })
	for i, job := range v.attachLocal(t).Jobs() {
		if r, err := job.Wait(); err != nil || i == 0 && r.Attempts != 1 {
			t.Errorf("task %d: %v in attempt %d", i, err, r.Attempts)
		}
	}
}

// The daemon that shares devices goes on after the death of its program. A program that attaches uses the same one.
func TestAttachSharedAccelerators(t *testing.T) {
	v, child, log := startOnGPUs(t, "shares", 1, 2)
	e2etest.Until(t, "the task runs", func() bool { return e2etest.Lines(filepath.Join(v.Shared, "began")) == 1 })
	child.Kill()
	pool := v.attachLocal(t)
	other := gputrain.Script(`test -e "$CUDA_MPS_PIPE_DIRECTORY/control" && echo "$CUDA_VISIBLE_DEVICES $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"`)
	other.Accelerators = 1
	if r, err := pool.Run(other); err != nil || string(r.Stdout) != "0 50\n" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
	other.Accelerators = 3
	if _, err := pool.Run(other); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "has 2 at most") {
		t.Errorf("%v", err)
	}
	v.goOn(t)
	for _, job := range pool.Jobs() {
		if _, err := job.Wait(); err != nil {
			t.Error(err)
		}
	}
	if got := e2etest.ReadText(t, log); got != "begins all PCI_BUS_ID\n" {
		t.Errorf("%q", got)
	}
}
