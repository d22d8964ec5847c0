package output

import (
	"io"
	"sync"
)

// A Printer writes the lines of all tasks to the user's writers, one write at a time.
type Printer struct {
	stdout, stderr io.Writer
	raw            bool // lines are shown unchanged, except for secrets
	secrets        *Redactor

	mu     sync.Mutex // held while a user's writer is called
	status statusLine // of the terminals among stdout and stderr
}

// NewPrinter returns a printer to stdout and stderr; output for a nil writer is not shown. With raw, lines keep their
// terminal sequences and carriage returns. Secrets are removed in either case.
func NewPrinter(stdout, stderr io.Writer, raw bool, secrets *Redactor) *Printer {
	return &Printer{stdout: stdout, stderr: stderr, raw: raw, secrets: secrets}
}

// Live reports whether anything is shown.
func (p *Printer) Live() bool { return p.stdout != nil || p.stderr != nil }

// Lines returns the two streams of one task, whose lines begin with "[label] ". A stream without a user's writer is
// nil, and a nil one discards what is written to it.
func (p *Printer) Lines(label string) (stdout, stderr *Lines) {
	return p.lines(label, p.stdout), p.lines(label, p.stderr)
}

func (p *Printer) lines(label string, w io.Writer) *Lines {
	if w == nil {
		return nil
	}
	l := &Lines{printer: p, w: w, prefix: "[" + label + "] ", terminal: !p.raw && isTerminal(w)}
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
