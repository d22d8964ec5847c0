package gputrain

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/camel"
	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/telemetry"
)

// Usage describes what the accelerators of a node do: see [EventUsage].
type Usage struct {
	// Accelerators has a sample of each device of the node.
	Accelerators []AcceleratorSample
	// KernelLog reports whether the node's kernel log can be read, which has most faults of devices. If it cannot, as in most
	// containers, only faults that the samples show are found: without one, the devices are not known to be healthy.
	KernelLog bool
	// Host is a sample of the machine itself, in an event of its own that has nothing else. See [WithUsage].
	Host *HostSample
}

// A HostSample describes a node's machine, or its container, at one moment.
type HostSample struct {
	// CPU is the part of all processors' time since the last sample, in percent, in which they worked.
	CPU float64
	// MemoryGiB is the memory that programs cannot have, of MemoryTotalGiB.
	MemoryGiB, MemoryTotalGiB float64
	// DiskGiB is the space that is taken where tasks run, of DiskTotalGiB.
	DiskGiB, DiskTotalGiB float64
}

// An AcceleratorSample describes one device at one moment. A number that the device does not report is NaN.
type AcceleratorSample struct {
	// Device names the device, by its PCI address if that is known: "0000:3b:00.0".
	Device string
	// Utilization is the part of the last seconds, in percent, in which the device worked. One that waits for others can have 100.
	Utilization float64
	// MemoryGiB is the memory in use, of MemoryTotalGiB.
	MemoryGiB, MemoryTotalGiB float64
	// Celsius is its temperature, Watts its power, and ClockMHz the clock of its processors.
	Celsius, Watts, ClockMHz float64
	// Uncorrected counts the errors of its memory that could not be corrected, since the driver was loaded. -1 means that the
	// device does not report them.
	Uncorrected int64
	// Slowed is why the device holds its clock down, if something is wrong: "too hot", "power brake", "hardware slowdown".
	Slowed string
}

