package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/crossbuild"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/program"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
	"github.com/gputrain/gputrain/providers/driver"
)

// scratchDir, in the pool's folder on a node, is the folder for scratch directories, which the pool removes.
const scratchDir = "scratch"

// A process is one life of a node's worker.
type process struct {
	name            string // on the node
	socket, scratch string // its socket, and the folder of its calls' scratch directories
	output          *divider

	ready  chan struct{} // closed when client or err is set
	client *worker.Client
	err    error

	cancel  context.CancelFunc
	exited  chan struct{} // closed when exit, exitErr and all output are there
	exit    supervisor.Exit
	exitErr error

	// Guarded by the host.
	calls   int // under way, without those that ignore the end of their context
	keeping int // calls whose output files are still to come
	retired bool
	dead    bool // its scratch directories are not noted as left yet
}

// newProcess returns a process that is to be started or resumed, and the context in which it lives: until the host is
// closed, which may be a while after the end of the pool's context. Its calls end before.
func (h *Host) newProcess(name string) (context.Context, *process) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.node.Context()))
	root := h.node.Facts().Root
	return ctx, &process{
		name: name, socket: path.Join(root, name), scratch: path.Join(root, scratchDir, name),
		output: newDivider(h.cfg.Runner, output.Source{Label: fmt.Sprintf("node %d", h.node.Rank()), Node: h.node.Rank()}, h.node.IsUp, func() func() { return h.node.Supervisor().Hasten(name) }),
		ready:  make(chan struct{}), exited: make(chan struct{}), cancel: cancel,
	}
}

// stacksPatience bounds how long a worker has to return its stacks.
const stacksPatience = 10 * time.Second

// stacks returns the stacks of the process's goroutines, or nothing if they do not come soon.
func (p *process) stacks(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, stacksPatience)
	defer cancel()
	stacks, _ := p.client.Stacks(ctx)
	return stacks
}

// live ships the program, runs it, and connects to it, until it is dead.
func (h *Host) live(ctx context.Context, p *process, starts int) {
	defer p.cancel()
	binary, err := h.ship(ctx)
	if err != nil {
		h.over(p)
		p.err = err
		close(p.ready)
		close(p.exited)
		return
	}
	h.node.KeepWorker(Worker{Name: p.name, Binary: binary.Path, Starts: starts})
	dialing, stopDialing := context.WithCancel(ctx)
	defer stopDialing()
	var serving sync.WaitGroup
	serving.Go(func() {
		h.serve(ctx, p, binary.Path)
		stopDialing()
	})
	defer serving.Wait()
	for range startAttempts { // while its process exists, a worker that does not serve yet is a slow one
		hello := h.hello(p)
		hello.Digest = binary.Digest
		p.client, p.err = worker.Dial(dialing, h.dialer(binary.Path, p.socket), hello)
		if !errors.Is(p.err, worker.ErrWorkerLost) || dialing.Err() != nil {
			break
		}
	}
	if p.err != nil {
		h.over(p)
		p.cancel()
		<-p.exited
		p.err = h.startError(ctx, p)
		close(p.ready)
		return
	}
	close(p.ready)
	<-p.exited
	h.over(p)
	p.client.Fail(errors.New(p.describeExit()))
}

// markName is the variable with the mark of a node's workers, which what calls start has too.
const markName = "GPUTRAIN_CALLS"

// Mark is in the environment of each process that calls on a node have started. It ends in a dot, so that no mark begins
// with another one.
func Mark(node string) string { return markName + "=" + node + "." }

// serve runs the program on the node until it ends.
func (h *Host) serve(ctx context.Context, p *process, binary string) {
	p.exit, p.exitErr = h.node.Supervisor().Run(ctx, supervisor.Spec{
		ID: p.name, Args: []string{binary}, Env: map[string]string{worker.Env: worker.ServeMode(p.socket), markName: h.node.Name() + "."}, Grace: time.Second,
	}, supervisor.Sinks{Stdout: p.output.streams[0], Stderr: p.output.streams[1], Live: h.cfg.Runner.Printer.Live()})
	p.output.end()
	h.buried(p)
	close(p.exited)
}

