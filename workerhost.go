package gputrain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
)

// A workerHost keeps the node's worker: the process that serves functions. It
// is started with the first call, and again when it has died. A process with a
// function that ignores the end of its context is retired: it gets no further
// calls, and ends when only such functions are left in it.
type workerHost struct {
	n     *poolNode
	alone func() *worker.Members // the node, as the only one of a call

	mu     sync.Mutex
	proc   *workerProc // the one that gets new calls
	starts int
	former []*workerProc // that an earlier program has started
	left   []string      // files of workers that are dead, as long as they may be there
	closed bool
}

// functionGrace is FunctionGrace, unless a test is in a hurry.
var functionGrace = FunctionGrace

// A workerProc is one life of a node's worker.
type workerProc struct {
	ready  chan struct{} // closed when client or err is set
	client *worker.Client
	err    error
	output *workerOutput
	// scratch is the folder of its calls' scratch directories.
	scratch string

	cancel context.CancelFunc
	exited chan struct{} // closed when exit, exitErr and all output are there
	exit   supervisor.Exit
	exitEr error

	// Guarded by the host.
	calls   int // under way, without those that ignore the end of their context
	retired bool
}

// startAttempts bounds how many workers may be killed while they start, and how
// often one is asked that does not serve yet, before a call that waits for it fails.
const startAttempts = 3

var errKilledStarting = errors.New("it never served")

// get returns a worker that serves, and starts it where there is none. Without
// an error the caller leaves it later.
func (h *workerHost) get(ctx context.Context) (*workerProc, error) {
	for attempt := 1; ; attempt++ {
		proc, err := h.tryGet(ctx)
		if !errors.Is(err, errKilledStarting) || attempt == startAttempts {
			return proc, err
		}
	}
}

func (h *workerHost) tryGet(ctx context.Context) (*workerProc, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, &Error{Provider: h.n.provider(), Op: "worker on " + h.n.name, Kind: ErrClosed}
	}
	if h.proc == nil {
		h.starts++
		life, cancel := context.WithCancel(h.n.ctx)
		h.proc = &workerProc{ready: make(chan struct{}), exited: make(chan struct{}), cancel: cancel}
		proc, name := h.proc, fmt.Sprintf("worker-%d", h.starts)
		proc.output = newWorkerOutput(h.n, name)
		h.n.p.running.Go(func() { h.live(life, proc, name) })
	}
	proc := h.proc
	proc.calls++
	h.mu.Unlock()
	select {
	case <-proc.ready:
		if proc.err != nil {
			h.leave(proc, false)
		}
		return proc, proc.err
	case <-ctx.Done():
		h.leave(proc, false)
		return nil, context.Cause(ctx)
	}
}

// leave ends a call. Where its function goes on, the process is retired, and
// the channel returned is closed when it has ended.
func (h *workerHost) leave(proc *workerProc, goesOn bool) (gone <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	proc.calls--
	if goesOn {
		proc.retired = true
		gone = proc.exited
		if h.proc == proc {
			h.proc = nil
		}
	}
	if proc.retired && proc.calls == 0 {
		proc.cancel()
	}
	return gone
}

// close ends the worker. Calls that are under way fail.
func (h *workerHost) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.proc != nil {
		h.proc.cancel()
	}
	for _, proc := range h.former {
		proc.cancel()
	}
}

// live ships the program, runs it, and connects to it, until it is dead.
func (h *workerHost) live(ctx context.Context, proc *workerProc, name string) {
	defer proc.cancel()
	program, err := h.n.ship(ctx)
	if err != nil {
		h.over(proc)
		proc.err = err
		close(proc.ready)
		close(proc.exited)
		return
	}
	socket, scratch := path.Join(h.n.facts.Root, name), path.Join(h.n.facts.Root, scratchDir, name)
	proc.scratch = scratch
	h.mu.Lock()
	starts := h.starts
	h.mu.Unlock()
	h.n.p.journal.note(keptNode, keptBase{Node: h.n.name, Worker: name, Binary: program.remote, Ships: starts})
	dialing, stopDialing := context.WithCancel(ctx)
	defer stopDialing()
	var serving sync.WaitGroup
	serving.Go(func() {
		proc.exit, proc.exitEr = h.serve(ctx, proc, program, name, socket)
		h.mu.Lock()
		h.left = append(h.left, socket, scratch)
		h.mu.Unlock()
		close(proc.exited)
		stopDialing()
	})
	for range startAttempts { // as long as its process is there, a worker that does not serve yet is a slow one
		proc.client, proc.err = worker.Dial(dialing, h.attach(program, socket), worker.Hello{
			Digest: program.digest, Generation: uint64(h.n.p.generation), Grace: functionGrace, Node: h.n.nodeFacts(scratch),
			ResultBytes: h.n.p.opts.limits.resultBytes(), Reachable: h.n.isUp,
		})
		if !errors.Is(proc.err, worker.ErrWorkerLost) || dialing.Err() != nil {
			break
		}
	}
	if proc.err != nil {
		h.over(proc)
		proc.cancel()
		<-proc.exited
		proc.err = h.startError(ctx, proc)
		close(proc.ready)
		serving.Wait()
		return
	}
	close(proc.ready)
	<-proc.exited
	h.over(proc)
	proc.client.Fail(errors.New(describeExit(proc.exit, proc.exitEr)))
	serving.Wait()
}

