package gputrain_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/faketools"
	"github.com/gputrain/gputrain/providers/local"
)

// A usageLog keeps the events about the use of accelerators.
type usageLog struct {
	mu  sync.Mutex
	all []gputrain.Event
}

func (l *usageLog) add(ev gputrain.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ev.Kind == gputrain.EventUsage {
		l.all = append(l.all, ev)
	}
}

// last returns the last event of a state, if there is one, and how many there are.
func (l *usageLog) last(state string) (last gputrain.Event, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ev := range l.all {
		if ev.State == state {
			last, n = ev, n+1
		}
	}
	return last, n
}

// openSampled opens a pool of one local node with the tools' devices.
func openSampled(t *testing.T, f *faketools.Tools, spec gputrain.Spec) (*gputrain.Compute, *usageLog) {
	t.Helper()
	e2etest.OnPath(t, f.Dir)
	log := &usageLog{}
	pool, err := gputrain.Open(t.Context(), local.Config{Dir: t.TempDir()}, spec, gputrain.WithEvents(log.add), gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return pool, log
}

// A node's devices are sampled while it is ready, and nothing of that is left after Close.
func TestSamplesOfAccelerators(t *testing.T) {
	f := faketools.New(t, 2)
	f.Set(0, map[string]string{"utilization.gpu": "97", "memory.used": "40960", "power.draw": "[N/A]", "ecc.errors.uncorrected.volatile.total": "[N/A]"})
	pool, log := openSampled(t, f, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2))})
	e2etest.Until(t, "a sample", func() bool { _, n := log.last("sample"); return n > 0 })
	ev, _ := log.last("sample")
	if len(ev.Usage.Accelerators) != 2 || !ev.Usage.KernelLog || ev.Node != 0 {
		t.Fatalf("%+v", ev)
	}
	s := ev.Usage.Accelerators[0]
	if s.Device != "0000:01:00.0" || s.Utilization != 97 || s.MemoryGiB != 40 || s.MemoryTotalGiB != 80 || s.Celsius != 33 || s.ClockMHz != 210 || !math.IsNaN(s.Watts) || s.Uncorrected != -1 {
		t.Errorf("%+v", s)
	}
	if text, err := json.Marshal(s); err != nil || !strings.Contains(string(text), `"watts":null`) || !strings.Contains(string(text), `"utilization":97`) {
		t.Errorf("%s, %v", text, err)
	}
	f.Set(0, map[string]string{"utilization.gpu": "3"})
	e2etest.Until(t, "a later sample", func() bool { ev, _ := log.last("sample"); return ev.Usage.Accelerators[0].Utilization == 3 })
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	e2etest.Until(t, "nothing is left", func() bool { return len(f.Running()) == 0 })
}

// A pool on a computer without accelerators samples nothing.
func TestNothingIsSampledWithoutAccelerators(t *testing.T) {
	f := faketools.New(t, 0)
	pool, _ := openSampled(t, f, gputrain.Spec{})
	if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
		t.Error(err)
	}
	for _, command := range f.Running() {
		if strings.Contains(command, "gputrain-usage") {
			t.Errorf("it runs %s", command)
		}
	}
}

// Faults that the kernel's log and the samples show are events, and the cause of a task's failure.
func TestFaultsOfAccelerators(t *testing.T) {
	f := faketools.New(t, 2)
	pool, log := openSampled(t, f, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2)), MaxReplacements: -1})
	fault := func(what, text string) {
		t.Helper()
		e2etest.Until(t, what, func() bool {
			ev, _ := log.last("fault")
			return ev.Err != nil && errors.Is(ev.Err, gputrain.ErrAccelerator) && strings.Contains(ev.Err.Error(), text) && strings.Contains(ev.Err.Error(), "node 0")
		})
	}
	e2etest.Until(t, "a sample", func() bool { _, n := log.last("sample"); return n > 0 })
	if _, err := pool.Run(gputrain.Script("exit 3")); errors.Is(err, gputrain.ErrAccelerator) {
		t.Errorf("before any fault: %v", err)
	}
	f.Kernel("NVRM: Xid (PCI:0000:01:00): 31, pid=1, name=python3, Ch 00000008, MMU Fault")
	fault("a note", "0000:01:00.0: Xid 31")
	if _, err := pool.Run(gputrain.Script("exit 3")); errors.Is(err, gputrain.ErrAccelerator) {
		t.Errorf("after a note: %v", err)
	}
	f.Set(1, map[string]string{"ecc.errors.uncorrected.volatile.total": "2"})
	fault("memory errors", "0000:02:00.0: 2 memory errors that could not be corrected, after 0")
	_, err := pool.Run(gputrain.Script("exit 3"))
	var failed *gputrain.TaskError
	if !errors.As(err, &failed) || failed.Cause != gputrain.CauseAccelerator || failed.ExitCode != 3 || !strings.Contains(err.Error(), "0000:02:00.0") || !strings.Contains(err.Error(), "exit code 3") {
		t.Errorf("%v", err)
	}
	f.Vanish(0)
	fault("a device that vanishes", "0000:01:00.0: the device has vanished: 1 of 2 are left")
	if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
		t.Errorf("without replacements the node goes on: %v", err)
	}
}

// A node that has lost a device finishes what it runs, and gets no more: another one takes its place.
func TestANodeThatLostADeviceIsReplaced(t *testing.T) {
	f := faketools.New(t, 2)
	pool, log := openSampled(t, f, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2))})
	first := pool.Nodes()[0].ID
	e2etest.Until(t, "a sample", func() bool { _, n := log.last("sample"); return n > 0 })
	dir := t.TempDir()
	job := pool.Start(gputrain.Script(": >'" + dir + "/began'; until [ -e '" + dir + "/go' ]; do sleep 0.05; done"))
	e2etest.Until(t, "it runs", func() bool { return e2etest.Exists(dir + "/began") })
	f.Kernel("NVRM: Xid (PCI:0000:02:00): 79, pid=1, GPU has fallen off the bus.")
	e2etest.Until(t, "a fault", func() bool { _, n := log.last("fault"); return n > 0 })
	later := pool.Start(gputrain.Cmd("true"))
	e2etest.WriteText(t, dir+"/go", "")
	if next, err := later.Wait(); err != nil || next.Node.ID == first {
		t.Errorf("the next task ran on %s, and the node that failed is %s: %v", next.Node.ID, first, err)
	}
	if r, err := job.Wait(); err != nil || r.Node.ID != first || r.Attempts != 1 {
		t.Errorf("what ran was ended: %v", err)
	}
}

// A pool whose devices do nothing ends, although a task runs, and nothing is left. In virtual time a busy device keeps a pool.
func TestIdleAccelerators(t *testing.T) {
	f := faketools.New(t, 2)
	pool, log := openSampled(t, f, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2)), IdleTimeout: 2 * time.Second})
	if _, err := pool.Run(gputrain.Cmd("sleep", "600")); !errors.Is(err, gputrain.ErrIdle) {
		t.Errorf("%v", err)
	}
	if ev, n := log.last("idle"); n == 0 || ev.Node != -1 || ev.Elapsed < time.Second || ev.Until.IsZero() {
		t.Errorf("%d events, %+v", n, ev)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	e2etest.Until(t, "nothing is left", func() bool { return len(f.Running()) == 0 })
}
