package gangplans

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// gpus is an offer of machines with two devices.
var gpus = []gputrain.Offer{{
	ID: "gpus", InstanceType: "h100x2", VCPUs: 8, MemoryGiB: 64, DiskGiB: 100, HourlyUSD: driver.USD(4),
	Accelerator: accelerators.H100(accelerators.Count(2), accelerators.Memory(80)),
}}

// A world is a training that runs, and what a test can do to it.
type world struct {
	*testing.T
	*e2etest.SimCloud
	attempt atomic.Int64  // the last one that began
	load    atomic.Int64  // of the first device of the first machine, in percent; negative while it is that of its tasks
	slow    atomic.Bool   // the second process is
	fails   atomic.Int64  // the process that fails, or 0
	held    chan struct{} // closed when the processes may end
}

// until waits, in virtual time, for an attempt to run.
func (w *world) until(attempt int64) {
	w.Helper()
	e2etest.WithinVirtualTime(w.T, fmt.Sprint("attempt ", attempt), func() bool { return w.attempt.Load() >= attempt })
	time.Sleep(15 * time.Second) // its accelerators are followed
}

// exec runs processes that report a step every five seconds, until held is closed.
func (w *world) exec(ctx context.Context, cmd sim.Command) int {
	attempt, _ := strconv.ParseInt(cmd.Getenv("GPUTRAIN_ATTEMPT"), 10, 64)
	w.attempt.Store(attempt)
	rank := cmd.Getenv("RANK")
	for n := int64(1); ; n++ {
		fmt.Fprintf(cmd.Stdout, "gputrain: step=%d\n", 1000*attempt+n)
		pause := 5 * time.Second
		if rank == "1" && w.slow.Load() {
			pause *= 2
		}
		select {
		case <-w.held:
			return 0
		case <-ctx.Done():
			return -15
		case <-time.After(pause):
		}
		switch fails := w.fails.Load(); {
		case fails == 0:
		case rank == strconv.FormatInt(fails, 10):
			fmt.Fprintln(cmd.Stderr, "ValueError: broken")
			return 7
		default:
			time.Sleep(time.Second)
			fmt.Fprintln(cmd.Stderr, "RuntimeError: Connection closed by peer")
			return 1
		}
	}
}

// on runs a training on two nodes with accelerators. happens is called in a goroutine of its own meanwhile.
func on(t *testing.T, spec gputrain.Spec, training gputrain.Training, happens func(w *world), look func(w *world, r gputrain.TrainResult, err error)) {
	t.Helper()
	w := &world{}
	w.load.Store(-1)
	load := func(id string, device int) float64 {
		if load := w.load.Load(); id == "i-1" && device == 0 && load >= 0 {
			return float64(load)
		}
		if len(sim.Running(w.Cloud, id)) > 0 {
			return 100
		}
		return 0
	}
	e2etest.InCloud(t, sim.Options{Exec: w.exec, Load: load, Offers: gpus, BootTime: time.Minute}, func(t *testing.T, c *e2etest.SimCloud) {
		w.T, w.SimCloud, w.held = t, c, make(chan struct{})
		spec.Nodes = max(spec.Nodes, 2)
		spec.Accelerator = accelerators.H100(accelerators.Count(2))
		p := c.Pool(t, spec)
		training.Task, training.Nodes, training.ProcessesPerNode = gputrain.Cmd("train"), 2, 1
		var all sync.WaitGroup
		all.Go(func() { happens(w) })
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Hour)
		defer cancel()
		r, err := p.WithContext(ctx).Train(training)
		all.Wait()
		look(w, r, err)
		c.CloseAndCheck(t, p)
	})
}

// ids returns the machines of each attempt: "i-1 i-2, i-1 i-3".
func ids(r gputrain.TrainResult) string {
	var attempts []string
	for _, e := range r.Attempts {
		var nodes []string
		for _, n := range e.Nodes {
			nodes = append(nodes, n.ID)
		}
		attempts = append(attempts, strings.Join(nodes, " "))
	}
	return strings.Join(attempts, ", ")
}

