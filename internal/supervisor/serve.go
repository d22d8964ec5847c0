package supervisor

import (
	"errors"
	"fmt"
)

// handle handles one frame.
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
//	K token     the removal of what was to be swept before it has begun
//	I id o dir  the answer to a list has a task that is over (1) or not (0)
//	J           the answer to a list is complete
func (n *Node) handle(k *control, f *frame) error {
	n.mu.Lock()
	known, err := n.answered(f)
	t := n.tasks[f.id()]
	n.mu.Unlock()
	if known || err != nil || t == nil { // or no caller waits for it any more
		return err
	}
	switch f.kind {
	case 'S':
		t.begin(false)
	case 'G':
		t.begin(true)
		n.poll.notice()
	case 'U':
		n.mu.Lock()
		t.questions--
		unasked := t.questions < 0
		n.mu.Unlock()
		if unasked {
			return fmt.Errorf("%w: it reports, unasked, that it does not know %s", errFrame, t.id)
		}
		n.restart(k, t)
	case 'D':
		ask, err := t.done(f.line)
		if err != nil {
			return err
		}
		if ask {
			n.poll.notice()
		}
	case 'O', 'X':
		return t.deliver(f)
	case 'Z':
		if err := t.measured(f.words); err != nil {
			return err
		}
		n.poll.notice()
	case 'V', 'W', 'M':
		n.mu.Lock()
		gone := t.missing(n.poll.looks, f.kind == 'M')
		n.mu.Unlock()
		if !gone {
			return nil
		}
		if f.kind == 'W' { // the node could not fork
			n.restart(k, t)
			return nil
		}
		k.send(newCall("reap", t.id))
		t.vanish()
		n.poll.notice()
	default:
		return fmt.Errorf("%w: frame %q", errFrame, f.kind)
	}
	return nil
}

// answered handles a frame that is about no task, and reports whether it is one. n.mu is held.
func (n *Node) answered(f *frame) (bool, error) {
	switch f.kind {
	case 'P':
		n.poll.polled()
		n.poll.notice()
	case 'A':
		n.poll.looking = false
	case 'B':
		n.poll.beaten()
	case 'K':
		if n.cleanup.swept(f.id()) {
			n.poll.notice()
		}
	case 'F', 'H', 'E', 'I', 'J':
		return true, fmt.Errorf("%w: frame %q, unasked", errFrame, f.kind)
	default:
		return false, nil
	}
	return true, nil
}

// restart sends a start again. Starting is idempotent: the first call may have been lost with a connection, or may
// still arrive.
func (n *Node) restart(k *control, t *task) {
	if t.startCall == nil { // it was found, but is gone
		t.lose(fmt.Errorf("task %s: %w", t.id, ErrUnknownTask))
		return
	}
	n.mu.Lock()
	if t.again() {
		t.clock.Restart() // the first start may never have arrived
	}
	n.mu.Unlock()
	if end := t.ending(); end != nil {
		k.send(end)
	} else {
		k.send(t.startCall)
	}
}

// forget removes a finished task from the list, and its files.
func (n *Node) forget(t *task, size int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.tasks, t.id)
	l := litter{tasks: []string{t.id}}
	if t.resent {
		// One start may still arrive: the file that makes it harmless must stay.
		l = litter{outputs: []string{t.id}}
	}
	n.cleanReleased(t.id)
	if !n.scratchs.keep(t.id, l, size >= sweepBytes) && n.cleanup.collect(n.control, l, size >= sweepBytes) {
		n.poll.notice() // the poller cleans up, if no more comes soon
	}
}

// abandon stops waiting for a cancelled task that does not report its end. If the node comes back it is asked again to
// end it.
func (n *Node) abandon(t *task) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.tasks, t.id)
	n.cleanReleased(t.id)
	n.orphans[t.id] = t.cancelCall
}

// register adds a task to the list, unless it has one with the same id.
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
		n.poll.notice()
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
