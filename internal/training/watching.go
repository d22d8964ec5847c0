package training

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/preflight"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/internal/rootcause"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/telemetry"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// The memory of an accelerator is free if less than freeMiB is in use, and is waited for memoryPatience.
	freeMiB        = 512
	memoryPatience = 50 * time.Second
)

// devices collect the samples and faults of the nodes' accelerators, and of their networks.
type devices struct {
	mu         sync.Mutex
	faults     map[Node][]rootcause.Fault
	due        map[Node]error  // to be replaced before the next attempt, and why
	interfaces map[Node]string // by which others reach them, of nodes that have several
}

// watch has an attempt follow the accelerators of its nodes, until ctx ends.
func (d *devices) watch(ctx context.Context, e *gang.Attempt, track *gang.Track) {
	for i, n := range e.Nodes {
		stop := n.(Node).Telemetry().Observe(func(r telemetry.Report) {
			if r.Fault != nil {
				d.faulty(track, n.(Node), i, *r.Fault)
				return
			}
			for _, s := range r.Samples {
				track.Sample(i, s.Device(), s.Utilization, s.MemoryMiB/1024)
			}
		})
		context.AfterFunc(ctx, stop)
	}
}

// faulty takes a fault of a node's accelerators.
func (d *devices) faulty(track *gang.Track, n Node, node int, f telemetry.Fault) {
	now := time.Now()
	d.mu.Lock()
	if d.faults == nil {
		d.faults, d.due = map[Node][]rootcause.Fault{}, map[Node]error{}
	}
	kept := d.faults[n]
	d.faults[n] = append(kept[max(0, len(kept)-keptFaults):], rootcause.Fault{At: now, Xid: f.Xid, Ends: f.Severity >= telemetry.Restart, Text: f.Error()})
	if f.Severity == telemetry.Due {
		d.due[n] = f
	}
	d.mu.Unlock()
	if f.Severity < telemetry.Restart {
		return
	}
	track.Fault(gang.Failure{
		Kind: gang.Accelerator, Node: node, Share: -1, Rank: -1, Broken: f.Severity >= telemetry.Replace,
		Err: &driver.Error{Op: fmt.Sprintf("node %d", n.Rank()), Kind: driver.ErrAccelerator, Err: f},
	})
}

// keptFaults bounds how many faults of a node are kept.
const keptFaults = 32

// dues returns the failures of an attempt's nodes that are to be replaced before the next one.
func (d *devices) dues(e *gang.Attempt) (failures []gang.Failure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, n := range e.Nodes {
		if n == nil {
			continue
		}
		if why := d.due[n.(Node)]; why != nil {
			failures = append(failures, gang.Failure{Kind: gang.Accelerator, Node: i, Share: -1, Rank: -1, Err: why})
		}
	}
	return failures
}

// faultsOf returns the faults of a node since a time.
func (d *devices) faultsOf(n Node, since time.Time) []rootcause.Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.faults[n]), func(f rootcause.Fault) bool { return f.At.Before(since) })
}

// interfaceOf returns the network interface by which the other nodes reach a node, if it has others.
func (d *devices) interfaceOf(n Node) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.interfaces[n]
}

// preflightTries bounds how often nodes are checked whose connections are cut meanwhile.
const preflightTries = 5

// preflight checks the nodes of an attempt, and learns their network interfaces. What is only worth knowing goes to noted.
func (d *devices) preflight(ctx context.Context, e *gang.Attempt, o preflight.Options, noted func(error)) (failures []gang.Failure) {
	var facts []preflight.Facts
	var problems []preflight.Problem
	cut := false // a connection, so that the problems prove nothing
	for range preflightTries {
		if !heard(ctx, e) {
			return gang.Lost(e)
		}
		facts, problems, cut = checked(ctx, e, o)
		if ctx.Err() != nil {
			return nil
		}
		if !cut || len(problems) == 0 {
			break
		}
	}
	d.mu.Lock()
	d.interfaces = map[Node]string{}
	for i, f := range facts {
		if f.Interfaces > 1 {
			d.interfaces[e.Nodes[i].(Node)] = f.Interface
		}
	}
	d.mu.Unlock()
	for _, p := range problems {
		switch {
		case p.Severity == preflight.Note:
			noted(p.Err)
		case e.Nodes[p.Node].Context().Err() == nil:
			failures = append(failures, gang.Failure{
				Kind: gang.NeverStarted, Node: p.Node, Share: -1, Rank: -1, At: time.Now(), Err: p.Err,
				Broken: p.Severity == preflight.Replace && !cut, Final: p.Severity == preflight.Refuse && !cut,
			})
		}
	}
	return failures
}

// checked checks the nodes of an attempt once. cut reports that the connection to one of them was cut meanwhile.
func checked(ctx context.Context, e *gang.Attempt, o preflight.Options) (facts []preflight.Facts, problems []preflight.Problem, cut bool) {
	var noticed atomic.Bool
	nodes := make([]preflight.Node, len(e.Nodes))
	for i, one := range e.Nodes {
		n := one.(Node)
		nodes[i] = preflight.Node{Rank: n.Rank(), Addr: n.Addr(), Network: n.Network(), Commands: noticing{n.Commands(), &noticed}}
		if commands, only := n.Sampler(); len(only) > 0 {
			nodes[i].Sample = func(ctx context.Context) ([]preflight.Device, error) { return sampled(ctx, commands) }
		}
	}
	facts, problems = preflight.Check(ctx, nodes, o)
	cut = noticed.Load()
	for _, n := range e.Nodes {
		cut = cut || !n.IsUp()
	}
	return facts, problems, cut
}

// sampled returns a sample of a node's accelerators.
func sampled(ctx context.Context, commands telemetry.Commands) ([]preflight.Device, error) {
	samples, err := telemetry.Once(ctx, commands)
	if err != nil {
		return nil, err
	}
	devices := make([]preflight.Device, len(samples))
	for i, s := range samples {
		devices[i] = preflight.Device{
			Name: s.Device(), UsedMiB: max(s.MemoryMiB, 0), Uncorrected: max(s.Uncorrected, 0), RemapPending: s.RemapPending, RemapFailed: s.RemapFailed,
		}
	}
	return devices, nil
}

// memoryFree waits until nothing holds the memory of a node's accelerators.
func memoryFree(ctx context.Context, n Node) error {
	commands, only := n.Sampler()
	if len(only) == 0 {
		return nil
	}
	for {
		err := telemetry.MemoryFree(ctx, commands, only, freeMiB, memoryPatience)
		if err == nil || ctx.Err() != nil || n.IsOver() || n.IsUp() && !errors.Is(err, ssh.ErrDisconnected) {
			return err
		}
		retry.Sleep(ctx, upPause)
	}
}
