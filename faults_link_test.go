//go:build unix

package gputrain_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

// A tally is a call that can be counted: each run adds a line to a file.
type tally struct {
	File string // counts
	Go   string // what to wait for, or ""
	N    int
}

var count = gputrain.Func("count", func(ctx context.Context, in tally) (string, error) {
	f, err := os.OpenFile(in.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, in.N); err != nil {
		return "", err
	}
	for in.Go != "" && !exists(in.Go) && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	return strings.Repeat("x", in.N), ctx.Err()
})

func TestEveryByteComesOnceOverALinkThatIsCut(t *testing.T) {
	h := newHost(t)
	pool := openHosts(t, gputrain.Spec{}, nil, h)
	dir := t.TempDir()
	data := make([]byte, 32<<20)
	rand.Read(data)
	write(t, filepath.Join(dir, "data"), data)
	dials := h.link.Dials()
	h.link.CutAfter(3<<20, 1<<20, 2<<20, 3<<20, 4<<20, 5<<20, 6<<20, 7<<20) // half of what is to come
	r, err := pool.Run(gputrain.Script("cd '" + dir + "'; echo x >> runs; cat data; cat data >&2"))
	if err != nil {
		t.Fatal(err)
	}
	if n := h.link.Dials() - dials; n < 8 {
		t.Errorf("%d connections after cuts", n)
	}
	for name, file := range map[string]string{"stdout": r.StdoutFile, "stderr": r.StderrFile} {
		if got := sum(t, file); got != sha256.Sum256(data) {
			t.Errorf("%s in %q is not what was written", name, file)
		}
	}
	if r.StdoutBytes != int64(len(data)) || r.StderrBytes != int64(len(data)) || r.Attempts != 1 {
		t.Errorf("%d and %d bytes of %d, in %d attempts", r.StdoutBytes, r.StderrBytes, len(data), r.Attempts)
	}
	if n := lines(filepath.Join(dir, "runs")); n != 1 {
		t.Errorf("the task ran %d times", n)
	}
}

// cutOften cuts the link on every tenth start of a task.
func cutOften(h *ownHost, cuts *atomic.Int64) gputrain.Option {
	n := 0
	return gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind != gputrain.EventTask || e.State != "started" {
			return
		}
		if n++; n%10 == 0 {
			cuts.Add(1)
			h.link.Cut()
		}
	})
}

func TestShortTasksRunOnceOverALinkThatIsCut(t *testing.T) {
	h := newHost(t)
	var cuts atomic.Int64
	pool := openHosts(t, gputrain.Spec{Concurrency: 5}, []gputrain.Option{cutOften(h, &cuts)}, h)
	dir := t.TempDir()
	var tasks []gputrain.Task
	for i := range 50 {
		tasks = append(tasks, gputrain.Script(fmt.Sprintf("echo x >> '%s/%d'; sleep 0.05; echo out %d; echo err %d >&2", dir, i, i, i)))
	}
	results, err := pool.Gather(tasks...)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if n := lines(filepath.Join(dir, fmt.Sprint(i))); n != 1 || r.Attempts != 1 {
			t.Errorf("task %d ran %d times, in %d attempts", i, n, r.Attempts)
		}
		if string(r.Stdout) != fmt.Sprintf("out %d\n", i) || string(r.Stderr) != fmt.Sprintf("err %d\n", i) {
			t.Errorf("task %d says %q and %q", i, r.Stdout, r.Stderr)
		}
	}
	if cuts.Load() < 3 {
		t.Errorf("%d cuts", cuts.Load())
	}
}

func TestCallsRunOnceOverALinkThatIsCut(t *testing.T) {
	h := newHost(t)
	var cuts atomic.Int64
	pool := openHosts(t, gputrain.Spec{Concurrency: 5}, []gputrain.Option{cutOften(h, &cuts)}, h)
	dir := t.TempDir()
	var calls []tally
	for i := range 50 {
		calls = append(calls, tally{File: filepath.Join(dir, fmt.Sprint(i)), N: i * 5000})
	}
	results, err := count.Gather(pool, calls...)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if n := lines(calls[i].File); n != 1 || len(r) != calls[i].N {
			t.Errorf("call %d ran %d times and returned %d bytes of %d", i, n, len(r), calls[i].N)
		}
	}
	if cuts.Load() < 3 {
		t.Errorf("%d cuts", cuts.Load())
	}
}

