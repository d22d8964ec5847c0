//go:build unix

package hosts

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/disktest"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func TestFullDisk(t *testing.T) {
	home := disktest.Small(t, 64<<20)
	h := e2etest.NewHostAt(t, home)
	pool := e2etest.OpenHosts(t, gputrain.Spec{Concurrency: 2}, nil, h)
	if _, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4}); err != nil { // the program of the worker fits
		t.Fatal(err)
	}
	fill := gputrain.Script("cat /dev/zero > big")
	fill.Name = "fill"
	beside := pool.Start(gputrain.Script(`until [ -e "$HOME/go" ]; do sleep 0.05; done`))
	for _, task := range []gputrain.Task{fill, gputrain.Cmd("head", "-c", "1000000", "/dev/urandom")} {
		_, err := pool.Run(task)
		wantDiskFull(t, err, " below "+home+"/.gputrain/pools/"+pool.ID()+"-0 on node 0: ", "Spec.DiskGiB")
	}
	// A task with little output needs no disk.
	if r, err := pool.Run(gputrain.Cmd("echo", "small")); err != nil || string(r.Stdout) != "small\n" {
		t.Errorf("a short task on a full disk: %q, %v", r.Stdout, err)
	}
	matches, _ := filepath.Glob(filepath.Join(home, ".gputrain/pools/*/work/big"))
	if len(matches) != 1 {
		t.Fatalf("the files that fill the disk are %q", matches)
	}
	if err := os.Remove(matches[0]); err != nil {
		t.Fatal(err)
	}
	e2etest.Write(t, filepath.Join(home, "go"), nil)
	if _, err := beside.Wait(); err != nil {
		t.Errorf("the task that ran meanwhile: %v", err)
	}
	os.Remove(filepath.Join(home, "go"))
	for range 3 {
		if r, err := pool.Run(gputrain.Cmd("head", "-c", "1000000", "/dev/zero")); err != nil || r.StdoutBytes != 1_000_000 {
			t.Errorf("once there is room: %d bytes, %v", r.StdoutBytes, err)
		}
	}
	if got, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4}); err != nil || got != 25 {
		t.Errorf("got %v, %v", got, err)
	}
}

// If a node has no space for the program, the upload is retried, since a task's output is removed a moment after the
// task. If there is still no space, the call fails with that error.
func TestProgramThatFindsNoRoom(t *testing.T) {
	home := disktest.Small(t, 64<<20)
	pool := e2etest.OpenHosts(t, gputrain.Spec{}, nil, e2etest.NewHostAt(t, home))
	filler := filepath.Join(home, "filler")
	disktest.Fill(t, filler, 4<<20) // less than the size of any program
	_, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4})
	wantDiskFull(t, err, "ship the program", "ask for a bigger disk")
	job := pool.Start(e2etest.Norm.Call(e2etest.Point{X: 3, Y: 4}))
	time.AfterFunc(500*time.Millisecond, func() { os.Remove(filler) }) // during the retries
	if _, err := job.Wait(); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

// wantDiskFull checks that a task's error is ENOSPC, and names the place and what to do.
func wantDiskFull(t testing.TB, err error, says ...string) {
	t.Helper()
	te, ok := errors.AsType[*gputrain.TaskError](err)
	if !ok || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk a task ended with %v", err)
		return
	}
	for _, text := range says {
		if !strings.Contains(te.Error(), text) {
			t.Errorf("%q does not contain %q", te, text)
		}
	}
}

// This machine's disk may be full when files and output arrive from nodes.
func TestFullDiskHere(t *testing.T) {
	here := disktest.Small(t, 2<<20)
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithResultsDir(here))
	_, err := pool.Run(gputrain.Cmd("head", "-c", "8000000", "/dev/zero"))
	wantDiskFull(t, err, "keep stdout of t0-a1 on this machine: write "+here, "WithResultsDir")
	os.RemoveAll(filepath.Join(here, "t0-a1"))
	writes := gputrain.Script("head -c 8000000 /dev/zero >big")
	writes.Outputs = []string{"big"}
	_, err = pool.Run(writes)
	wantDiskFull(t, err, "in "+here, "on this machine")
	if err := pool.Download("big", here); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "node 0: download big: in "+here+"/0 on this machine: ") {
		t.Errorf("a download to a full disk ended with %v", err)
	}
	if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
		t.Error(err)
	}
}

// TestCloseOnAFullDisk checks that Close leaves nothing behind on a disk to which nothing can be written.
func TestCloseOnAFullDisk(t *testing.T) {
	home := disktest.Small(t, 1<<20)
	h := e2etest.NewHostAt(t, home)
	pool := e2etest.OpenHosts(t, gputrain.Spec{Concurrency: 2}, nil, h)
	started := filepath.Join(t.TempDir(), "started")
	pool.Start(gputrain.Script(`echo x > "` + started + `"; sleep 600`))
	e2etest.Until(t, "the task", func() bool { return e2etest.Exists(started) })
	if _, err := pool.Run(gputrain.Script("cat /dev/zero > big")); err == nil {
		t.Error("the disk is not full")
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}
