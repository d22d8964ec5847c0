// Package calls calls functions on one node. A Host keeps the node's worker, which is the process that serves functions:
// it ships the program, starts the process and replaces it, adopts that of an earlier program, makes calls in it and
// divides what it prints among them.
package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/program"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Config is the part of a host's settings that all hosts of a pool share.
type Config struct {
	Runner   *attempt.Runner
	Programs Programs
	// Go runs a function in a goroutine that the end of the pool waits for.
	Go func(func())
	// Generation counts the programs that have had the pool.
	Generation int
	// Grace is how long a function may go on after the end of its context.
	Grace time.Duration
	// ResultBytes bounds what a function returns.
	ResultBytes int64
}

// Programs ship this program. program.Programs does.
type Programs interface {
	Ship(ctx context.Context, n program.Node) (program.Program, error)
}

// A Node is the part of a node that its Host uses.
type Node interface {
	attempt.Node
	// Provider and Name are for errors. Name is the machine's.
	Provider() string
	Name() string
	// Context ends when the node is given up or the pool ends.
	Context() context.Context
	// Addr is the address by which other nodes reach it, and SSHAddr is the host:port of its SSH server.
	Addr() string
	SSHAddr() string
	// Describe returns what functions may know about the node, without the folder for scratch directories.
	Describe() worker.NodeFacts
	Supervisor() Supervisor
	// Open starts a command in the node's shell and returns its stdin and stdout.
	Open(ctx context.Context, command string) (io.ReadWriteCloser, error)
	// KeepWorker records what a later program needs to adopt a worker that is about to start.
	KeepWorker(Worker)
}

// A Supervisor runs processes on a node. A supervisor.Node does.
type Supervisor interface {
	Run(ctx context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error)
	Resume(ctx context.Context, spec supervisor.Spec, since time.Time, sinks supervisor.Sinks) (supervisor.Exit, error)
	// Hasten asks for the output of a process more often until stop is called.
	Hasten(id string) (stop func())
	// Fail gives the node up.
	Fail(reason error)
}

// A Worker describes a worker for a later program that resumes it.
type Worker struct {
	// Name is its process's on the node, and Binary the path of its program there.
	Name, Binary string
	// Starts counts the workers that were started on the node until then.
	Starts int
}

// A Host keeps the worker of one node. The worker is started with the first call, and again when it has died. A process
// with a function that ignores the end of its context is retired: it gets no further calls, and is ended when only such
// functions are left in it.
type Host struct {
	cfg   Config
	node  Node
	alone func() *worker.Members // the node, as the only one of a call

	mu     sync.Mutex
	proc   *process // the process that gets new calls; nil before the first
	starts int
	former []*process // processes that an earlier program has started
	closed bool

	left leftovers
}

// NewHost returns the host of a node. It uses the node from the first call on.
func NewHost(cfg Config, n Node) *Host {
	return &Host{cfg: cfg, node: n, alone: sync.OnceValue(func() *worker.Members { return worker.NewMembers(n.Addr()) })}
}

// startAttempts bounds how many workers may be killed while they start, and how often a silent worker is asked again,
// before a call that waits for it fails.
const startAttempts = 3

var errKilledStarting = errors.New("it never served")

// get returns a worker that serves, and starts one if there is none. If it returns no error, the caller calls leave later.
func (h *Host) get(ctx context.Context) (*process, error) {
	for n := 1; ; n++ {
		p, err := h.tryGet(ctx)
		if !errors.Is(err, errKilledStarting) || n == startAttempts {
			return p, err
		}
	}
}

func (h *Host) tryGet(ctx context.Context) (*process, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, &driver.Error{Provider: h.node.Provider(), Op: "worker on " + h.node.Name(), Kind: driver.ErrClosed}
	}
	if h.proc == nil {
		h.startLocked()
	}
	p := h.proc
	p.calls++
	h.mu.Unlock()
	select {
	case <-p.ready:
		if p.err != nil {
			h.leave(p, false)
		}
		return p, p.err
	case <-ctx.Done():
		h.leave(p, false)
		return nil, context.Cause(ctx)
	}
}

// startLocked starts another worker.
func (h *Host) startLocked() {
	h.starts++
	ctx, p := h.newProcess(fmt.Sprintf("worker-%d", h.starts))
	h.proc = p
	starts := h.starts
	h.cfg.Go(func() { h.live(ctx, p, starts) })
}

// leave ends a call. If its function goes on, the process is retired, and the channel returned is closed when it has
// ended.
func (h *Host) leave(p *process, goesOn bool) (gone <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.calls--
	if goesOn {
		p.retired = true
		gone = p.exited
		if h.proc == p {
			h.proc = nil
		}
	}
	if p.retired && p.calls == 0 {
		p.cancel()
	}
	return gone
}

// Close ends the worker. Calls that are under way fail.
func (h *Host) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.proc != nil {
		h.proc.cancel()
	}
	for _, p := range h.former {
		p.cancel()
	}
}

// Renew ends the node's workers, and waits for that, or until ctx ends. The next call starts another one. No call may be under
// way. What calls have started in process groups of their own has the Mark, and goes on.
func (h *Host) Renew(ctx context.Context) error {
	h.mu.Lock()
	old := slices.Clone(h.former)
	if h.proc != nil {
		old = append(old, h.proc)
		h.proc = nil
	}
	h.mu.Unlock()
	for _, p := range old {
		p.cancel()
	}
	for _, p := range old {
		select {
		case <-p.exited:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// over makes the next call start another worker.
func (h *Host) over(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.proc == p {
		h.proc = nil
	}
}
