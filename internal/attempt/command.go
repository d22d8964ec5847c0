package attempt

import (
	"bytes"
	"context"
	"io"
	"maps"
	"strconv"
	"time"

	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
)

// A command that is ended has killGrace between TERM and KILL.
const killGrace = 10 * time.Second

// A Command is one attempt at a command or a script.
type Command struct {
	Attempt
	// NodeID names the attempt on its node.
	NodeID string
	// Args are the command and its arguments. Script is shell text instead.
	Args   []string
	Script string
	Env    map[string]string
	// Secrets are environment variables too. They are removed from all output.
	Secrets    map[string]driver.Secret //secretvet:ignore nothing formats a Command
	Stdin      []byte
	HoldsLease bool
	Place      Place
}

// A Place is where a command runs. The command finds it in its environment.
type Place struct {
	// Node is the machine's name, and NodeRank the node's rank in the pool.
	Node     string
	NodeRank int
	// Rank is the node's rank among the nodes of the call. Nodes is how many those are, and MasterAddr is the address of
	// the first of them.
	Rank, Nodes int
	MasterAddr  string
	// Slot is one of the node's slots. Devices are the variables that keep a program to the slot's accelerators, or nil.
	Slot    int
	Devices map[string]string
	// Index is the task's index in its call. Attempt counts the attempts at the task, from 1.
	Index, Attempt int
}

// Env returns the environment variables that describe the place, for a command, as ThisNode does for a function.
func (p *Place) Env() map[string]string {
	env := map[string]string{
		"GPUTRAIN_NODE":        p.Node,
		"GPUTRAIN_NODE_RANK":   strconv.Itoa(p.NodeRank),
		"GPUTRAIN_RANK":        strconv.Itoa(p.Rank),
		"GPUTRAIN_NODES":       strconv.Itoa(p.Nodes),
		"GPUTRAIN_MASTER_ADDR": p.MasterAddr,
		"GPUTRAIN_SLOT":        strconv.Itoa(p.Slot),
		"GPUTRAIN_TASK_INDEX":  strconv.Itoa(p.Index),
		"GPUTRAIN_ATTEMPT":     strconv.Itoa(p.Attempt),
	}
	maps.Copy(env, p.Devices)
	return env
}

// spec returns the process of the command. Its own variables replace those of its place.
func (c *Command) spec() supervisor.Spec {
	s := supervisor.Spec{
		ID: c.NodeID, Args: c.Args, Script: c.Script, Dir: c.Dir, Env: c.Place.Env(), Secrets: map[string]string{},
		Timeout: c.Timeout, Grace: killGrace, HoldsLease: c.HoldsLease, Scratch: true, Mark: len(c.Outputs) > 0,
	}
	maps.Copy(s.Env, c.Env)
	for name, value := range c.Secrets {
		s.Secrets[name] = string(value)
	}
	if len(c.Stdin) > 0 {
		s.Stdin = bytes.NewReader(c.Stdin)
	}
	return s
}

// A Supervisor runs processes on a node. A supervisor.Node does.
type Supervisor interface {
	Run(ctx context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error)
	Resume(ctx context.Context, spec supervisor.Spec, since time.Time, sinks supervisor.Sinks) (supervisor.Exit, error)
	Release(id string)
	// Scratch and Marker return the paths of an attempt's scratch directory and of the file that marks its start.
	Scratch(id string) string
	Marker(id string) string
}

// Run runs a command on a node until it has ended, or until ctx ends, which ends the command.
func (r *Runner) Run(ctx context.Context, n Node, s Supervisor, c *Command) Outcome {
	return r.follow(ctx, n, s, c, func(sinks supervisor.Sinks) (supervisor.Exit, error) {
		return s.Run(ctx, c.spec(), sinks)
	})
}

// Resume is like Run for a command that an earlier program has started, not before since.
func (r *Runner) Resume(ctx context.Context, n Node, s Supervisor, c *Command, since time.Time) Outcome {
	return r.follow(ctx, n, s, c, func(sinks supervisor.Sinks) (supervisor.Exit, error) {
		return s.Resume(ctx, supervisor.Spec{ID: c.NodeID, Dir: c.Dir, Timeout: c.Timeout, Grace: killGrace}, since, sinks)
	})
}

// follow follows a process to its end, and brings what is left of it.
func (r *Runner) follow(ctx context.Context, n Node, s Supervisor, c *Command, run func(supervisor.Sinks) (supervisor.Exit, error)) Outcome {
	r.Secrets.Learn(c.Secrets)
	outLines, errLines := r.Printer.Lines(c.Label)
	last := &output.Tail{}
	stdout, stderr := r.Results.Spools(c.Share, c.ID, outLines, io.MultiWriter(last, errLines))
	if c.Watch != nil {
		c.Watch(stdout, stderr)
	}
	began := time.Now()
	exit, err := run(supervisor.Sinks{Stdout: stdout, Stderr: stderr, Live: r.Printer.Live() || c.Watch != nil, Started: c.Started})
	outLines.Flush()
	errLines.Flush()

	o := Outcome{ExitCode: exit.Code, Elapsed: exit.Elapsed, Release: func() { s.Release(c.NodeID) }}
	if err != nil && o.Elapsed == 0 {
		o.Elapsed = time.Since(began) // the node can no longer report it, and has cost as much
	}
	if keepErr := o.SetOutput(stdout, stderr); err == nil {
		err = keepErr
	}
	o.Failure = r.judge(n, &c.Attempt, exit, err)
	if o.Failure == nil {
		o.Failure = r.Collect(ctx, n, &c.Attempt, &o, s.Scratch(c.NodeID), s.Marker(c.NodeID))
	}
	if o.Failure != nil && o.Failure.Cause != Cancelled {
		o.Failure.Tail = r.Secrets.Text(last.String())
	}
	return o
}

// cancelled returns the failure of an attempt whose task was cancelled.
func (a *Attempt) cancelled() *Failure { return Failed(Cancelled, context.Cause(a.Context)) }