// buried notes what a dead process has left on the node.
func (h *Host) buried(p *process) {
	h.left.add(p.socket)
	h.mu.Lock()
	p.dead = true
	h.mu.Unlock()
	h.tidy(p)
}

// hello returns the hello of a client of the worker.
func (h *Host) hello(p *process) worker.Hello {
	facts := h.node.Describe()
	facts.Scratch = p.scratch
	return worker.Hello{
		Generation: uint64(h.cfg.Generation), Grace: h.cfg.Grace, Node: facts, ResultBytes: h.cfg.ResultBytes, Reachable: h.node.IsUp,
	}
}

// dialer returns the function that opens a stream to the worker. Its process has the node's mark: one that still waits
// for a worker ends with the pool.
func (h *Host) dialer(binary, socket string) worker.OpenFunc {
	return func(ctx context.Context) (io.ReadWriteCloser, error) {
		mode, err := supervisor.Quote(worker.AttachMode(socket))
		if err != nil {
			return nil, err
		}
		bin, err := supervisor.Quote(binary)
		if err != nil {
			return nil, err
		}
		return h.node.Open(ctx, worker.Env+"="+mode+" GPUTRAIN_NODE="+h.node.Name()+" exec "+bin)
	}
}

// ship puts this program on the node. A connection on which nothing moves gives the node up.
func (h *Host) ship(ctx context.Context) (program.Program, error) {
	n, facts := h.node, h.node.Facts()
	return h.cfg.Programs.Ship(ctx, program.Node{
		Provider: n.Provider(), Name: n.Name(), Platform: crossbuild.Platform{OS: facts.OS, Arch: facts.Arch},
		Addr: n.SSHAddr(), Gzip: facts.Tools["gzip"],
		Dir: path.Join(facts.CacheDir, "bin"), Scratch: path.Join(facts.Root, scratchDir),
		Exec: func(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
			err := n.Exec(ctx, command, stdin, stdout, stderr)
			if errors.Is(err, ssh.ErrStalled) {
				n.Supervisor().Fail(err)
			}
			return err
		},
		Leftovers: h.left.all, Removed: h.left.removed,
	})
}

// startError returns why the worker does not serve.
func (h *Host) startError(ctx context.Context, p *process) error {
	if ctx.Err() != nil && h.node.Context().Err() != nil {
		return context.Cause(h.node.Context())
	}
	e := &driver.Error{Provider: h.node.Provider(), Op: "start the worker on " + h.node.Name(), Err: p.err}
	switch {
	case p.exitErr == nil && p.exit.Cause == supervisor.Signaled: // not by the pool: another worker may serve
		e.Err = fmt.Errorf("%w: %s", errKilledStarting, p.describeExit())
	case p.exitErr == nil && p.exit.Cause == supervisor.Exited:
		e.Err = errors.New(joinLines(p.describeExit(), h.tail(p)))
		if p.exit.Code == 126 || p.exit.Code == 127 {
			e.Hint = "the program may need libraries that the node lacks (build it with CGO_ENABLED=0), or its folder there may be mounted noexec"
		}
	case errors.Is(p.err, context.Canceled): // the process's end ended the dialing
		e.Err = errors.New(joinLines(p.describeExit(), h.tail(p)))
	}
	return e
}

// tail returns the last lines of the process's stderr, without secrets.
func (h *Host) tail(p *process) string { return h.cfg.Runner.Secrets.Text(p.output.last.String()) }

func joinLines(what, tail string) string {
	if tail == "" {
		return what
	}
	return what + "\n\t" + strings.ReplaceAll(tail, "\n", "\n\t")
}

// describeExit returns how the process ended, in words.
func (p *process) describeExit() string {
	switch {
	case p.exitErr != nil:
		return "the process that runs functions ended: " + p.exitErr.Error()
	case p.exit.Cause == supervisor.Exited:
		return fmt.Sprintf("the process that runs functions exited with code %d", p.exit.Code)
	case p.exit.Signal != "":
		return fmt.Sprintf("the process that runs functions was ended by SIG%s (%v)", p.exit.Signal, p.exit.Cause)
	}
	return fmt.Sprintf("the process that runs functions ended: %v", p.exit.Cause)
}
