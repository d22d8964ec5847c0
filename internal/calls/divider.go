package calls

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/overdue"
	"github.com/gputrain/gputrain/internal/worker"
)

// A divider divides the output of a worker's process among its calls. Output while one call runs belongs to that call;
// the rest is shown under the node's name.
type divider struct {
	runner  *attempt.Runner
	up      func() bool          // reports whether the node can be reached now
	hasten  func() (stop func()) // makes the client ask for output more often
	streams [2]*stream
	last    output.Tail   // of stderr
	ended   chan struct{} // closed when nothing more comes

	mu      sync.Mutex
	open    []*callOutput  // of calls under way
	grown   chan struct{}  // closed, and replaced, when something has come; nil without a waiter
	broken  bool           // the node lacks some of the output
	awaited worker.Printed // a call that is over waits, or has waited, for the output before this offset
}

// newDivider returns the divider of a process on a node, which is the source of what no call has printed.
func newDivider(r *attempt.Runner, node output.Source, up func() bool, hasten func() (stop func())) *divider {
	d := &divider{runner: r, up: up, hasten: hasten, ended: make(chan struct{})}
	outLines, errLines := r.Printer.Lines(node)
	for i, lines := range []*output.Lines{outLines, errLines} {
		d.streams[i] = &stream{divider: d, index: i, node: lines, parts: []part{{}}}
	}
	return d
}

// advance notes that bytes were given to their owner.
func (d *divider) advance(s *stream, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.given += int64(n)
	if d.grown != nil {
		close(d.grown)
		d.grown = nil
	}
}

// heard records output that belongs to no call alone: any of those under way may have printed it.
func (d *divider) heard(p []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.open {
		c.attempt.Printed(p)
	}
}

func (d *divider) assignLocked(owner *callOutput, from worker.Printed) {
	for i, s := range d.streams {
		s.assignLocked(owner, from[i])
	}
}

// begin makes what is printed from now on belong to a call, if no other one runs.
func (d *divider) begin(a *attempt.Attempt) *callOutput {
	c := d.newCall(a)
	d.mu.Lock()
	defer d.mu.Unlock()
	c.before = d.awaited
	d.open = append(d.open, c)
	if len(d.open) == 1 {
		d.assignLocked(c, worker.Printed{})
		return c
	}
	for _, c := range d.open {
		c.crowded = true
	}
	d.assignLocked(nil, worker.Printed{})
	return c
}

// A foundCall is a call that was found in a process. It has an output if it is wanted.
type foundCall struct {
	worker.HeldCall
	output *callOutput
}

// resume divides the whole output of a process that was found, before any of it is written: an earlier program has shown
// what comes before the oldest of its calls.
func (d *divider) resume(found []foundCall) {
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.SortStableFunc(found, func(a, b foundCall) int {
		return cmp.Or(cmp.Compare(a.From[0], b.From[0]), cmp.Compare(a.From[1], b.From[1]))
	})
	for _, s := range d.streams {
		s.parts = []part{{shown: true}}
	}
	for _, f := range found {
		d.assignLocked(nil, f.From)
		if f.output == nil {
			continue
		}
		f.output.crowded = !f.Alone
		if f.Alone {
			d.assignLocked(f.output, f.From)
		}
		if f.Alone && f.Finished {
			d.assignLocked(nil, f.To)
		}
		if !f.Finished {
			d.open = append(d.open, f.output)
		}
	}
}

// leave ends a call's part of the output at the offset that it returns. What follows may belong to the last other call.
// It reports whether the call must wait until all output before the offset was shown. It need not if calls that ended
// before it began wait for all of that. Otherwise a call that ran alone must, and so must the last of those that ran at
// the same time, if output is shown. So a call that prints without end holds up no other, and yet no output is missing
// when all are over.
func (d *divider) leave(c *callOutput, stats worker.Stats, goesOn bool) (at worker.Printed, waits bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at = stats.Printed
	silent := stats.Answered && at[0] <= c.before[0] && at[1] <= c.before[1]
	if !stats.Answered { // the process is dead, and this is all
		for i, s := range d.streams {
			at[i] = s.taken
		}
	}
	if goesOn {
		waits = stats.Answered && !c.crowded && !silent
	} else {
		d.removeLocked(c, at)
		waits = !silent && (!c.crowded || len(d.open) == 0 && d.runner.Printer.Live())
	}
	if waits {
		d.awaited = worker.Printed{max(d.awaited[0], at[0]), max(d.awaited[1], at[1])}
	}
	return at, waits
}

// removeLocked removes a call from those under way. What is printed from an offset on may belong to the last other call.
func (d *divider) removeLocked(c *callOutput, from worker.Printed) {
	i := slices.Index(d.open, c)
	if i < 0 {
		return // it was over when it was found
	}
	d.open = slices.Delete(d.open, i, i+1)
	switch len(d.open) {
	case 0:
		d.assignLocked(nil, from)
	case 1:
		d.assignLocked(d.open[0], from)
	}
}

// reached reports whether all before an offset was shown, and returns how much was shown. If not, grown is closed when
// more is.
func (d *divider) reached(to worker.Printed) (shown int64, all bool, grown <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all = true
	for i, s := range d.streams {
		shown += s.given
		all = all && s.given >= to[i]
	}
	if all {
		return shown, true, nil
	}
	if d.grown == nil {
		d.grown = make(chan struct{})
	}
	return shown, false, d.grown
}

const (
	// A node that can be reached, and sends less than outputLeast bytes of a function's output within outputPatience
	// and outputSlack, has not kept it: its disk may be full. No more output of that process is waited for.
	outputPatience = 10 * time.Second
	outputSlack    = 20 * time.Second
	outputLeast    = 64 << 10
	// After the end of its context, a call waits outputGrace longer for its output.
	outputGrace = 10 * time.Second
)

// await waits until all before an offset was shown. It reports false if that does not happen.
func (d *divider) await(ctx context.Context, to worker.Printed) bool {
	d.mu.Lock()
	broken := d.broken
	d.mu.Unlock()
	before, all, grown := d.reached(to)
	if all || broken {
		return all
	}
	defer d.hasten()()
	late := overdue.New(outputPatience, outputSlack, d.up)
	defer func() { late.Stop() }()
	done := ctx.Done()
	var hurry <-chan time.Time
	for !all {
		select {
		case <-grown:
		case <-d.ended:
			_, all, _ = d.reached(to)
			return all
		case <-done:
			done, hurry = nil, time.After(outputGrace)
		case <-hurry:
			return false
		case <-late.Due():
			if !late.Over() {
				continue
			}
			if d.giveUp() {
				return false
			}
			late = overdue.New(outputPatience, outputSlack, d.up)
		}
		var shown int64
		if shown, all, grown = d.reached(to); shown >= before+outputLeast {
			late.Restart()
			before = shown
		}
	}
	return true
}

// giveUp records that the node lacks some output. It reports false if the program's own writer has yet to take some.
func (d *divider) giveUp() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.streams {
		if s.taken > s.given {
			return false
		}
	}
	d.broken = true
	return true
}

// end ends both streams, when nothing more comes.
func (d *divider) end() {
	for _, s := range d.streams {
		s.end()
	}
	d.mu.Lock()
	open := slices.Clone(d.open)
	d.mu.Unlock()
	for _, c := range open {
		c.flush()
	}
	close(d.ended)
}
