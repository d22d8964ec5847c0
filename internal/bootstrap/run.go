package bootstrap

import (
	"context"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
)

// A Runner runs commands on one node; a *supervisor.Node is one.
type Runner interface {
	Run(ctx context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error)
	Facts() supervisor.Facts
	SetBase(env map[string]string, path []string)
}

// A SyncFunc copies changed files into the node's working directory. A *transfer.Remote's Sync is one, with that
// directory as its Dir and the default State.
type SyncFunc func(ctx context.Context, entries []transfer.Entry) (transfer.Stats, error)

// A State is the state of a phase.
type State int

const (
	Started State = iota // it runs
	Cached               // the node has been through it before
	Done                 // it succeeded
	Failed               // it failed; Run returns why
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Started:
		return "started"
	case Cached:
		return "cached"
	case Done:
		return "done"
	case Failed:
		return "failed"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// A Base is the environment in which the tasks of a node start, as the arguments of SetBase. Another client that takes over a ready
// node has to set it again.
type Base struct {
	Env  map[string]string
	Path []string
}

// Options are callbacks by which a caller can watch Run. The zero value has none.
type Options struct {
	// Output returns the writer for a phase's output, stdout and stderr in order. Nil discards it.
	Output func(phase string) io.Writer
	// Event is called by Run's own goroutine with every change of a phase's state.
	Event func(phase string, state State, elapsed time.Duration)
	// Base is called with every base that the node gets. Once Run has succeeded, the last one is that of the node's
	// tasks.
	Base func(Base)
}

// Run makes a node ready and sets what its later tasks start from: Env, and the virtual environment. The phases run in
// order; the first that fails ends Run with an *Error. A mistake in the image is another error, and is found before the
// node is contacted.
func Run(ctx context.Context, node Runner, sync SyncFunc, img Image, opts Options) error {
	phases, err := Plan(img)
	if err != nil {
		return err
	}
	if opts.Output == nil {
		opts.Output = func(string) io.Writer { return io.Discard }
	}
	if opts.Event == nil {
		opts.Event = func(string, State, time.Duration) {}
	}
	if opts.Base == nil {
		opts.Base = func(Base) {}
	}
	b := &bootstrapper{node: node, sync: sync, img: img, facts: node.Facts(), output: opts.Output, base: opts.Base, attempt: newAttempt()}
	b.setBase(Base{Env: img.Env})
	for _, p := range phases {
		opts.Event(p.Name, Started, 0)
		start := time.Now()
		cached, err := b.do(ctx, p)
		elapsed := time.Since(start)
		switch {
		case err != nil:
			opts.Event(p.Name, Failed, elapsed)
			err.Elapsed = elapsed
			return err
		case cached:
			opts.Event(p.Name, Cached, elapsed)
		default:
			opts.Event(p.Name, Done, elapsed)
		}
	}
	return nil
}

// A bootstrapper is one Run on one node. It holds what its phases pass on.
type bootstrapper struct {
	node    Runner
	sync    SyncFunc
	img     Image
	facts   supervisor.Facts
	output  func(phase string) io.Writer
	base    func(Base)
	attempt string // part of this run's names, which no other run has

	venv     string // the virtual environment's directory
	venvDone bool   // found finished
	manifest string // the file on the node in which transfer lists what it sent
	again    bool   // a setup command has run, so later ones must run too
}

// do runs one phase, within its time limit, and reports whether the node had been through it before.
func (b *bootstrapper) do(ctx context.Context, p Phase) (cached bool, err *Error) {
	switch p.kind {
	case packages:
		return b.script(ctx, p, "packages.sh", nil, b.img.Apt...)
	case python:
		return b.python(ctx, p)
	case pip:
		return b.pip(ctx, p)
	case files:
		return b.files(ctx, p)
	default:
		return b.setup(ctx, p)
	}
}

// use makes later phases and tasks run in the virtual environment.
func (b *bootstrapper) use(venv string) {
	env := maps.Clone(b.img.Env)
	if env == nil {
		env = make(map[string]string)
	}
	env["VIRTUAL_ENV"] = venv
	b.setBase(Base{Env: env, Path: []string{venv + "/bin"}})
}

func (b *bootstrapper) setBase(base Base) {
	b.node.SetBase(base.Env, base.Path)
	b.base(base)
}
