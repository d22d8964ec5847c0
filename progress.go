package gputrain

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"time"
)

const (
	// progressOnTerminals is how often the states of a line are shown where one is
	// written over another.
	progressOnTerminals = 250 * time.Millisecond
	// progressElsewhere is that where each is a line of its own, as in a file.
	progressElsewhere = 10 * time.Second
	// statusTurn is how long a terminal's last line belongs to one stream before another
	// that has progress takes it.
	statusTurn = time.Second
)

// A progress is what is shown of a line that returns to its start, state by state. It is
// guarded by the lineWriter's mu.
type progress struct {
	every time.Duration // how often states are shown at most
	on    bool          // the line that is held has had a carriage return
	shown string        // the state that was shown last, empty if none was
	timer *time.Timer   // shows the next one, nil while there is none
}

// stop ends a line, and returns the state of it that was shown last.
func (p *progress) stop() string {
	shown := p.shown
	if p.timer != nil {
		p.timer.Stop()
	}
	p.on, p.shown, p.timer = false, "", nil
	return shown
}

// progressed has what is held shown soon. l.mu is held.
func (l *lineWriter) progressed() {
	l.progress.on = true
	if l.progress.timer == nil {
		l.showIn(l.progress.every)
	}
}

// showIn has the state of that time shown. l.mu is held.
func (l *lineWriter) showIn(wait time.Duration) {
	var t *time.Timer
	t = time.AfterFunc(wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.progress.timer == t { // or the line has ended meanwhile
			l.progress.timer = nil
			l.show()
		}
	})
	l.progress.timer = t
}

// show shows the state that is held. l.mu is held.
func (l *lineWriter) show() {
	if l.o.raw {
		l.showRaw()
		return
	}
	state := l.state()
	if state == "" || state == l.progress.shown {
		return
	}
	if !l.terminal {
		l.progress.shown = state
		l.o.write(l, []byte(l.prefix+state+"\n"))
		return
	}
	if wait := l.o.draw(l, state); wait > 0 {
		l.showIn(wait)
		return
	}
	l.progress.shown = state
}

// showRaw shows what came up to the last carriage return, as it came.
func (l *lineWriter) showRaw() {
	n := bytes.LastIndexByte(l.held, '\r') + 1
	if n == 0 {
		return
	}
	states := l.o.secrets.raw(string(l.held[:n]))
	l.held = append(l.held[:0], l.held[n:]...)
	l.o.write(l, []byte(l.prefix+states))
}

// A statusLine is the last line of a terminal: the state of one stream's progress, below
// all whole lines. The cursor stays at its start, so that what the program itself prints
// there takes its place. It is guarded by the output's mu.
type statusLine struct {
	owner *lineWriter // nil if there is none
	since time.Time   // when the owner took it
	text  []byte
}

// What a terminal (ECMA-48, and DEC's private mode 7) is told around a state: what stands
// there goes, and what does not fit is cut off rather than wrapped.
const (
	eraseLine = "\x1b[K"
	noWrap    = "\x1b[?7l"
	wrap      = "\x1b[?7h"
)

// draw shows a state in the last line of l's terminal, or returns how long another
// stream still has that.
func (o *output) draw(l *lineWriter, state string) (wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &o.status
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

// above returns what puts lines of l in the place of the status, which ends if it is l's.
func (s *statusLine) above(l *lineWriter, lines []byte) []byte {
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

// isTerminal reports whether w is a terminal that can be told to erase a line. A console
// of Windows has to be switched to that first, which is the program's affair.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || runtime.GOOS == "windows" || os.Getenv("TERM") == "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
