//go:build unix

package gputrain_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/disktest"
)

func TestFullDisk(t *testing.T) {
	home := disktest.Small(t, 64<<20)
	h := newHostAt(t, home)
	pool := openHosts(t, gputrain.Spec{Concurrency: 2}, nil, h)
	if _, err := norm.Run(pool, point{3, 4}); err != nil { // its program fits
		t.Fatal(err)
	}
	fill := gputrain.Script("cat /dev/zero > big")
	fill.Name = "fill"
	beside := pool.Start(gputrain.Script(`until [ -e "$HOME/go" ]; do sleep 0.05; done`))
	for _, task := range []gputrain.Task{fill, gputrain.Cmd("head", "-c", "1000000", "/dev/urandom")} {
		_, err := pool.Run(task)
		wantDiskFull(t, err, " below "+home+"/.gputrain/pools/"+pool.ID()+"-0 on node 0: ", "Spec.DiskGiB")
	}
	// What prints little needs no disk.
	if r, err := pool.Run(gputrain.Cmd("echo", "small")); err != nil || string(r.Stdout) != "small\n" {
		t.Errorf("a short task on a full disk: %q, %v", r.Stdout, err)
	}
	matches, _ := filepath.Glob(filepath.Join(home, ".gputrain/pools/*/work/big"))
	if len(matches) != 1 {
		t.Fatalf("what fills the disk: %q", matches)
	}
	if err := os.Remove(matches[0]); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, "go"), nil)
	if _, err := beside.Wait(); err != nil {
		t.Errorf("the task that ran meanwhile: %v", err)
	}
	os.Remove(filepath.Join(home, "go"))
	for range 3 {
		if r, err := pool.Run(gputrain.Cmd("head", "-c", "1000000", "/dev/zero")); err != nil || r.StdoutBytes != 1_000_000 {
			t.Errorf("once there is room: %d bytes, %v", r.StdoutBytes, err)
		}
	}
	if got, err := norm.Run(pool, point{3, 4}); err != nil || got != 25 {
		t.Errorf("got %v, %v", got, err)
	}
}

// A program that finds no room on a node is sent again, for what a task has printed is
// removed a moment after the task; if there is none still, its call fails as such.
func TestProgramThatFindsNoRoom(t *testing.T) {
	home := disktest.Small(t, 64<<20)
	pool := openHosts(t, gputrain.Spec{}, nil, newHostAt(t, home))
	filler := filepath.Join(home, "filler")
	write(t, filler, make([]byte, 50<<20))
	_, err := norm.Run(pool, point{3, 4})
	wantDiskFull(t, err, "ship the program", "ask for a bigger disk")
	job := pool.Start(norm.Call(point{3, 4}))
	time.AfterFunc(500*time.Millisecond, func() { os.Remove(filler) }) // while it is tried
	if _, err := job.Wait(); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

// wantDiskFull looks for a task's error that is ENOSPC and says where, and what to do.
func wantDiskFull(t testing.TB, err error, says ...string) {
	t.Helper()
	te, ok := errors.AsType[*gputrain.TaskError](err)
	if !ok || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk a task ended with %v", err)
		return
	}
	for _, text := range says {
		if !strings.Contains(te.Error(), text) {
			t.Errorf("%q does not say %q", te, text)
		}
	}
}

// What comes back from nodes may find this machine's disk full.
func TestFullDiskHere(t *testing.T) {
	here := disktest.Small(t, 2<<20)
	pool := open(t, gputrain.Spec{}, gputrain.WithResultsDir(here))
	_, err := pool.Run(gputrain.Cmd("head", "-c", "8000000", "/dev/zero"))
	wantDiskFull(t, err, "keep stdout of t1-a1 on this machine: write "+here, "WithResultsDir")
	os.RemoveAll(filepath.Join(here, "t1-a1"))
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

// TestCloseOnAFullDisk leaves nothing behind although nothing can be written.
func TestCloseOnAFullDisk(t *testing.T) {
	home := disktest.Small(t, 1<<20)
	h := newHostAt(t, home)
	pool := openHosts(t, gputrain.Spec{Concurrency: 2}, nil, h)
	started := filepath.Join(t.TempDir(), "started")
	pool.Start(gputrain.Script(`echo x > "` + started + `"; sleep 600`))
	until(t, "the task", func() bool { return exists(started) })
	if _, err := pool.Run(gputrain.Script("cat /dev/zero > big")); err == nil {
		t.Error("the disk is not full")
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}
