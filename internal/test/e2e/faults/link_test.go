//go:build unix

package faults

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
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// A tally is the argument of count. Each run of count adds a line to File.
type tally struct {
	File string // the file that counts the runs
	Go   string // a file whose existence ends the call; "" means at once
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
	for in.Go != "" && !e2etest.Exists(in.Go) && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	return strings.Repeat("x", in.N), ctx.Err()
})

func TestEveryByteComesOnceOverALinkThatIsCut(t *testing.T) {
	h := e2etest.NewHost(t)
	pool := e2etest.OpenHosts(t, gputrain.Spec{}, nil, h)
	dir := t.TempDir()
	data := make([]byte, 32<<20)
	rand.Read(data)
	e2etest.Write(t, filepath.Join(dir, "data"), data)
	dials := h.Link.Dials()
	h.Link.CutAfter(3<<20, 1<<20, 2<<20, 3<<20, 4<<20, 5<<20, 6<<20, 7<<20) // the cuts hit about half of the data
	r, err := pool.Run(gputrain.Script("cd '" + dir + "'; echo x >> runs; cat data; cat data >&2"))
	if err != nil {
		t.Fatal(err)
	}
	if n := h.Link.Dials() - dials; n < 8 {
		t.Errorf("%d connections after cuts", n)
	}
	for name, file := range map[string]string{"stdout": r.StdoutFile, "stderr": r.StderrFile} {
		if got := sum(t, file); got != sha256.Sum256(data) {
			t.Errorf("%s in %q differs from what the task wrote", name, file)
		}
	}
	if r.StdoutBytes != int64(len(data)) || r.StderrBytes != int64(len(data)) || r.Attempts != 1 {
		t.Errorf("%d and %d bytes of %d, in %d attempts", r.StdoutBytes, r.StderrBytes, len(data), r.Attempts)
	}
	if n := e2etest.Lines(filepath.Join(dir, "runs")); n != 1 {
		t.Errorf("the task ran %d times", n)
	}
}

// cutOften cuts the link at every tenth start of a task.
func cutOften(h *e2etest.OwnHost, cuts *atomic.Int64) gputrain.Option {
	n := 0
	return gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind != gputrain.EventTask || e.State != "started" {
			return
		}
		if n++; n%10 == 0 {
			cuts.Add(1)
			h.Link.Cut()
		}
	})
}

func TestShortTasksRunOnceOverALinkThatIsCut(t *testing.T) {
	h := e2etest.NewHost(t)
	var cuts atomic.Int64
	pool := e2etest.OpenHosts(t, gputrain.Spec{Concurrency: 5}, []gputrain.Option{cutOften(h, &cuts)}, h)
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
		if n := e2etest.Lines(filepath.Join(dir, fmt.Sprint(i))); n != 1 || r.Attempts != 1 {
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
	h := e2etest.NewHost(t)
	var cuts atomic.Int64
	pool := e2etest.OpenHosts(t, gputrain.Spec{Concurrency: 5}, []gputrain.Option{cutOften(h, &cuts)}, h)
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
		if n := e2etest.Lines(calls[i].File); n != 1 || len(r) != calls[i].N {
			t.Errorf("call %d ran %d times and returned %d bytes of %d", i, n, len(r), calls[i].N)
		}
	}
	if cuts.Load() < 3 {
		t.Errorf("%d cuts", cuts.Load())
	}
}

// TestFilesArriveOverALinkThatIsCut cuts the link during an upload and a download. A transfer may fail because of that.
// A retry succeeds and transfers the whole file.
func TestFilesArriveOverALinkThatIsCut(t *testing.T) {
	h := e2etest.NewHost(t)
	pool := e2etest.OpenHosts(t, gputrain.Spec{}, nil, h)
	data := make([]byte, 8<<20)
	rand.Read(data)
	up, down := filepath.Join(t.TempDir(), "data"), t.TempDir()
	e2etest.Write(t, up, data)
	again := func(what string, do func() error) {
		t.Helper()
		h.Link.CutAfter(4 << 20)
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
		t.Error("the bytes that came back differ")
	}
}

// faultsUnderATaskAndACall runs a task and a call while their host has a fault: both continue, and their output and
// results arrive.
func faultsUnderATaskAndACall(t *testing.T) {
	const while = 3 * time.Second // the duration of a fault whose end cannot be observed
	for name, c := range map[string]struct {
		start, mend func(t *testing.T, h *e2etest.OwnHost)
	}{
		"link cut": {func(t *testing.T, h *e2etest.OwnHost) { h.Link.Cut() }, nil},
		"link down": {
			func(t *testing.T, h *e2etest.OwnHost) { h.Link.Refuse(true); h.Link.Cut() },
			func(t *testing.T, h *e2etest.OwnHost) {
				dials := h.Link.Dials()
				e2etest.Until(t, "vain dials", func() bool { return h.Link.Dials() > dials+2 })
				h.Link.Refuse(false)
			},
		},
		"sshd restarted":           {func(t *testing.T, h *e2etest.OwnHost) { h.Server.Restart() }, func(t *testing.T, h *e2etest.OwnHost) { h.Link.Cut() }},
		"sshd killed with its own": {func(t *testing.T, h *e2etest.OwnHost) { h.Server.Kill() }, func(t *testing.T, h *e2etest.OwnHost) { h.Server.Resume() }},
		"black hole": {
			func(t *testing.T, h *e2etest.OwnHost) { h.Link.Blackhole(true) },
			func(t *testing.T, h *e2etest.OwnHost) { time.Sleep(while); h.Link.Blackhole(false) },
		},
		"black hole, then cut": {
			func(t *testing.T, h *e2etest.OwnHost) { h.Link.Blackhole(true); h.Link.Cut() },
			func(t *testing.T, h *e2etest.OwnHost) { time.Sleep(while); h.Link.Blackhole(false) },
		},
		"host stopped": {
			func(t *testing.T, h *e2etest.OwnHost) { h.Stop(t) },
			func(t *testing.T, h *e2etest.OwnHost) { time.Sleep(while); h.Resume() },
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			h := e2etest.NewHost(t)
			pool := e2etest.OpenHosts(t, gputrain.Spec{Concurrency: 2}, nil, h)
			dir := t.TempDir()
			task := gputrain.Script(`echo x >> "$D/task"; echo before; until [ -e "$D/go" ]; do sleep 0.05; done; echo after`)
			task.Env = map[string]string{"D": dir}
			job := pool.Start(task)
			call := pool.Start(count.Call(tally{File: dir + "/call", Go: dir + "/go", N: 100_000}))
			e2etest.Until(t, "both running", func() bool { return e2etest.Exists(dir+"/task") && e2etest.Exists(dir+"/call") })
			c.start(t, h)
			e2etest.Write(t, dir+"/go", nil)
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
			if task, call := e2etest.Lines(dir+"/task"), e2etest.Lines(dir+"/call"); task != 1 || call != 1 {
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
