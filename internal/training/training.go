// Package training makes a gang of a program and the nodes of a pool: it starts the program's processes on the nodes, as
// attempts of package attempt or calls of package calls, and does the rest of what package gang asks of its host.
package training

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/calls"
	"github.com/gputrain/gputrain/internal/checkpoint"
	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/internal/launcher"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/preflight"
	"github.com/gputrain/gputrain/internal/steps"
	"github.com/gputrain/gputrain/internal/telemetry"
)

// A Node is a node of the pool. Nodes can be compared.
type Node interface {
	gang.Node
	attempt.Node
	// Answers reports whether the node answers before ctx ends.
	Answers(ctx context.Context) bool
	// Addr is the address by which the other nodes reach it.
	Addr() string
	Supervisor() attempt.Supervisor
	// Devices returns the node's accelerators.
	Devices() node.Devices
	// Commands runs commands where tasks run.
	Commands() node.Commands
	// Call makes one attempt at a call of a function.
	Call(c *calls.Call) attempt.Outcome
	// EndCalls ends the process in which calls run. What they have started elsewhere has the mark in its environment.
	EndCalls(ctx context.Context) (mark string, err error)
	// Network names the private network that the node is in, or is empty.
	Network() string
	// Telemetry follows the node's accelerators. Sampler samples those of the returned names once, if there are any.
	Telemetry() *telemetry.Monitor
	Sampler() (commands telemetry.Commands, only []string)
	// Checkpoints describes the folder of the training's checkpoints on the node.
	Checkpoints() checkpoint.Node
	// Announce calls f when the node's provider announces that it takes the machine back, and if that is not so after all, until
	// stop is called.
	Announce(f func(left time.Duration, spared bool)) (stop func())
}

// A Pool has the nodes of a training.
type Pool interface {
	// Grow waits until the training has so many nodes for itself, and returns all of them.
	Grow(ctx context.Context, nodes int) ([]Node, error)
	// Drop gives a node back. If broken is not nil, it says why the training cannot use the node any more.
	Drop(n Node, broken error)
}

// A Program is what a training runs: a command, or a call of a function.
type Program struct {
	// Command is the pattern of the attempts at a command.
	Command attempt.Command
	// Function is called with Arg if it is not empty.
	Function string
	Arg      codec.Body
}

// Config describes a training.
type Config struct {
	// Pool's name, for GPUTRAIN_GANG.
	PoolID string
	// ID is unique in the pool, and Name is the user's.
	ID, Name string
	Program  Program
	// Check is the command that nodes must pass before they run the program, or empty.
	Check    attempt.Command
	Launcher launcher.Launcher
	// Nodes is how many it has, and Processes how many run on each.
	Nodes, Processes                        int
	Restarts                                int
	StartTimeout, StallTimeout, IdleTimeout time.Duration
	// AllowPublicNetwork lets the processes meet at public addresses.
	AllowPublicNetwork bool

	// Keeper keeps the checkpoints. Nil keeps none. It calls Saved for each that comes here.
	Keeper *checkpoint.Keeper

	Pool   Pool
	Runner *attempt.Runner
	// Go runs a function in a goroutine that the end of the pool waits for.
	Go func(func())
	// Earlier is the state in which an earlier program has left the training, and EarlierNodes are its nodes by rank, nil for
	// one that is lost. Or both are nil.
	Earlier      *journal.Training
	EarlierNodes []Node
	// Record keeps the state of the training.
	Record func(journal.Training)
	// Locate describes a node for the record.
	Locate func(Node) journal.Location
	// Describe says why an attempt failed, for the record, without secrets.
	Describe func(e *gang.Attempt) string
	// Report is called when the state of the training changes, and Reported with each step.
	Report   func(s gang.State, e *gang.Attempt)
	Reported func(e *gang.Attempt, n Node, s steps.Step)
	// Noted is called with what may slow an attempt down, and Lagging when a process is so many steps behind the first.
	Noted   func(e *gang.Attempt, err error)
	Lagging func(e *gang.Attempt, n Node, rank int, behind int64)
}

// A Share is one process that gputrain started, or one call, of the last attempt.
type Share struct {
	// Node is where it ran, and Rank that of the process, or of the node in the gang if its launcher starts the processes.
	Node    Node
	Rank    int
	Outcome attempt.Outcome
	// Ended is when it ended, or zero.
	Ended time.Time
	// Failure is nil for success.
	Failure *gang.Failure
}

