package output

import (
	"io"
	"os"
	"runtime"
	"time"
)

// A stream keeps a terminal's last line for statusTurn before another stream that has progress takes it.
const statusTurn = time.Second

// A statusLine is the last line of a terminal, below all complete lines: the progress of one stream. The cursor stays
// at its start, so that the program's own output overwrites it. It is guarded by Printer.mu.
type statusLine struct {
	owner *Lines    // nil if there is no status
	since time.Time // when the owner took it
	text  []byte
}

// Sequences for a terminal (ECMA-48, and DEC's private mode 7) around a state: the old text is erased, and what does not
// fit is cut off instead of wrapped.
const (
	eraseLine = "\x1b[K"
	noWrap    = "\x1b[?7l"
	wrap      = "\x1b[?7h"
)

// draw shows a state in the last line of l's terminal. If another stream has that line, it returns for how long.
func (p *Printer) draw(l *Lines, state string) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.status
	if s.owner != l {
		if wait = statusTurn - time.Since(s.since); s.owner != nil && wait > 0 {
			return wait
		}
		s.owner, s.since = l, time.Now()
	}
	s.text = []byte(eraseLine + noWrap + l.prefix + state + wrap + "\r")
	s.redraw()
	return 0
}

// above returns the bytes that put lines of l above the status. A status of l itself ends.
func (s *statusLine) above(l *Lines, lines []byte) []byte {
	if s.owner == nil {
		return lines
	}
	if s.owner == l {
		s.owner = nil
	}
	return append([]byte(eraseLine), lines...)
}

// redraw shows the status again, below what was written.
func (s *statusLine) redraw() {
	if s.owner != nil {
		s.owner.w.Write(s.text)
	}
}

// isTerminal reports whether w is a terminal that can erase a line. A Windows console has to be switched to that first,
// which is left to the program.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || runtime.GOOS == "windows" || os.Getenv("TERM") == "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
