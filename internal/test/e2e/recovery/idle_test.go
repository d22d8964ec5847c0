package recovery

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// A pool of a fixed size ends after IdleTimeout without a task, with an event after half of that.
func TestAPoolThatDoesNothingEnds(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2, IdleTimeout: 30 * time.Minute})
		time.Sleep(20 * time.Minute)
		if n := c.CountEvents(gputrain.EventUsage, "idle"); n != 1 {
			t.Errorf("%d events after more than half of the time", n)
		}
		if _, err := p.Run(gputrain.Cmd("sleep", "2h")); err != nil { // without telemetry a task is work
			t.Error(err)
		}
		if n := c.CountEvents(gputrain.EventUsage, "idle"); n != 1 {
			t.Errorf("%d events after a task", n)
		}
		time.Sleep(29 * time.Minute)
		if n := c.CountMachines(); n != 2 {
			t.Errorf("%d machines before it is over", n)
		}
		time.Sleep(2 * time.Minute)
		if n := c.CountMachines(); n != 0 {
			t.Errorf("%d machines are left", n)
		}
		if _, err := p.Run(gputrain.Cmd("echo")); !errors.Is(err, gputrain.ErrIdle) || !strings.Contains(err.Error(), "Spec.IdleTimeout") {
			t.Errorf("%v", err)
		}
		if n := c.CountEvents(gputrain.EventUsage, "idle"); n != 2 {
			t.Errorf("%d events", n)
		}
		c.CloseAndCheck(t, p)
	})
}

// Without IdleTimeout it goes on.
func TestAPoolWithoutIdleTimeoutGoesOn(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{})
		time.Sleep(24 * time.Hour)
		if n := c.CountMachines(); n != 1 {
			t.Errorf("%d machines", n)
		}
		c.CloseAndCheck(t, p)
	})
}

// Tasks whose accelerators do nothing do not keep a pool, and a busy accelerator keeps one without a task.
func TestAPoolWhoseAcceleratorsDoNothingEnds(t *testing.T) {
	var load atomic.Int64
	load.Store(90)
	options := sim.Options{Load: func(_ string, device int) float64 {
		if device == 3 {
			return float64(load.Load())
		}
		return 3
	}}
	e2etest.InCloud(t, options, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8)), Nodes: 2, IdleTimeout: 30 * time.Minute})
		time.Sleep(2 * time.Hour)
		if n := c.CountMachines(); n != 2 {
			t.Errorf("%d machines while a device is busy", n)
		}
		job := p.Start(gputrain.Cmd("sleep", "24h"))
		time.Sleep(2 * time.Hour)
		load.Store(5)
		begun := time.Now()
		_, err := job.Wait()
		if took := time.Since(begun); !errors.Is(err, gputrain.ErrIdle) || took < 29*time.Minute || took > 31*time.Minute {
			t.Errorf("after %v: %v", took, err)
		}
		if n := c.CountEvents(gputrain.EventUsage, "idle"); n != 1 {
			t.Errorf("%d events", n)
		}
		c.CloseAndCheck(t, p)
	})
}

// A task that begins is work, and so is one on nodes that cannot be sampled.
func TestWorkThatIsNotSampled(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Load: func(string, int) float64 { return 0 }}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8)), IdleTimeout: time.Hour, Lease: 24 * time.Hour})
		time.Sleep(50 * time.Minute)
		job := p.Start(gputrain.Cmd("sleep", "5h"))
		time.Sleep(50 * time.Minute)
		if n := c.CountMachines(); n != 1 {
			t.Errorf("%d machines: a task has begun", n)
		}
		begun := time.Now()
		if _, err := job.Wait(); !errors.Is(err, gputrain.ErrIdle) || time.Since(begun) > 15*time.Minute {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		c.CloseAndCheck(t, p)
	})
}

// A fault of a device is an event that names it, and the cause of a task that fails after it. A node that has lost a device
// gets no more tasks, and is replaced when it has none.
func TestAnAcceleratorFails(t *testing.T) {
	exec := func(ctx context.Context, cmd sim.Command) int {
		if cmd.Args[0] == "fail" {
			time.Sleep(10 * time.Minute)
			return 3
		}
		return e2etest.Words(ctx, cmd)
	}
	e2etest.InCloud(t, sim.Options{Exec: exec}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8)), Nodes: 1})
		machine := e2etest.Alive(t, p)[0]
		job := p.Start(gputrain.Cmd("fail"))
		other := gputrain.Cmd("sleep", "1m")
		later := p.Start(other)
		time.Sleep(9*time.Minute + 30*time.Second)
		if err := sim.Xid(c.Cloud, machine, 2, "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."); err != nil {
			t.Fatal(err)
		}
		_, err := job.Wait()
		var failed *gputrain.TaskError
		if !errors.As(err, &failed) || failed.Cause != gputrain.CauseAccelerator || failed.ExitCode != 3 || !errors.Is(err, gputrain.ErrAccelerator) || !strings.Contains(err.Error(), "0000:03:00.0: Xid 79: the GPU has fallen off the bus") {
			t.Errorf("%v", err)
		}
		r, err := later.Wait()
		if err != nil || r.Node.ID == machine {
			t.Errorf("the next task ran on %s, after %s had lost a device: %v", r.Node.ID, machine, err)
		}
		var faults []gputrain.Event
		for _, e := range c.Events() {
			if e.Kind == gputrain.EventUsage && e.State == "fault" {
				faults = append(faults, e)
			}
		}
		if len(faults) != 1 || !errors.Is(faults[0].Err, gputrain.ErrAccelerator) || faults[0].Node != 0 || !strings.Contains(faults[0].Err.Error(), "node 0") {
			t.Errorf("%v", faults)
		}
		if n := c.CountEvents(gputrain.EventUsage, "sample"); n < 30 {
			t.Errorf("%d samples", n)
		}
		c.CloseAndCheck(t, p)
	})
}

// A device that cannot work as fast as the others is an event, and goes on.
func TestASlowDevice(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Clock: func(_ string, device int) float64 { return []float64{1755, 900}[device/7] }}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8)), Nodes: 1})
		if _, err := p.Run(gputrain.Cmd("sleep", "10m")); err != nil {
			t.Error(err)
		}
		if n := c.CountEvents(gputrain.EventUsage, "lagging"); n != 1 {
			t.Errorf("%d events", n)
		}
		c.CloseAndCheck(t, p)
	})
}