// A Training is a Config at work. It is the gang's host.
type Training struct {
	Config
	log     logbook
	saver   saver
	devices devices
	held    holding
	began   time.Time
	port    int // of the last attempt
	waited  bool

	mu       sync.Mutex
	shares   []Share        // of the last attempt
	output   []output.Share // the memory of each share's output
	progress []*progress    // of each share
	stacks   map[int]string // by share, once they were taken
	cleanups []func()       // make nodes forget the attempts of an attempt
	release  chan struct{}  // closed when the calls of the attempt may begin
}

// New returns a training that has not begun.
func New(c Config) *Training {
	t := &Training{Config: c, log: logbook{write: c.Record}, saver: saver{keeper: c.Keeper}}
	if c.Earlier != nil {
		t.log.entry, t.port = *c.Earlier, c.Earlier.Port
	} else {
		t.log.entry = journal.Training{ID: c.ID, Name: c.Name, Began: time.Now().UnixNano()}
	}
	t.began = time.Unix(0, t.log.entry.Began)
	t.held.nodes = slices.DeleteFunc(slices.Clone(c.EarlierNodes), func(n Node) bool { return n == nil })
	t.log.entry.Launcher, t.log.entry.Function = int(c.Launcher), c.Program.Function != ""
	return t
}

// Shares returns how many processes, or calls, gputrain starts itself.
func (c *Config) Shares() int {
	switch {
	case c.Launcher == launcher.MPI && c.Program.Function == "":
		return 1
	case c.Launcher == launcher.Torchrun || c.Program.Function != "":
		return c.Nodes
	}
	return c.Nodes * c.Processes
}

// Run runs the training to its end. ok reports success. The error says why no other attempt follows the last one, if that
// is more than its failures.
func (t *Training) Run(ctx context.Context) (ok bool, err error) {
	t.log.note(func(*journal.Training) {}) // so that no later one gets its ID
	if err := t.countProcesses(ctx); err != nil {
		return false, err
	}
	c := gang.Config{
		Host: t, Nodes: t.Nodes, Shares: t.Shares(), Restarts: t.Restarts,
		StartTimeout: t.StartTimeout, StallTimeout: t.StallTimeout, IdleTimeout: t.IdleTimeout,
	}
	if r := t.Earlier; r != nil && r.Attempt > 0 {
		c.Attempt = &gang.Attempt{
			Number: r.Attempt, Port: r.Port, Resumed: r.Resumed, Last: r.Step, Restarts: r.Restarts, Fruitless: r.Fruitless,
		}
		whole := true
		for _, n := range t.EarlierNodes {
			if n == nil {
				c.Attempt.Nodes, whole = append(c.Attempt.Nodes, nil), false
			} else {
				c.Attempt.Nodes = append(c.Attempt.Nodes, n)
			}
		}
		if r.Released > 0 {
			c.Attempt.From = time.Unix(0, r.Released)
		}
		last := len(r.Past) - 1
		c.Over = last >= 0 && r.Past[last].Number == r.Attempt
		// Calls cannot be taken up, nor what mpirun runs, nor an attempt that has lost a node.
		c.Released = r.Released > 0 && whole && !r.Function && t.Launcher != launcher.MPI && r.Shares == c.Shares
	}
	return gang.Run(ctx, c)
}

