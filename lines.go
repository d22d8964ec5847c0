package gputrain

import (
	"time"

	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/printable"
)

// A Line is one line that a task or a phase has printed, without secrets, colours and whatever else controls a terminal.
type Line struct {
	Time time.Time
	// Pool is the pool's ID, and Node the rank of the node, or -1.
	Pool string
	Node int
	// Task, Name and Attempt are those of the task's events. They are empty for what functions in one process have printed at
	// the same time, see [Func], and for phases.
	Task, Name string
	Attempt    int
	// Phase is the phase that has printed it.
	Phase  string
	Stderr bool
	Text   string
	// Omitted is how many lines were left out, in a Line in their place that has nothing else.
	Omitted int

	mark bool // it stands for lines that were left out
}

// WithLines calls f for each line of tasks and phases, as it comes, one at a time, beside what [WithOutput] writes. It may be
// given several times; each f has its own pace. At most 10 000 lines, of 32 MiB, wait for a slow f. Beyond that the older half is left
// out, and a Line in its place counts them.
func WithLines(f func(Line)) Option {
	return func(o *options) {
		if f != nil {
			o.lines = append(o.lines, f)
		}
	}
}

// lineBacklog says which lines are left out if too many wait.
var lineBacklog = output.Backlog[Line]{
	Most: []int{eventKept: 0, eventRoutine: 10_000}, Bytes: 32 << 20, Size: func(l *Line) int { return len(l.Text) },
	Class: func(l *Line) output.Class {
		if l.mark {
			return eventKept
		}
		return eventRoutine
	},
	Mark: func(first *Line) Line { return Line{Time: first.Time, Pool: first.Pool, Node: -1, mark: true} },
	Omitted: func(l *Line) *int {
		if !l.mark {
			return nil
		}
		return &l.Omitted
	},
}

// lines hands what is printed to the user's functions.
type lines struct {
	pool   string
	takers []*output.Events[Line]
}

func newLines(pool string, sinks []func(Line)) *lines {
	l := &lines{pool: pool}
	for _, sink := range sinks {
		l.takers = append(l.takers, output.NewEvents(lineBacklog, sink))
	}
	return l
}

// follow has what a printer is given told, if anyone takes it.
func (l *lines) follow(p *output.Printer) {
	if len(l.takers) == 0 {
		return
	}
	p.Tell(l.tell)
}

// tell passes a line on. Any text of it may be what a node says.
func (l *lines) tell(from output.Line) {
	told := printable.Each(Line{
		Time: from.At, Pool: l.pool, Node: from.Node, Task: from.Task, Name: from.Name, Attempt: from.Attempt, Phase: from.Phase, Stderr: from.Stderr,
	}, printable.Name)
	told.Text = printable.Message(printable.Line(from.Text))
	for _, t := range l.takers {
		t.Emit(told)
	}
}

// close returns when every line was delivered.
func (l *lines) close() {
	for _, t := range l.takers {
		t.Close()
	}
}