// What becomes of an attempt and its nodes after an accelerator's fault is a matter of its severity. None of them counts as a
// restart.
func TestXids(t *testing.T) {
	const shreds = "94, Contained memory error"
	for _, tt := range []struct {
		name  string
		xids  []string // each in an attempt of its own, on the second machine
		nodes string   // of the attempts
	}{
		{"a program's", []string{"13, Graphics Exception"}, "i-1 i-2"},
		{"contained", []string{shreds}, "i-1 i-2, i-1 i-2"},
		{"contained, twice", []string{shreds, shreds}, "i-1 i-2, i-1 i-2, i-1 i-3"},
		{"off the bus", []string{"79, GPU has fallen off the bus."}, "i-1 i-2, i-1 i-3"},
		{"uncorrectable", []string{"48, DBE"}, "i-1 i-2, i-1 i-3"},
		{"a reset is due", []string{"63, Row Remapper", "94, Contained memory error"}, "i-1 i-2, i-1 i-3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			on(t, gputrain.Spec{}, gputrain.Training{}, func(w *world) {
				defer func() { close(w.held) }()
				attempt := int64(1)
				for i, xid := range tt.xids {
					w.until(attempt)
					if err := sim.Xid(w.Cloud, "i-2", 0, xid); err != nil {
						w.Error(err)
					}
					if i+1 < len(tt.xids) || strings.Contains(tt.nodes, ",") {
						if !strings.HasPrefix(xid, "63") {
							attempt++
						}
					}
					time.Sleep(time.Minute)
				}
				w.until(attempt)
				time.Sleep(10 * time.Minute)
			}, func(w *world, r gputrain.TrainResult, err error) {
				if err != nil || ids(r) != tt.nodes {
					w.Errorf("%v; attempts on %q, want %q", err, ids(r), tt.nodes)
				}
				for _, e := range r.Attempts[:len(r.Attempts)-1] {
					var failed *gputrain.TrainError
					if !errors.As(e.Err, &failed) || failed.Failures[0].Cause != gputrain.CauseAccelerator || failed.Failures[0].Node.ID != "i-2" || !errors.Is(e.Err, gputrain.ErrAccelerator) || failed.Failures[0].Step == 0 {
						w.Errorf("attempt %d: %+v", e.Number, e.Err)
					}
				}
			})
		})
	}
}

// An accelerator that does nothing for IdleTimeout ends the attempt, also while its process reports steps.
func TestIdleAccelerator(t *testing.T) {
	on(t, gputrain.Spec{}, gputrain.Training{IdleTimeout: 10 * time.Minute}, func(w *world) {
		w.until(1)
		time.Sleep(5 * time.Minute)
		w.load.Store(0)
	}, func(w *world, r gputrain.TrainResult, err error) {
		f := failure(w, err)
		if !errors.Is(err, gputrain.ErrIdle) || f.Cause != gputrain.CauseIdle || f.Node.ID != "i-1" || f.Step == 0 || len(r.Attempts) != 1 {
			w.Errorf("%d attempts, %+v", len(r.Attempts), f)
		}
		if ran := r.Attempts[0].To.Sub(r.Attempts[0].From); ran < 15*time.Minute || ran > 17*time.Minute {
			w.Errorf("it ran for %v", ran)
		}
	})
}

// A node whose accelerators keep memory after the end of an attempt is replaced.
func TestMemoryThatIsNotFree(t *testing.T) {
	on(t, gputrain.Spec{}, gputrain.Training{}, func(w *world) {
		defer close(w.held)
		w.until(1)
		w.load.Store(50) // a process that nothing ends has half of the memory
		if err := sim.Xid(w.Cloud, "i-2", 0, "94, Contained memory error"); err != nil {
			w.Error(err)
		}
		w.until(2)
	}, func(w *world, r gputrain.TrainResult, err error) {
		if want := "i-1 i-2, i-3 i-2"; err != nil || ids(r) != want {
			w.Errorf("%v; attempts on %q, want %q", err, ids(r), want)
		}
	})
}

// A spare takes the rank of a node that is lost at once. The others keep theirs.
func TestSpare(t *testing.T) {
	on(t, gputrain.Spec{Nodes: 3}, gputrain.Training{}, func(w *world) {
		defer close(w.held)
		w.until(1)
		w.Vanish("i-1")
		w.until(2)
	}, func(w *world, r gputrain.TrainResult, err error) {
		if want := "i-1 i-2, i-3 i-2"; err != nil || ids(r) != want {
			w.Fatalf("%v; attempts on %q, want %q", err, ids(r), want)
		}
		if f := failure(w, r.Attempts[0].Err); f.Cause != gputrain.CauseNodeLost || f.Node.ID != "i-1" || !errors.Is(r.Attempts[0].Err, gputrain.ErrNodeLost) {
			w.Errorf("%+v", f)
		}
		if pause := r.Attempts[1].From.Sub(r.Attempts[0].To); pause > 10*time.Second {
			w.Errorf("%v passed between the attempts, and a machine boots in a minute", pause)
		}
	})
}

