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
//	S id        the command was started
//	G id        the command is going, in answer to gt_state
//	U id        the task was never started
//	D id ...    the task has ended, see parseDone
//	O, X        a piece of output
//	Z id s n    stream s of a finished task is n bytes long
//	P token     the answer to a poll is complete
//	V id        the task's wrapper is dead and left no status
//	W id        the task has no wrapper yet
//	A           the answer to a look for such is complete
//	B           the answer to a beat
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
	case 'F', 'H', 'E':
		return errFrame
	}
	n.mu.Lock()
	t := n.tasks[f.id()]
	n.mu.Unlock()
	if t == nil {
		return nil // one that nobody waits for any more
	}
	switch f.kind {
	case 'S', 'G':
		t.begin()
	case 'U':
		n.restart(k, t)
	case 'D':
		if err := t.done(f.words); err != nil {
			return err
		}
		n.notice()
	case 'O', 'X':
		return t.deliver(f)
	case 'Z':
		if err := t.measured(f.words); err != nil {
			return err
		}
		n.notice()
	case 'V', 'W':
		if !n.missing(t) {
			return nil
		}
		if f.kind == 'W' { // the node could not fork
			n.restart(k, t)
			return nil
		}
		k.send(call("gt_reap", t.id).String())
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
	n.mu.Lock()
	t.resent = true
	n.mu.Unlock()
	if t.cancelled() {
		k.send(t.cancelLine)
	} else {
		k.send(t.startLine)
	}
}

// missing notes that a task's wrapper was not found. It may not be there yet,
// or its last ring may be on its way behind this answer: only the second time
// in a row counts.
func (n *Node) missing(t *task) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	again := t.missed > 0 && t.missed == n.poll.looks-1
	t.missed = n.poll.looks
	return again
}

// forget takes a task that is over off the list, and has its files removed:
// many at once, because that is one process on the node.
func (n *Node) forget(t *task, size int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.tasks, t.id)
	if t.resent {
		// One start may still be on its way: what makes it harmless must stay.
		if n.control != nil {
			n.control.send(call("gt_drop", t.id).String())
		}
		return
	}
	n.finished = append(n.finished, t.id)
	if len(n.finished) < forgetMany && size < forgetBytes || n.control == nil {
		return
	}
	many := n.finished[:min(len(n.finished), forgetMany)]
	n.finished = n.finished[len(many):]
	n.control.send(call("gt_forget", many...).String())
}

const (
	forgetMany  = 32
	forgetBytes = 64 << 10
)

// abandon stops waiting for a task that was to be cancelled but does not
// report its end. If the node comes back it is told again.
func (n *Node) abandon(t *task) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.tasks, t.id)
	n.orphans[t.id] = t.cancelLine
}

// register puts a task on the list. Only one of each id can be there.
func (n *Node) register(t *task) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tasks[t.id] != nil {
		return errors.New("task " + t.id + " is running already")
	}
	n.tasks[t.id] = t
	if n.control != nil {
		n.control.send(t.startLine)
	}
	return nil
}
