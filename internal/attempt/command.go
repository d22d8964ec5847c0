package attempt

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/stacks"
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
	// TTY gives the command a terminal. What it writes there is its stdout.
	TTY bool
	// Grace is how long it has between TERM and KILL. Zero means ten seconds.
	Grace time.Duration
	Place Place
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
	// Slot is one of the node's slots, or the number in place of it of a task that has accelerators instead: no other task
	// that runs on the node has it. Devices are the variables that keep a program to the accelerators of either, or nil.
	Slot    int
	Devices map[string]string
	// Sharers is how many such tasks the node's processors are divided among, if they all run. Zero and one are one.
	Sharers int
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
		Timeout: c.Timeout, Grace: cmp.Or(c.Grace, killGrace), HoldsLease: c.HoldsLease, TTY: c.TTY, Sharers: c.Place.Sharers, Scratch: true, Mark: len(c.Outputs) > 0,
	}
	maps.Copy(s.Env, c.Checkpoints.env())
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
	if f := r.Restore(ctx, n, &c.Attempt); f != nil {
		return Outcome{ExitCode: -1, Failure: f}
	}
	return r.follow(ctx, n, s, c, time.Time{}, func(ctx context.Context, sinks supervisor.Sinks) (supervisor.Exit, error) {
		return s.Run(ctx, c.spec(), sinks)
	})
}

// Resume is like Run for a command that an earlier program has started, not before since.
func (r *Runner) Resume(ctx context.Context, n Node, s Supervisor, c *Command, since time.Time) Outcome {
	return r.follow(ctx, n, s, c, since, func(ctx context.Context, sinks supervisor.Sinks) (supervisor.Exit, error) {
		return s.Resume(ctx, supervisor.Spec{ID: c.NodeID, Dir: c.Dir, Timeout: c.Timeout, Grace: cmp.Or(c.Grace, killGrace)}, since, sinks)
	})
}

// follow follows a process to its end, and brings what is left of it. since is when an earlier program has started it, or zero.
func (r *Runner) follow(ctx context.Context, n Node, s Supervisor, c *Command, since time.Time, run func(context.Context, supervisor.Sinks) (supervisor.Exit, error)) Outcome {
	r.Secrets.Learn(c.Secrets)
	outLines, errLines := r.Printer.Lines(c.From)
	last := &output.Tail{}
	outSteps, errSteps := r.Listen(&c.Attempt), r.Listen(&c.Attempt)
	out, errs := io.MultiWriter(outSteps, outLines), io.MultiWriter(last, errSteps, errLines)
	if c.TTY { // it has no stderr
		out, errs = io.MultiWriter(last, outSteps, outLines), errLines
	}
	stdout, stderr := r.Results.Spools(c.Share, c.ID, out, errs)
	if c.Watch != nil {
		c.Watch(stdout, stderr)
	}
	keep := r.Keep(ctx, n, &c.Attempt, !since.IsZero(), func() (scratch, marker string) { return s.Scratch(c.NodeID), s.Marker(c.NodeID) })
	var files atomic.Pointer[stepFiles]
	watched, stop := Watch{
		Ask:    func(ctx context.Context) error { return files.Load().ask(ctx) },
		Stacks: func(ctx context.Context) string { return stacks.Dump(ctx, n, "GPUTRAIN_SCRATCH="+s.Scratch(c.NodeID)) },
	}.Start(ctx, n, &c.Attempt)
	saver := r.Save(ctx, &c.Attempt)
	began := time.Now()
	// Even if no one watches it live, its output comes every second, which is soon enough for steps.
	exit, err := run(watched, supervisor.Sinks{Stdout: stdout, Stderr: stderr, Live: r.Printer.Live() || c.Watch != nil, Started: func() {
		if since.IsZero() {
			since = time.Now()
		}
		c.Started()
		keep.Begin()
		files.Store(r.looks.begin(n, s, &c.Attempt, s.Scratch(c.NodeID)))
		saver.Begin()
	}})
	at := endedAt(since, exit.Elapsed)
	stop()
	outLines.Flush()
	errLines.Flush()
	outSteps.Flush()
	errSteps.Flush()
	r.looks.finish(files.Load(), exit.Steps)

	o := Outcome{ExitCode: exit.Code, Elapsed: exit.Elapsed, Release: func() { s.Release(c.NodeID) }}
	if err != nil && o.Elapsed == 0 {
		o.Elapsed = time.Since(began) // the node can no longer report it, and has cost as much
	}
	ended := err == nil || errors.Is(err, supervisor.ErrSink)
	if keepErr := o.SetOutput(stdout, stderr); err == nil {
		err = keepErr
	}
	o.Failure = r.judge(watched, n, &c.Attempt, exit, err)
	if c.isShellText(exit) && o.Failure != nil && o.Failure.Err == nil {
		o.Failure.Err = r.Secrets.Error(fmt.Errorf("no program is named %q; Cmd takes each argument by itself, and Script a line for a shell", c.Args[0]))
	}
	if f := o.Failure; f != nil && f.Cause == Exit && f.Err == nil && c.isWindows(ctx, n, exit, last.String()) {
		f.Err = errWindows
	}
	tail := func() {
		if o.Failure != nil && o.Failure.Cause != Cancelled {
			o.Failure.Tail = r.Secrets.Text(last.String())
		}
	}
	tail()
	c.Judged(o.Failure, at)
	keep.Finish(&o, ended)
	saver.Finish(o.Failure, ended)
	tail() // of a failure of its files
	return o
}

// isShellText reports whether a command without arguments, whose program was not found, is a line for a shell.
func (c *Command) isShellText(exit supervisor.Exit) bool {
	return exit.Cause == supervisor.Exited && exit.Code == 127 && len(c.Args) == 1 && strings.ContainsAny(c.Args[0], " \t\n")
}

// endedAt returns when a command ended whose end this computer hears of now. The news is late if the connection was cut, or if no
// program followed the command. So the end is the start plus the time that the command ran. It does not depend on the time of day
// on a node, which may be wrong, or may be set while the command runs.
func endedAt(since time.Time, elapsed time.Duration) time.Time {
	now := time.Now()
	if at := since.Add(elapsed); !since.IsZero() && elapsed > 0 && at.Before(now) {
		return at
	}
	return now
}

// cancelled returns the failure of an attempt whose task was cancelled.
func (a *Attempt) cancelled() *Failure { return Failed(Cancelled, context.Cause(a.Context)) }
