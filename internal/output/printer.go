package output

import (
	"io"
	"sync"
	"time"
)

// A Printer writes the lines of all tasks to the user's writers, one write at a time.
type Printer struct {
	stdout, stderr io.Writer
	raw            bool // lines are shown unchanged, except for secrets
	secrets        *Redactor
	told           func(Line) // nil without a taker

	mu     sync.Mutex // held while a user's writer is called
	status statusLine // of the terminals among stdout and stderr
}

// NewPrinter returns a printer to stdout and stderr; output for a nil writer is not shown. With raw, lines keep their
// terminal sequences and carriage returns. Secrets are removed in either case.
func NewPrinter(stdout, stderr io.Writer, raw bool, secrets *Redactor) *Printer {
	return &Printer{stdout: stdout, stderr: stderr, raw: raw, secrets: secrets}
}

// A Source identifies a task, a phase or a node that prints. Each of its lines begins with its Label.
type Source struct {
	Label      string
	Node       int // the node's rank, or -1
	Task, Name string
	Attempt    int
	Phase      string
}

// A Line is a line that was printed, without secrets and without what controls a terminal.
type Line struct {
	Source
	At     time.Time
	Stderr bool
	Text   string
}

// Tell has told be called with each line, beside the user's writers. It is called before the first line. told must not block.
func (p *Printer) Tell(told func(Line)) { p.told = told }

// Live reports whether anything is shown, or told.
func (p *Printer) Live() bool { return p.stdout != nil || p.stderr != nil || p.told != nil }

// Lines returns the two streams of a source. Each line begins with "[label] ". A stream without a writer or a taker is nil: it
// discards what is written to it.
func (p *Printer) Lines(from Source) (stdout, stderr *Lines) {
	return p.lines(from, p.stdout, false), p.lines(from, p.stderr, true)
}

func (p *Printer) lines(from Source, w io.Writer, stderr bool) *Lines {
	if w == nil && p.told == nil {
		return nil
	}
	if w == nil {
		w = io.Discard
	}
	l := &Lines{printer: p, w: w, from: from, stderr: stderr, prefix: "[" + from.Label + "] ", terminal: !p.raw && isTerminal(w)}
	l.progress.every = progressOnTerminals
	if !p.raw && !l.terminal {
		l.progress.every = progressElsewhere
	}
	return l
}

// write writes whole lines to the user's writer.
func (p *Printer) write(l *Lines, lines []byte) {
	if len(lines) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.terminal {
		lines = p.status.above(l, lines)
	}
	l.w.Write(lines)
	if l.terminal {
		p.status.redraw()
	}
}
