package bootstrap

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/internal/uv"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Runner runs commands on one node; a *supervisor.Node is one.
type Runner interface {
	Run(ctx context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error)
	Facts() supervisor.Facts
	SetBase(env map[string]string, path []string)
}

// A SyncFunc copies changed files into the node's working directory, as a *transfer.Remote's Sync does with that
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

// Options are what a caller gives Run beside the image, and callbacks by which it can watch. The zero value has none.
type Options struct {
	// Secrets are in the environment of every phase, and override Env. They are in no argument and in no file on the
	// node, and are removed from the lines of an Error. Output gets what the phases print, unchanged.
	Secrets map[string]string
	// Upload copies a file of this computer to an absolute path on the node, at once or not at all. Nil means that none
	// can be copied: then a node that cannot fetch uv itself goes without.
	Upload func(ctx context.Context, local, remote string) error
	// Output returns the writer for a phase's output, stdout and stderr in order. Nil discards it.
	Output func(phase string) io.Writer
	// Event is called by Run's own goroutine with every change of a phase's state.
	Event func(p Phase, state State, elapsed time.Duration)
	// Base is called with every base that the node gets. Once Run has succeeded, the last one is that of the node's
	// tasks.
	Base func(Base)
	// Baked is the BakeKey of the image that the machine was started from. Empty means that it was started from another
	// one.
	Baked string
	// Within bounds all phases together. Zero means that each has its own limit alone.
	Within time.Duration

	release *uv.Release // in tests; nil is the pinned one
}

// Run makes a node ready and sets what its later tasks start from: Env, and the virtual environment. The phases run in
// order; the first that fails ends Run with an *Error. A mistake in the image is another error, and is found before the
// node is contacted.
func Run(ctx context.Context, node Runner, sync SyncFunc, img Image, opts Options) error {
	phases, required, err := plan(img, opts.Secrets)
	if err != nil {
		return err
	}
	if opts.release == nil {
		opts.release = uv.Pinned()
	}
	if opts.Output == nil {
		opts.Output = func(string) io.Writer { return io.Discard }
	}
	if opts.Event == nil {
		opts.Event = func(Phase, State, time.Duration) {}
	}
	if opts.Base == nil {
		opts.Base = func(Base) {}
	}
	b := &bootstrapper{
		node: node, sync: sync, img: img, required: required, facts: node.Facts(), attempt: newAttempt(),
		output: opts.Output, base: opts.Base, secrets: opts.Secrets, upload: opts.Upload, release: opts.release,
	}
	b.learn(opts.Secrets)
	b.setBase(Base{Env: b.environment()})
	if opts.Baked != "" {
		phases = slices.Insert(phases, 0, Phase{Name: BakedPhase, Key: opts.Baked, kind: baked})
	}
	if opts.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Within, lateAll(opts.Within))
		defer cancel()
	}
	for _, p := range phases {
		opts.Event(p, Started, 0)
		start := time.Now()
		cached, err := b.do(ctx, p)
		elapsed := time.Since(start)
		switch {
		case err != nil:
			opts.Event(p, Failed, elapsed)
			err.Elapsed = elapsed
			if late, ok := context.Cause(ctx).(lateAll); ok {
				err.Cause, err.Err = supervisor.TimedOut, late
			}
			return err
		case cached:
			opts.Event(p, Cached, elapsed)
		default:
			opts.Event(p, Done, elapsed)
		}
	}
	return nil
}

// A bootstrapper is one Run on one node. It holds what its phases pass on.
type bootstrapper struct {
	node     Runner
	sync     SyncFunc
	img      Image //secretvet:ignore the pool has removed its password
	required requirements
	facts    supervisor.Facts
	output   func(phase string) io.Writer
	base     func(Base)
	secrets  map[string]string
	known    output.Redactor // knows the secrets
	upload   func(ctx context.Context, local, remote string) error
	release  *uv.Release
	attempt  string // part of this run's names, which no other run has
	asked    int    // scripts that were run

	venv     string // the virtual environment's directory
	venvDone bool   // found finished
	uv       string // the program that made it, or "-" if it was Python's own venv
	manifest string // the file on the node in which transfer lists what it sent
	again    bool   // a setup command has run, so later ones must run too
}

// do runs one phase, within its time limit, and reports whether the node had been through it before.
func (b *bootstrapper) do(ctx context.Context, p Phase) (cached bool, err *Error) {
	switch p.kind {
	case baked:
		return b.restore(ctx, p)
	case packages:
		return b.script(ctx, p, call{scripts: []string{"packages.sh"}, args: b.img.Apt})
	case python:
		return b.python(ctx, p)
	case pip:
		return b.pip(ctx, p)
	case files:
		return b.files(ctx, p)
	default:
		return b.shell(ctx, p)
	}
}

// use makes later phases and tasks run in the virtual environment.
func (b *bootstrapper) use(venv string) {
	env := b.environment()
	env["VIRTUAL_ENV"] = venv
	b.setBase(Base{Env: env, Path: []string{venv + "/bin"}})
}

// environment returns what phases and tasks have in their environment: Env, and what makes Python write lines as they
// are printed, unless Env has an opinion on that.
func (b *bootstrapper) environment() map[string]string {
	env := maps.Clone(b.img.Env)
	if env == nil {
		env = make(map[string]string)
	}
	if _, set := env["PYTHONUNBUFFERED"]; !set {
		env["PYTHONUNBUFFERED"] = "1"
	}
	return env
}

func (b *bootstrapper) learn(secrets map[string]string) {
	for name, value := range secrets {
		b.known.Learn(map[string]driver.Secret{name: driver.Secret(value)})
	}
}

// redact removes secrets from a line of output.
func (b *bootstrapper) redact(line string) string { return b.known.Text(line) }

func (b *bootstrapper) setBase(base Base) {
	b.node.SetBase(base.Env, base.Path)
	b.base(base)
}
