package bootstrap

import (
	"bytes"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/printable"
)

const (
	tailLines = 20
	tailWidth = 400 // bytes of a line; its end matters more than its start
)

// A tail keeps the last lines of what is written to it, in bounded memory. It
// may be written to from several goroutines.
type tail struct {
	redact func(string) string // removes secrets from a line; nil leaves it as it is

	mu    sync.Mutex
	lines []string
	line  []byte // the last bytes of the unfinished line
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		t.line = append(t.line, line[max(0, len(line)-2*tailWidth):]...)
		t.line = append(t.line[:0], t.line[max(0, len(t.line)-2*tailWidth):]...)
		if ended {
			t.flush()
		}
		rest = after
	}
	return len(p), nil
}

func (t *tail) flush() {
	line := string(t.line)
	if t.redact != nil {
		line = t.redact(line)
	}
	if line := clean(line); line != "" {
		t.lines = append(t.lines, line)
		t.lines = t.lines[max(0, len(t.lines)-tailLines):]
	}
	t.line = t.line[:0]
}

// Lines ends the last line and returns the kept lines.
func (t *tail) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush()
	return append([]string(nil), t.lines...)
}

// clean makes a line printable, and cuts it to tailWidth.
func clean(line string) string {
	line = strings.ReplaceAll(printable.Line(line), "\t", " ")
	line = strings.TrimRight(line, " ")
	if len(line) > tailWidth {
		line = "..." + strings.ToValidUTF8(line[len(line)-tailWidth:], "")
	}
	return line
}
