package gputrain

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// longestLine is how much of a line is held back while its end is awaited.
const longestLine = 64 << 10

// output is where the lines of all tasks meet, one at a time.
type output struct {
	mu             sync.Mutex
	stdout, stderr io.Writer
	raw            bool // lines are shown as they came
	secrets        *redactor
	status         statusLine // of the terminals among stdout and stderr
}

func newOutput(o options, secrets *redactor) *output {
	return &output{stdout: o.stdout, stderr: o.stderr, raw: o.rawOutput, secrets: secrets}
}

// live reports whether anybody watches.
func (o *output) live() bool { return o.stdout != nil || o.stderr != nil }

// writers returns the two streams of one task. Either is nil where nobody watches.
func (o *output) writers(label string) (stdout, stderr *lineWriter) {
	make := func(w io.Writer) *lineWriter {
		if w == nil {
			return nil
		}
		l := &lineWriter{o: o, w: w, prefix: "[" + label + "] ", terminal: !o.raw && isTerminal(w)}
		l.progress.every = progressOnTerminals
		if !o.raw && !l.terminal {
			l.progress.every = progressElsewhere
		}
		return l
	}
	return make(o.stdout), make(o.stderr)
}

// A lineWriter puts a prefix before every line, and shows the states of a line that
// returns to its start. It never fails: what a user's writer does with the lines must not
// end the task.
type lineWriter struct {
	o        *output
	w        io.Writer
	prefix   string
	terminal bool // states of a line are written over one another

	mu       sync.Mutex // taken before o.mu
	held     []byte     // a line whose end has not come; of states, the last
	progress progress
}

func (l *lineWriter) Write(p []byte) (int, error) {
	if l == nil {
		return len(p), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines bytes.Buffer
	rest := p
	for len(rest) > 0 {
		i := bytes.IndexByte(rest, '\n') + 1
		if i == 0 && l.hold(rest) {
			break
		}
		if i == 0 {
			i = len(rest)
		}
		l.line(&lines, rest[:i])
		rest = rest[i:]
	}
	l.o.write(l, lines.Bytes())
	return len(p), nil
}

// hold keeps the beginning of a line, and reports whether it is short enough. Of one
// that returns to its start only the last state is of use, unless all is to be shown.
func (l *lineWriter) hold(p []byte) bool {
	if bytes.IndexByte(p, '\r') >= 0 || l.progress.on {
		held := append(l.held, p...)
		if !l.o.raw {
			held = held[lastState(held):]
		}
		if len(held) < longestLine {
			l.held = held
			l.progressed()
			return true
		}
		return false
	}
	if len(l.held)+len(p) >= longestLine {
		return false
	}
	l.held = append(l.held, p...)
	return true
}

// lastState returns where the last state of a line begins. Carriage returns at the end
// belong to the state before them.
func lastState(line []byte) int {
	return bytes.LastIndexByte(bytes.TrimRight(line, "\r"), '\r') + 1
}

// flush prints a last line that has no end.
func (l *lineWriter) flush() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == 0 && !(l.o.raw && l.progress.on) { // whose last state has no end yet
		l.progress.stop()
		return
	}
	var lines bytes.Buffer
	l.line(&lines, nil)
	l.o.write(l, lines.Bytes())
}

func (l *lineWriter) line(to *bytes.Buffer, end []byte) {
	line := string(l.held) + string(end)
	l.held = l.held[:0]
	if l.o.raw {
		line = strings.TrimSuffix(l.o.secrets.raw(line), "\n")
	} else {
		line = l.o.secrets.line(line)
	}
	shown := l.progress.stop()
	if shown == line && line != "" && !l.terminal {
		return // it stands there as a line already
	}
	to.WriteString(l.prefix)
	to.WriteString(line)
	to.WriteByte('\n')
}

// state is the line that is held as far as it can be shown: without what may be the
// beginning of a secret, or of a character.
func (l *lineWriter) state() string {
	held := string(l.held)
	if strings.HasSuffix(held, "\r") {
		return l.o.secrets.line(held)
	}
	for i := 1; i < utf8.UTFMax && i <= len(held); i++ {
		if tail := held[len(held)-i:]; utf8.RuneStart(tail[0]) && !utf8.FullRuneInString(tail) {
			held = held[:len(held)-i]
			break
		}
	}
	held = held[:len(held)-l.o.secrets.begun(held)]
	state := l.o.secrets.line(held)
	return state[:len(state)-l.o.secrets.begun(state)]
}

// write writes whole lines to the user's writer.
func (o *output) write(l *lineWriter, lines []byte) {
	if len(lines) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if l.terminal {
		lines = o.status.above(l, lines)
	}
	l.w.Write(lines)
	if l.terminal {
		o.status.redraw()
	}
}
