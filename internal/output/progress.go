package output

import (
	"bytes"
	"time"
)

const (
	// On a terminal, where each state of a line overwrites the one before, a state is shown every progressOnTerminals.
	progressOnTerminals = 250 * time.Millisecond
	// In a file, where each state is a line of its own, a state is shown every progressElsewhere.
	progressElsewhere = 10 * time.Second
)

// A progress is the shown part of a line that returns to its start, state by state. It is guarded by the mutex of its
// Lines.
type progress struct {
	every time.Duration // the least time between two states
	on    bool          // the held line has had a carriage return
	shown string        // the state that was shown last, or ""
	timer *time.Timer   // shows the next state; nil if none is due
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

// progressed notes a new state, which is shown within progress.every. l.mu is held.
func (l *Lines) progressed() {
	l.progress.on = true
	if l.progress.timer == nil {
		l.showIn(l.progress.every)
	}
}

// showIn shows the state that the line has after wait. l.mu is held.
func (l *Lines) showIn(wait time.Duration) {
	var t *time.Timer
	t = time.AfterFunc(wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.progress.timer == t { // otherwise the line has ended meanwhile
			l.progress.timer = nil
			l.show()
		}
	})
	l.progress.timer = t
}

// show shows the state that is held. l.mu is held.
func (l *Lines) show() {
	if l.printer.raw {
		l.showRaw()
		return
	}
	state := l.state()
	if state == "" || state == l.progress.shown {
		return
	}
	if !l.terminal {
		l.progress.shown = state
		l.printer.write(l, []byte(l.prefix+state+"\n"))
		return
	}
	if wait := l.printer.draw(l, state); wait > 0 {
		l.showIn(wait)
		return
	}
	l.progress.shown = state
}

// showRaw shows unchanged everything up to the last carriage return.
func (l *Lines) showRaw() {
	n := bytes.LastIndexByte(l.held, '\r') + 1
	if n == 0 {
		return
	}
	states := l.printer.secrets.raw(string(l.held[:n]))
	l.held = append(l.held[:0], l.held[n:]...)
	l.printer.write(l, []byte(l.prefix+states))
}
