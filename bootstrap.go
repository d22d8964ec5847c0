package gputrain

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/printable"
)

// A BootstrapError is why a node could not be made ready. errors.Is finds
// [ErrBootstrap] in it.
type BootstrapError struct {
	// Node is the node, and Phase the phase that failed: "packages", "python",
	// "pip", "files", "setup 1/2".
	Node  Node
	Phase string
	// ExitCode is that of the phase's command, or -1 where there was none.
	ExitCode int
	// Tail is the last lines that the phase wrote, without secrets.
	Tail string
	// Elapsed is how long the phase ran.
	Elapsed time.Duration
	// Err is the cause.
	Err error
}

// Error names node and phase, and ends with the last lines.
func (e *BootstrapError) Error() string {
	s := fmt.Sprintf("bootstrap of node %d: %s: %v", e.Node.Rank, e.Phase, e.Err)
	if e.Tail != "" {
		s += "\n\t" + strings.ReplaceAll(strings.TrimRight(e.Tail, "\n"), "\n", "\n\t")
	}
	return printable.Text(s)
}

// Unwrap returns ErrBootstrap and the cause.
func (e *BootstrapError) Unwrap() []error { return []error{ErrBootstrap, e.Err} }

// bootstrap makes the node what the spec's image says.
func (n *poolNode) bootstrap() error {
	output := &phaseOutput{out: n.p.out, of: fmt.Sprintf("node %d", n.rank())}
	var base bootstrap.Base
	err := bootstrap.Run(n.ctx, n.super, n.remote.Sync, bootstrap.Image(n.p.spec.Image), bootstrap.Options{
		Output: output.writer,
		Base:   func(b bootstrap.Base) { base = b },
		Event: func(phase string, state bootstrap.State, elapsed time.Duration) {
			n.p.events.emit(Event{Kind: EventPhase, Node: n.rank(), Phase: phase, State: state.String(), Elapsed: elapsed})
		},
	})
	output.flush()
	if err == nil {
		n.p.journal.note(keptNode, keptBase{Node: n.name, Env: base.Env, Path: base.Path})
		return nil
	}
	var failed *bootstrap.Error
	if !errors.As(err, &failed) {
		return err
	}
	return &BootstrapError{
		Node: n.p.nodeOf(n), Phase: failed.Phase, ExitCode: failed.ExitCode, Elapsed: failed.Elapsed,
		Tail: n.p.secrets.text(strings.Join(failed.Tail, "\n")), Err: n.p.withoutSecrets(failed.Err),
	}
}

// A phaseOutput hands on what phases print, with a prefix that says of what and of which.
type phaseOutput struct {
	out *output
	of  string // "node 0"

	mu    sync.Mutex
	lines []*lineWriter
}

func (o *phaseOutput) writer(phase string) io.Writer {
	w, _ := o.out.writers(o.of + " " + phase)
	if w == nil {
		return io.Discard
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, w)
	return w
}

// flush hands on what has no end of line yet, once the phases are over.
func (o *phaseOutput) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.lines {
		w.flush()
	}
}