// TestFilesArriveOverALinkThatIsCut cuts while files go up and come down. A
// copy may fail of that; done again, it is whole.
func TestFilesArriveOverALinkThatIsCut(t *testing.T) {
	h := newHost(t)
	pool := openHosts(t, gputrain.Spec{}, nil, h)
	data := make([]byte, 8<<20)
	rand.Read(data)
	up, down := filepath.Join(t.TempDir(), "data"), t.TempDir()
	write(t, up, data)
	again := func(what string, do func() error) {
		t.Helper()
		h.link.CutAfter(4 << 20)
		for attempt := 1; ; attempt++ {
			err := do()
			if err == nil {
				return
			}
			if attempt == 5 {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	again("upload", func() error { return pool.Upload(up, "data") })
	again("download", func() error { return pool.Download("data", down) })
	if got := sum(t, filepath.Join(down, "0", "data")); got != sha256.Sum256(data) {
		t.Error("other bytes came back")
	}
}

// faultsUnderATaskAndACall has one of each run while something happens to
// their host: both go on, and what they say and return arrives.
func faultsUnderATaskAndACall(t *testing.T) {
	const while = 3 * time.Second // of a fault that nothing tells the end of
	for name, c := range map[string]struct {
		start, mend func(t *testing.T, h *ownHost)
	}{
		"link cut": {func(t *testing.T, h *ownHost) { h.link.Cut() }, nil},
		"link down": {
			func(t *testing.T, h *ownHost) { h.link.Refuse(true); h.link.Cut() },
			func(t *testing.T, h *ownHost) {
				dials := h.link.Dials()
				until(t, "vain dials", func() bool { return h.link.Dials() > dials+2 })
				h.link.Refuse(false)
			},
		},
		"sshd restarted":           {func(t *testing.T, h *ownHost) { h.srv.Restart() }, func(t *testing.T, h *ownHost) { h.link.Cut() }},
		"sshd killed with its own": {func(t *testing.T, h *ownHost) { h.srv.Kill() }, func(t *testing.T, h *ownHost) { h.srv.Resume() }},
		"black hole": {
			func(t *testing.T, h *ownHost) { h.link.Blackhole(true) },
			func(t *testing.T, h *ownHost) { time.Sleep(while); h.link.Blackhole(false) },
		},
		"black hole, then cut": {
			func(t *testing.T, h *ownHost) { h.link.Blackhole(true); h.link.Cut() },
			func(t *testing.T, h *ownHost) { time.Sleep(while); h.link.Blackhole(false) },
		},
		"host stopped": {
			func(t *testing.T, h *ownHost) { h.stop(t) },
			func(t *testing.T, h *ownHost) { time.Sleep(while); h.resume() },
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			pool := openHosts(t, gputrain.Spec{Concurrency: 2}, nil, h)
			dir := t.TempDir()
			task := gputrain.Script(`echo x >> "$D/task"; echo before; until [ -e "$D/go" ]; do sleep 0.05; done; echo after`)
			task.Env = map[string]string{"D": dir}
			job := pool.Start(task)
			call := pool.Start(count.Call(tally{File: dir + "/call", Go: dir + "/go", N: 100_000}))
			until(t, "both running", func() bool { return exists(dir+"/task") && exists(dir+"/call") })
			c.start(t, h)
			write(t, dir+"/go", nil)
			if c.mend != nil {
				c.mend(t, h)
			}
			r, err := job.Wait()
			if err != nil || string(r.Stdout) != "before\nafter\n" || r.Attempts != 1 {
				t.Errorf("the task says %q in attempt %d, %v", r.Stdout, r.Attempts, err)
			}
			r, err = call.Wait()
			if err != nil {
				t.Fatal(err)
			}
			if v, err := count.Value(r); err != nil || len(v) != 100_000 || r.Attempts != 1 {
				t.Errorf("the call returned %d bytes in attempt %d, %v", len(v), r.Attempts, err)
			}
			if task, call := lines(dir+"/task"), lines(dir+"/call"); task != 1 || call != 1 {
				t.Errorf("the task ran %d times, the call %d", task, call)
			}
			if r, err := pool.Run(gputrain.Script("echo on")); err != nil || !bytes.Equal(r.Stdout, []byte("on\n")) {
				t.Errorf("afterwards: %q, %v", r.Stdout, err)
			}
		})
	}
}

func sum(t testing.TB, file string) (digest [sha256.Size]byte) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	h.Sum(digest[:0])
	return digest
}