// A training whose lost node cannot be replaced ends with the pool's error, and with what was lost.
func TestNoRoomForAReplacement(t *testing.T) {
	on(t, gputrain.Spec{}, gputrain.Training{}, func(w *world) {
		w.until(1)
		w.SetOffers()
		w.Vanish("i-2")
	}, func(w *world, r gputrain.TrainResult, err error) {
		var failed *gputrain.TrainError
		if !errors.As(err, &failed) || failed.Attempt != 1 || failed.Err == nil || !errors.Is(err, gputrain.ErrNoOffers) || failed.Failures[0].Cause != gputrain.CauseNodeLost || len(r.Attempts) != 1 {
			w.Errorf("%d attempts, %v", len(r.Attempts), err)
		}
	})
}

// A process that is behind the others for a minute is an event, once, and nothing ends.
func TestLaggingRank(t *testing.T) {
	on(t, gputrain.Spec{}, gputrain.Training{}, func(w *world) {
		defer close(w.held)
		w.until(1)
		w.slow.Store(true)
		time.Sleep(10 * time.Minute)
	}, func(w *world, r gputrain.TrainResult, err error) {
		if err != nil || len(r.Attempts) != 1 {
			w.Errorf("%d attempts, %v", len(r.Attempts), err)
		}
		lags := 0
		for _, e := range w.Events() {
			if e.Kind == gputrain.EventUsage && e.State == "lagging" {
				lags++
				if e.Node != 1 || e.Attempt != 1 || e.Name != "training" || !strings.Contains(e.Err.Error(), "rank 1 of training") {
					w.Errorf("%+v", e)
				}
			}
		}
		if lags != 1 {
			w.Errorf("%d events, want one", lags)
		}
	})
}

// The error of a training says which process failed first, where, how, and after which step; the others followed.
func TestErrorOfATraining(t *testing.T) {
	on(t, gputrain.Spec{}, gputrain.Training{Restarts: 1}, func(w *world) {
		w.until(1)
		w.fails.Store(1)
		w.until(2)
	}, func(w *world, r gputrain.TrainResult, err error) {
		var failed *gputrain.TrainError
		if !errors.As(err, &failed) || failed.Attempt != 2 || failed.Err != nil || len(failed.Failures) != 2 || len(r.Attempts) != 2 {
			w.Fatalf("%d attempts, %+v", len(r.Attempts), err)
		}
		root, peer := failed.Failures[0], failed.Failures[1]
		if root.Cause != gputrain.CauseExit || root.ExitCode != 7 || root.Rank != 1 || root.Index != 1 || root.Name != "training/1" || root.Attempt != 2 ||
			root.Step < 2000 || root.Node.ID != "i-2" || !strings.Contains(root.Tail, "ValueError: broken") {
			w.Errorf("the root: %+v", root)
		}
		if peer.Cause != gputrain.CausePeer || peer.Rank != 0 || peer.ExitCode != 1 || peer.Node.ID != "i-1" || !strings.Contains(peer.Error(), "rank 1") {
			w.Errorf("the other: %+v", peer)
		}
		for i, one := range r.Ranks {
			if f, _ := errors.AsType[*gputrain.TaskError](one.Err); f == nil || one.Index != i || one.Attempts != 2 || f.Cause != failed.Failures[1-i].Cause || one.ExitCode != f.ExitCode {
				w.Errorf("rank %d: %+v", i, one)
			}
		}
		if te, ok := errors.AsType[*gputrain.TaskError](err); !ok || te != root {
			w.Errorf("errors.As finds %+v", te)
		}
	})
}

// failure returns the root cause of an error.
func failure(w *world, err error) *gputrain.TaskError {
	w.Helper()
	var failed *gputrain.TrainError
	if !errors.As(err, &failed) || len(failed.Failures) == 0 {
		w.Fatalf("%T, %v", err, err)
	}
	return failed.Failures[0]
}
