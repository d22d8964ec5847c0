package output

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// longestLine bounds how many bytes of a line are held back until its end comes. A longer one is cut in two.
const longestLine = 64 << 10

// Lines writes a prefix before every line of one stream, and shows progress: the states of a line that returns to its
// start. Writing never fails: an error of the user's writer must not end the task. It may be used from several
// goroutines. A nil one discards everything.
type Lines struct {
	printer  *Printer
	w        io.Writer
	from     Source
	stderr   bool
	prefix   string
	terminal bool // each state of a line overwrites the one before

	mu       sync.Mutex // taken before printer.mu
	held     []byte     // an incomplete line; of progress, its last state
	progress progress
}

// Write shows the lines that are complete and holds back the rest.
func (l *Lines) Write(p []byte) (int, error) {
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
	l.printer.write(l, lines.Bytes())
	return len(p), nil
}

// hold keeps the beginning of a line, and reports whether it is short enough for that. For a line that returns to its
// start, it keeps only the last state, unless lines are shown raw.
func (l *Lines) hold(p []byte) bool {
	if bytes.IndexByte(p, '\r') >= 0 || l.progress.on {
		held := append(l.held, p...)
		if !l.printer.raw {
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

// lastState returns the offset at which the last state of a line begins. Carriage returns at the end belong to the
// state before them.
func lastState(line []byte) int {
	return bytes.LastIndexByte(bytes.TrimRight(line, "\r"), '\r') + 1
}

// Flush shows a last line that has no end.
func (l *Lines) Flush() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == 0 && !(l.printer.raw && l.progress.on) { // raw progress lacks its line's end
		l.progress.stop()
		return
	}
	var lines bytes.Buffer
	l.line(&lines, nil)
	l.printer.write(l, lines.Bytes())
}

// line appends a complete line to a buffer: what was held, and its end.
func (l *Lines) line(to *bytes.Buffer, end []byte) {
	line := string(l.held) + string(end)
	l.held = l.held[:0]
	if told := l.printer.told; told != nil {
		told(Line{Source: l.from, At: time.Now(), Stderr: l.stderr, Text: l.printer.secrets.line(line)})
	}
	if l.printer.raw {
		line = strings.TrimSuffix(l.printer.secrets.raw(line), "\n")
	} else {
		line = l.printer.secrets.line(line)
	}
	shown := l.progress.stop()
	if shown == line && line != "" && !l.terminal {
		return // its last state was shown as a line already
	}
	to.WriteString(l.prefix)
	to.WriteString(line)
	to.WriteByte('\n')
}

// state returns the held line as far as it can be shown: without an end that may be the beginning of a secret or part
// of a character.
func (l *Lines) state() string {
	held := string(l.held)
	if strings.HasSuffix(held, "\r") {
		return l.printer.secrets.line(held)
	}
	for i := 1; i < utf8.UTFMax && i <= len(held); i++ {
		if tail := held[len(held)-i:]; utf8.RuneStart(tail[0]) && !utf8.FullRuneInString(tail) {
			held = held[:len(held)-i]
			break
		}
	}
	held = held[:len(held)-l.printer.secrets.begun(held)]
	state := l.printer.secrets.line(held)
	return state[:len(state)-l.printer.secrets.begun(state)]
}
