package gputrain

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// longestLine is how much of a line is held back while its end is awaited.
const longestLine = 64 << 10

// output is where the lines of all tasks meet, one at a time.
type output struct {
	mu             sync.Mutex
	stdout, stderr io.Writer
	raw            bool // lines are shown as they came
	secrets        *redactor
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
		return &lineWriter{o: o, w: w, prefix: "[" + label + "] "}
	}
	return make(o.stdout), make(o.stderr)
}

// A lineWriter puts a prefix before every line. It never fails: what a user's
// writer does with the lines must not end the task.
type lineWriter struct {
	o      *output
	w      io.Writer
	prefix string
	held   []byte // a line whose end has not come
}

func (l *lineWriter) Write(p []byte) (int, error) {
	if l == nil {
		return len(p), nil
	}
	var lines bytes.Buffer
	rest := p
	for len(rest) > 0 {
		i := bytes.IndexByte(rest, '\n') + 1
		if i == 0 && len(l.held)+len(rest) < longestLine {
			l.held = append(l.held, rest...)
			break
		}
		if i == 0 {
			i = len(rest)
		}
		l.line(&lines, rest[:i])
		rest = rest[i:]
	}
	l.flushTo(&lines)
	return len(p), nil
}

// flush prints a last line that has no end.
func (l *lineWriter) flush() {
	if l == nil || len(l.held) == 0 {
		return
	}
	var lines bytes.Buffer
	l.line(&lines, nil)
	l.flushTo(&lines)
}

func (l *lineWriter) line(to *bytes.Buffer, end []byte) {
	line := string(l.held) + string(end)
	l.held = l.held[:0]
	if l.o.raw {
		line = strings.TrimSuffix(l.o.secrets.raw(line), "\n")
	} else {
		line = l.o.secrets.line(line)
	}
	to.WriteString(l.prefix)
	to.WriteString(line)
	to.WriteByte('\n')
}

func (l *lineWriter) flushTo(lines *bytes.Buffer) {
	if lines.Len() == 0 {
		return
	}
	l.o.mu.Lock()
	defer l.o.mu.Unlock()
	l.w.Write(lines.Bytes())
}
