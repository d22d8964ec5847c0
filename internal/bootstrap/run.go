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

// A SyncFunc copies files into the node's working directory, only what
// changed. The Sync of a *transfer.Remote is one, with that directory as its
// Dir and its State where it is without being set.
type SyncFunc func(ctx context.Context, entries []transfer.Entry) (transfer.Stats, error)

// A State is what has become of a phase.
type State int

const (
	Started State = iota // it runs
	Cached               // the node had been through it already
	Done                 // it succeeded
	Failed               // it did not; Run returns why
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

// A Base is what the tasks of a node start from, in the words of SetBase: what
// another client has to set again on a node that it takes over made ready.
type Base struct {
	Env  map[string]string
	Path []string
}

// Options are what a caller may watch Run with. The zero value watches nothing.
type Options struct {
	// Output returns where a phase's output goes while it runs, stdout and
	// stderr in the order in which they came. Nil discards it.
	Output func(phase string) io.Writer
	// Event is told of every change of a phase's state. It is called by Run's
	// own goroutine.
	Event func(phase string, state State, elapsed time.Duration)
	// Base is told of every base that the node is set to. Once Run has
	// succeeded, the last one is that of the node's tasks.
	Base func(Base)
}

// Run makes a node ready and sets what its later tasks start from: Env, and
// the virtual environment. The phases run in order; the first that fails ends
// Run with an *Error. A mistake in the image is another error, and is found
// before the node is touched.
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

// A bootstrapper is one Run on one node: what its phases learn and hand on.
type bootstrapper struct {
	node    Runner
	sync    SyncFunc
	img     Image
	facts   supervisor.Facts
	output  func(phase string) io.Writer
	base    func(Base)
	attempt string // makes this run's names its own

	venv     string // the virtual environment's directory
	venvDone bool   // found finished
	manifest string // where transfer keeps on the node what it sent
	again    bool   // a setup command has run, so those after it must
}

// do runs one phase, within its time, and reports whether the node had been
// through it already.
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
