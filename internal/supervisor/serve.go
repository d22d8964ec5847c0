package supervisor

import (
	"errors"
	"fmt"
	"time"
)

// serve reads the frames of one control session until it ends. It never waits
// for a sink, so that one slow task does not hold up the others.
func (n *Node) serve(k *control) error {
	for {
		f, err := k.frames.next()
		if err == nil {
			n.heard.Store(time.Now().UnixNano())
			err = n.handle(k, &f)
		}
		if err != nil {
			return err
		}
	}
}

// handle takes one frame.
//
//	S id        the command runs
//	G id        it runs, and its output goes to files
//	U id        the task was never started
//	D id ...    the task has ended, see parseDone
//	O, X        a piece of output
//	Z id s n    stream s of a finished task is n bytes long
//	P token     the answer to a poll is complete
//	V id        the task's wrapper is dead and left no status
//	W id        the task has no wrapper yet
//	M id        the task's wrapper does not seem to be at it
//	A           the answer to a look for such is complete
//	B           the answer to a beat
//	K token     what was to be swept before it is being removed
//	I id o dir  the answer to a list has a task that is over (1) or not (0)
//	J           the answer to a list is complete
func (n *Node) handle(k *control, f *frame) error {
	switch f.kind {
	case 'P':
		n.polled(f.id())
		return nil
	case 'A':
		n.looked()
		return nil
	case 'B':
		n.beaten()
		return nil
	case 'K':
		n.swept(f.id())
		return nil
	case 'F', 'H', 'E', 'I', 'J':
		return fmt.Errorf("%w: frame %q, unasked", errFrame, f.kind)
	}
	n.mu.Lock()
	t := n.tasks[f.id()]
	n.mu.Unlock()
	if t == nil {
		return nil // one that nobody waits for any more
	}
	switch f.kind {
	case 'S':
		t.begin(false)
	case 'G':
		t.begin(true)
		n.notice()
	case 'U':
		n.mu.Lock()
		t.questions--
		unasked := t.questions < 0
		n.mu.Unlock()
		if unasked {
			return fmt.Errorf("%w: it says of %s, unasked, that it does not know it", errFrame, t.id)
		}
		n.restart(k, t)
	case 'D':
		ask, err := t.done(f.line)
		if err != nil {
			return err
		}
		if ask {
			n.notice()
		}
	case 'O', 'X':
		return t.deliver(f)
	case 'Z':
		if err := t.measured(f.words); err != nil {
			return err
		}
		n.notice()
	case 'V', 'W', 'M':
		if !n.missing(t, f.kind == 'M') {
			return nil
		}
		if f.kind == 'W' { // the node could not fork
			n.restart(k, t)
			return nil
		}
		k.send(newCall("reap", t.id))
		t.vanish()
		n.notice()
	default:
		return fmt.Errorf("%w: frame %q", errFrame, f.kind)
	}
	return nil
}

// restart sends a start again. It is idempotent: the first one may have been
// lost with a connection, or still be on its way.
func (n *Node) restart(k *control, t *task) {
	if t.startCall == nil { // it was found, but is gone
		t.lose(fmt.Errorf("task %s: %w", t.id, ErrUnknownTask))
		return
	}
	n.mu.Lock()
	t.resent = true
	if t.restarts++; t.restarts < mostRestarts {
		t.clock.Restart() // the first one may never have come
	}
	n.mu.Unlock()
	if t.cancelled() {
		k.send(t.cancelCall)
	} else {
		k.send(t.startCall)
	}
}

// mostRestarts bounds how often a task's time may begin again, for a connection that is
// cut each time before its start was read.
const mostRestarts = 8

// missing notes that a task's wrapper was not found, and reports whether that
// counts. It may not be there yet, or its last ring may be on its way behind this
// answer: only the second time in a row does. Where a process is there that only
// does not seem to be at the task, a busy node may not have let it come to that:
// it takes many times.
func (n *Node) missing(t *task, doubtful bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.missed != n.poll.looks-1 {
		t.misses = 0
	}
	t.missed = n.poll.looks
	t.misses++
	if doubtful {
		return t.misses >= doubtfulLooks
	}
	return t.misses >= 2
}

// doubtfulLooks are some 20 seconds.
const doubtfulLooks = 20

// forget takes a task that is over off the list, and has its files removed.
func (n *Node) forget(t *task, size int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.tasks, t.id)
	s := &n.scratchs
	kept := s.of[t.id] != "" && !s.letGo[t.id]
	n.letGo(t.id)
	l := litter{tasks: []string{t.id}}
	if t.resent {
		// One start may still be on its way: what makes it harmless must stay.
		l = litter{outputs: []string{t.id}}
	}
	if kept { // until Release
		s.over[t.id], s.much[t.id] = l, size >= sweepBytes
		return
	}
	n.soil(l, size >= sweepBytes)
}

// abandon stops waiting for a task that was to be cancelled but does not
// report its end. If the node comes back it is told again.
func (n *Node) abandon(t *task) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.tasks, t.id)
	n.letGo(t.id)
	n.orphans[t.id] = t.cancelCall
}

// register puts a task on the list. Only one of each id can be there.
func (n *Node) register(t *task) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.Err(); err != nil {
		return fmt.Errorf("task %s: %w", t.id, err)
	}
	if n.tasks[t.id] != nil {
		return errors.New("task " + t.id + " is running already")
	}
	n.tasks[t.id] = t
	t.questions += 2 // its start or state, and a cancel
	if len(n.tasks) == 1 {
		n.notice()
	}
	if n.control != nil {
		if t.startCall != nil {
			n.control.send(t.startCall)
		} else {
			n.control.send(newCall("state", t.id))
		}
	}
	return nil
}