// over makes the next call start another worker.
func (h *workerHost) over(proc *workerProc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.proc == proc {
		h.proc = nil
	}
}

// remains returns the files that dead workers may have left.
func (h *workerHost) remains() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.left)
}

// removed forgets files that are no longer there.
func (h *workerHost) removed(files []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = slices.DeleteFunc(h.left, func(s string) bool { return slices.Contains(files, s) })
}

// serve runs the program on the node until it ends.
func (h *workerHost) serve(ctx context.Context, proc *workerProc, p program, name, socket string) (supervisor.Exit, error) {
	defer proc.output.end()
	return h.n.super.Run(ctx, supervisor.Spec{
		ID: name, Args: []string{p.remote}, Env: map[string]string{worker.Env: worker.ServeMode(socket)}, Grace: time.Second,
	}, supervisor.Sinks{Stdout: proc.output.streams[0], Stderr: proc.output.streams[1], Live: h.n.p.out.live()})
}

// attach returns how a stream to the worker is opened. Its process has the
// node's mark: one that still waits for a worker ends with the pool.
func (h *workerHost) attach(p program, socket string) worker.OpenFunc {
	return func(ctx context.Context) (io.ReadWriteCloser, error) {
		mode, err := supervisor.Quote(worker.AttachMode(socket))
		if err != nil {
			return nil, err
		}
		bin, err := supervisor.Quote(p.remote)
		if err != nil {
			return nil, err
		}
		return h.n.client.Open(ctx, worker.Env+"="+mode+" GPUTRAIN_NODE="+h.n.name+" exec "+bin)
	}
}

// startError says why the worker does not serve.
func (h *workerHost) startError(ctx context.Context, proc *workerProc) error {
	if ctx.Err() != nil && h.n.ctx.Err() != nil {
		return context.Cause(h.n.ctx)
	}
	e := &Error{Provider: h.n.provider(), Op: "start the worker on " + h.n.name, Err: proc.err}
	switch {
	case proc.exitEr == nil && proc.exit.Cause == supervisor.Signaled: // by somebody else: another one may serve
		e.Err = fmt.Errorf("%w: %s", errKilledStarting, describeExit(proc.exit, nil))
	case proc.exitEr == nil && proc.exit.Cause == supervisor.Exited:
		e.Err = errors.New(joinLines(describeExit(proc.exit, nil), h.n.p.secrets.text(proc.output.last.String())))
		if proc.exit.Code == 126 || proc.exit.Code == 127 {
			e.Hint = "the program may need libraries that the node lacks (build it with CGO_ENABLED=0), or its folder there may be mounted noexec"
		}
	case errors.Is(proc.err, context.Canceled): // its end ended the dialing
		e.Err = errors.New(joinLines(describeExit(proc.exit, proc.exitEr), h.n.p.secrets.text(proc.output.last.String())))
	}
	return e
}

func joinLines(what, tail string) string {
	if tail == "" {
		return what
	}
	return what + "\n\t" + strings.ReplaceAll(tail, "\n", "\n\t")
}

// describeExit says how the worker's process ended.
func describeExit(exit supervisor.Exit, err error) string {
	switch {
	case err != nil:
		return "the process that runs functions ended: " + err.Error()
	case exit.Cause == supervisor.Exited:
		return fmt.Sprintf("the process that runs functions exited with code %d", exit.Code)
	case exit.Signal != "":
		return fmt.Sprintf("the process that runs functions was ended by SIG%s (%v)", exit.Signal, exit.Cause)
	}
	return fmt.Sprintf("the process that runs functions ended: %v", exit.Cause)
}
