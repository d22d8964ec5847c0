package gputrain

import (
	"errors"
	"fmt"
	"io"
	"strings"
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
	var lines []*lineWriter
	var base bootstrap.Base
	err := bootstrap.Run(n.ctx, n.super, n.remote.Sync, bootstrap.Image(n.p.spec.Image), bootstrap.Options{
		Output: func(phase string) io.Writer {
			w, _ := n.p.out.writers(fmt.Sprintf("node %d %s", n.rank(), phase))
			if w == nil {
				return io.Discard
			}
			lines = append(lines, w)
			return w
		},
		Base: func(b bootstrap.Base) { base = b },
		Event: func(phase string, state bootstrap.State, elapsed time.Duration) {
			n.p.events.emit(Event{Kind: EventPhase, Node: n.rank(), Phase: phase, State: state.String(), Elapsed: elapsed})
		},
	})
	for _, w := range lines {
		w.flush()
	}
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
