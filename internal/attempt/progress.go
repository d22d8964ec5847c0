package attempt

import (
	"github.com/gputrain/gputrain/internal/steps"
)

// A Progress is told how far an attempt gets. Its methods are called from several goroutines, and do not block.
type Progress interface {
	// Step is called with each step that the attempt reports.
	Step(s steps.Step)
	// Output is called with what it prints, in pieces of any size. It does not keep p.
	Output(p []byte)
}

// Stepped records a step that the attempt has reported.
func (a *Attempt) Stepped(s steps.Step) {
	if c := a.Checkpoints; c != nil && c.Keeper != nil {
		c.Keeper.Reported(s.N)
	}
	a.step(s)
}

// Saved records that a checkpoint of a step has appeared. It counts as a step that the attempt has come to, but is no report: its
// name lets no other checkpoint be removed.
func (a *Attempt) Saved(step int64) { a.step(steps.Step{N: step, Rank: -1}) }

func (a *Attempt) step(s steps.Step) {
	a.Stall.step(s.N)
	if a.Progress != nil {
		a.Progress.Step(s)
	}
}

// Printed records that the attempt has printed something.
func (a *Attempt) Printed(p []byte) {
	a.Stall.output()
	if a.Progress != nil {
		a.Progress.Output(p)
	}
}

// A Listener finds steps in a stream of an attempt. A nil one ignores what is written to it.
type Listener struct {
	a     *Attempt
	lines steps.Writer
}

// Listen returns the listener for one stream of an attempt, or nil if the caller wants to know of no progress.
func (r *Runner) Listen(a *Attempt) *Listener {
	if a.Progress == nil && a.Stall == nil {
		return nil
	}
	return &Listener{a, steps.Writer{Found: a.Stepped, Clean: r.Secrets.Text}}
}

// Write never fails.
func (l *Listener) Write(p []byte) (int, error) {
	if l == nil || len(p) == 0 {
		return len(p), nil
	}
	l.a.Printed(p)
	return l.lines.Write(p)
}

// Flush reads a last line without an end.
func (l *Listener) Flush() {
	if l != nil {
		l.lines.Flush()
	}
}