// Succeeded is for the gang. What the processes have left would hold the accelerators that the next task gets.
func (t *Training) Succeeded(ctx context.Context, e *gang.Attempt) {
	t.saver.finish(ctx, e, true)
	if t.Program.Function != "" {
		return // other calls share its process
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
	defer cancel()
	for _, f := range each(e, func(n Node) error { return t.kill(ctx, n) }) {
		t.Noted(e, f.Err) // it is a success all the same
	}
}

// killPatience bounds how long the rest of a training that has succeeded is ended.
const killPatience = time.Minute

// Lagged is for the gang.
func (t *Training) Lagged(e *gang.Attempt, share int, behind int64) {
	n, _ := t.nodeOf(e, share)
	t.Lagging(e, n, share, behind)
}

// countProcesses finds how many processes run on each node, if that is not given: one for each accelerator.
func (t *Training) countProcesses(ctx context.Context) error {
	if t.Earlier != nil && t.Processes == 0 {
		t.Processes = t.Earlier.Processes
	}
	if t.Processes > 0 {
		return nil
	}
	t.Config.Report(gang.Waiting, &gang.Attempt{Number: 1})
	t.waited = true
	all, err := t.held.grow(ctx, t.Pool, t.Nodes)
	if err != nil {
		return err
	}
	t.Processes = len(all[0].Devices().Visible(nil))
	for _, n := range all {
		t.Processes = min(t.Processes, len(n.Devices().Visible(nil)))
	}
	t.Processes = max(t.Processes, 1)
	return nil
}

// Result returns the shares of the last attempt.
func (t *Training) Result() []Share {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shares
}

// Began returns when the training began.
func (t *Training) Began() time.Time { return t.began }

// Past returns the attempts that earlier programs have seen the end of.
func (t *Training) Past() []journal.PastAttempt {
	if t.Earlier == nil {
		return nil
	}
	return t.Earlier.Past
}

// Leave records that the caller of a training has given up, or has the result: no other program goes on with it.
func Leave(t *Training) { t.log.end() }

// Finish is Leave, and has the nodes forget the processes.
func (t *Training) Finish() {
	Leave(t)
	t.forget()
}

// forget has the nodes forget the attempts of an attempt.
func (t *Training) forget() {
	t.mu.Lock()
	cleanups := t.cleanups
	t.cleanups = nil
	t.mu.Unlock()
	for _, clean := range cleanups {
		clean()
	}
}

// attemptID names a share of an attempt on its node, and in the pool.
func (t *Config) attemptID(attempt, share int) string {
	last := len(strconv.Itoa(t.Shares() - 1))
	return fmt.Sprintf("%s-e%d-r%0*d", t.ID, attempt, last, share) // no ID of an attempt begins with another one
}

// mark is in the environment of every process of the training, as the value of markName. It ends in a dot, so that no
// mark begins with another one.
func (t *Config) mark() string { return t.PoolID + "." + t.ID + "." }

const markName = "GPUTRAIN_GANG"

// Grow is for the gang.
func (t *Training) Grow(ctx context.Context, nodes int) ([]gang.Node, error) {
	all, err := t.held.grow(ctx, t.Pool, nodes)
	same := make([]gang.Node, len(all))
	for i, n := range all {
		same[i] = n
	}
	return same, err
}

// Drop is for the gang.
func (t *Training) Drop(n gang.Node, broken error) {
	t.held.drop(n.(Node))
	t.log.drop(n.Name())
	t.Pool.Drop(n.(Node), broken)
}

// nodeOf returns the node of a share.
func (t *Config) nodeOf(e *gang.Attempt, share int) (n Node, rank int) {
	rank = share * len(e.Nodes) / t.Shares()
	return e.Nodes[rank].(Node), rank
}

// Prepare is for the gang.
func (t *Training) Prepare(ctx context.Context, e *gang.Attempt, fresh []int) []gang.Failure {
	port, err := launcher.FreePort(ctx, repeated{e.Nodes[0].(Node)}, t.mark(), e.Number, t.port)
	if err != nil {
		return []gang.Failure{{Kind: gang.NeverStarted, Share: -1, Rank: -1, Err: err, At: time.Now()}}
	}
	e.Port, t.port = port, port // also if another attempt takes this one's place
	if len(fresh) > 0 {
		o := preflight.Options{Port: e.Port, Processes: t.Processes, NoInfiniBand: t.Program.Command.Env["NCCL_IB_DISABLE"] == "1", AllowPublicNetwork: t.AllowPublicNetwork}
		if failures := t.devices.preflight(ctx, e, o, func(err error) { t.Noted(e, err) }); len(failures) > 0 || ctx.Err() != nil {
			return failures
		}
		if failures := (checker{t, e}).run(ctx); len(failures) > 0 || ctx.Err() != nil {
			return failures
		}
	}
	return t.saver.restore(ctx, e)
}

// Report is for the gang.
func (t *Training) Report(s gang.State, e *gang.Attempt) {
	switch s {
	case gang.Waiting:
		if t.waited && e.Number == 1 {
			return // it was reported before the processes were counted
		}
	case gang.Running:
		t.log.note(func(r *journal.Training) { r.Released = e.From.UnixNano() })
	case gang.Restarting:
		t.log.past(e, t.Locate, t.Describe)
	}
	t.Config.Report(s, e)
}

// Reported is for the gang.
func (t *Training) Reported(e *gang.Attempt, share int, s steps.Step) {
	t.log.step(s.N)
	n, _ := t.nodeOf(e, share)
	t.Config.Reported(e, n, s)
}

// Saved notes that a checkpoint has come to this computer.
func (t *Training) Saved(step int64) { t.saver.came(step) }

// Checkpoint is for the gang.
func (t *Training) Checkpoint() int64 { return t.saver.count() }

// SetAside is for the gang.
func (t *Training) SetAside(name string) {
	if t.Keeper != nil {
		_ = t.Keeper.SetAside(name) // the next attempt fails with the reason
	}
}

// source returns the source of what a share prints on a node.
func source(name string, rank int, on Node) output.Source {
	label := name + "/" + strconv.Itoa(rank)
	return output.Source{Label: label, Node: on.Rank(), Name: label}
}