// MarshalJSON writes names in camel case, and null for numbers that the device does not report.
func (s AcceleratorSample) MarshalJSON() ([]byte, error) {
	told := func(v float64) *float64 {
		if math.IsNaN(v) {
			return nil
		}
		return &v
	}
	return camel.Marshal(struct {
		Device                                                           string
		Utilization, MemoryGiB, MemoryTotalGiB, Celsius, Watts, ClockMHz *float64
		Uncorrected                                                      int64
		Slowed                                                           string `json:"slowed,omitzero"`
	}{s.Device, told(s.Utilization), told(s.MemoryGiB), told(s.MemoryTotalGiB), told(s.Celsius), told(s.Watts), told(s.ClockMHz), s.Uncorrected, s.Slowed})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (s *AcceleratorSample) UnmarshalJSON(text []byte) error {
	type plain AcceleratorSample // without this method: null leaves a number as it is
	unknown := math.NaN()
	p := plain{Utilization: unknown, MemoryGiB: unknown, MemoryTotalGiB: unknown, Celsius: unknown, Watts: unknown, ClockMHz: unknown}
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	*s = AcceleratorSample(p)
	return nil
}

// A use records what a pool's nodes do beside tasks.
type use struct {
	lags      telemetry.Lags
	transfers atomic.Int64 // under way
}

// A task that fails within faultMemory after a fault of its node's accelerators has failed because of that.
const faultMemory = time.Minute

// watchUsage samples the node's accelerators until the node is given up, if the pool asks for some, or the node is offered
// with some.
func (n *poolNode) watchUsage() {
	if every := n.p.opts.usage; every > 0 {
		n.p.lives.Go(func() { telemetry.WatchHost(n.Node.Context(), n.Node.Commands(), n.Node.IsUp, every, n.hostUsed) })
	}
	commands, names := node.Sampled(n.Node)
	asked := !n.p.spec.Accelerator.IsZero() || len(n.p.spec.AnyOf) > 0
	if len(names) == 0 || !asked && n.Node.Instance().Offer.Accelerator.IsZero() {
		return
	}
	n.usage.Observe(n.used)
	n.p.lives.Go(func() {
		n.usage.Run(n.Node.Context(), telemetry.Node{Commands: commands, IsUp: n.Node.IsUp, Only: names})
	})
}

// used emits a report as an event. A node that has lost a device gets no more tasks, if another one can take its place.
func (n *poolNode) used(r telemetry.Report) {
	ev := n.event(EventUsage, "sample")
	if r.Fault != nil {
		ev.State, ev.Err = "fault", n.faulty(*r.Fault)
		if r.Fault.Gone {
			fleet.Break(n.Member, ev.Err)
		}
	} else {
		ev.Usage = Usage{Accelerators: acceleratorSamples(r.Samples), KernelLog: r.KernelLog}
	}
	n.p.events.emit(ev)
	if r.Fault == nil {
		reportLags(n.p)
	}
}

// hostUsed emits a sample of the node's machine.
func (n *poolNode) hostUsed(h telemetry.Host) {
	ev, sample := n.event(EventUsage, "sample"), HostSample(h)
	ev.Usage.Host = &sample
	n.p.events.emit(ev)
}

// reportLags emits an event for each device that has begun to be slower than the others that work.
func reportLags(p *pool) {
	nodes := map[int][]telemetry.Sample{}
	p.mu.Lock()
	for _, n := range p.readyNodes() {
		nodes[n.Rank()] = n.usage.Samples()
	}
	p.mu.Unlock()
	for _, lag := range p.use.lags.Look(time.Now(), nodes) {
		p.events.emit(Event{Kind: EventUsage, Node: lag.Node, State: "lagging", Err: &Error{
			Provider: p.account.Provider, Op: nodeLabel(lag.Node), Err: fmt.Errorf("%s slows down what runs on it and others: %s", lag.Device, lag.Text),
			Hint: "nothing is ended; the node may be better replaced",
		}})
	}
}

func acceleratorSamples(samples []telemetry.Sample) []AcceleratorSample {
	all := make([]AcceleratorSample, len(samples))
	for i, s := range samples {
		all[i] = AcceleratorSample{
			Device: s.Device(), Utilization: s.Utilization, MemoryGiB: s.MemoryMiB / 1024, MemoryTotalGiB: s.MemoryTotalMiB / 1024,
			Celsius: s.Celsius, Watts: s.Watts, ClockMHz: s.ClockMHz, Uncorrected: s.Uncorrected, Slowed: s.Slowed,
		}
	}
	return all
}

// faulty returns a fault of the node's accelerators as an error.
func (n *poolNode) faulty(f telemetry.Fault) *Error {
	hint := map[telemetry.Severity]string{
		telemetry.Note:    "nothing needs to be done, unless it comes again",
		telemetry.Due:     "what runs goes on; use another machine for the next long run",
		telemetry.Restart: "what ran on the device must start again",
		telemetry.Replace: "the device needs a reset, or its machine a restart, which gputrain does not do; use another machine",
	}[f.Severity]
	return &Error{Provider: n.Node.Provider(), Op: nodeLabel(n.Rank()), Kind: ErrAccelerator, Err: errors.New(n.p.secrets.Text(f.Error())), Hint: hint}
}

// blame makes a fault of the node's accelerators the cause of an attempt's failure, if the attempt ended by itself just after it.
func (n *poolNode) blame(e *TaskError, cause attempt.Cause) {
	switch cause {
	case attempt.Exit, attempt.Signal, attempt.Function, attempt.Panic, attempt.WorkerLost:
	default:
		return
	}
	f, ok := n.usage.Fault(time.Now().Add(-faultMemory), telemetry.Restart)
	if !ok {
		return
	}
	was := e.Cause.String()
	if e.Cause == CauseExit {
		was = fmt.Sprintf("exit code %d", e.ExitCode)
	}
	why := fmt.Errorf("%w (then: %s)", n.faulty(f), was)
	if e.Err != nil {
		why = fmt.Errorf("%w (then: %s: %w)", n.faulty(f), was, e.Err)
	}
	e.Cause, e.Err = CauseAccelerator, why
}

// watchIdle has a pool of a fixed size end once it has done nothing for Spec.IdleTimeout, if that is set.
func watchIdle(p *pool) {
	if p.spec.IdleTimeout > 0 && p.spec.MaxNodes == 0 {
		p.lives.Go(func() { awaitIdle(p) })
	}
}

// awaitIdle ends the pool once it has done nothing for Spec.IdleTimeout.
func awaitIdle(p *pool) {
	timeout := p.spec.IdleTimeout
	watch := telemetry.NewIdle(timeout, time.Now())
	tick := time.NewTicker(min(max(timeout/20, time.Second), 10*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		work := fleet.WorkOf(p.fleet)
		p.mu.Unlock()
		var nodes []telemetry.Activity
		for m, busy := range work.Busy {
			a := nodeOf(m).usage.Activity()
			a.Tasks = busy
			nodes = append(nodes, a)
		}
		idle, warn, over := watch.Look(time.Now(), work.Ended, work.Waits || p.use.transfers.Load() > 0, nodes)
		if warn {
			p.events.emit(Event{Kind: EventUsage, Node: -1, State: "idle", Elapsed: idle, Until: time.Now().Add(timeout - idle)})
		}
		if over {
			p.finish(&Error{
				Provider: p.account.Provider, Op: "pool", Kind: ErrIdle, Err: fmt.Errorf("its nodes have done nothing for %v", timeout),
				Hint: "Spec.IdleTimeout is how long they may",
			})
			return
		}
	}
}
