package supervisor

import (
	"crypto/rand"
	"strconv"
)

// scratch holds the names of scratch directories. A name is never used twice, not even by another program that takes
// the pool over. Node.mu guards it.
type scratch struct {
	prefix     string
	used, made int               // numbers of names given out, and of directories made ahead
	names      map[string]string // their names by task
	released   map[string]bool   // tasks that were released before they ended
	pending    map[string]litter // cleanup for tasks that ended before they were released
	much       map[string]bool   // tasks whose cleanup is much
}

func newScratch() scratch {
	return scratch{
		prefix: rand.Text()[:10], names: map[string]string{}, released: map[string]bool{},
		pending: map[string]litter{}, much: map[string]bool{},
	}
}

// A shell makes scratchAhead directories at once, with one process on the node.
const scratchAhead = 32

// give gives a task the name of a directory. If the directory does not exist yet, since a connection was cut, the node
// makes it with the task.
func (s *scratch) give(id string, k *control) string {
	if name := s.names[id]; name != "" {
		return name
	}
	if s.used == s.made && k != nil && !k.runner {
		c := newCall("dirs")
		for range scratchAhead {
			s.made++
			c.args(s.name(s.made))
		}
		k.send(c)
	}
	s.used++
	s.made = max(s.made, s.used)
	s.names[id] = s.name(s.used)
	return s.names[id]
}

// keep keeps a finished task's cleanup until Release, and reports whether it does: not if the task has no directory, or
// was released before.
func (s *scratch) keep(id string, l litter, much bool) bool {
	if s.names[id] == "" || s.released[id] {
		return false
	}
	s.pending[id], s.much[id] = l, much
	return true
}

// release releases a task, or does nothing if it has no directory.
func (s *scratch) release(id string) {
	if s.names[id] != "" {
		s.released[id] = true
	}
}

// take returns the cleanup of a task that is over and was released, once.
func (s *scratch) take(id string) (l litter, much, ok bool) {
	if !s.released[id] {
		return litter{}, false, false
	}
	l, much = s.pending[id], s.much[id]
	l.dirs = []string{s.names[id]}
	delete(s.names, id)
	delete(s.released, id)
	delete(s.pending, id)
	delete(s.much, id)
	return l, much, true
}

func (s *scratch) name(i int) string { return s.prefix + "-" + strconv.Itoa(i) }

// Scratch returns the absolute path of a task's scratch directory, from Run until Release, or "" if it has none.
func (n *Node) Scratch(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name := n.scratchs.names[id]; name != "" {
		return n.facts.Root + "/s/" + name
	}
	return ""
}

// Steps returns the path of the folder for a task's step files, which the command finds by the variable GPUTRAIN_STEPS. It
// exists as long as the task's scratch directory, beside it.
func Steps(scratch string) string { return scratch + ".steps" }

// Marker returns the absolute path of the file that was written when a task with Spec.Mark began. It exists as long as
// the scratch directory.
func (n *Node) Marker(id string) string { return n.facts.Root + "/t/" + id + ".start" }

// Release removes a task's scratch directory, and what the node knows of the task: soon, together with others, or by
// Close at the latest. A task that still runs keeps both until it has ended.
func (n *Node) Release(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.scratchs.release(id)
	if n.tasks[id] == nil {
		n.cleanReleased(id)
	}
}

// cleanReleased removes what a task left that is over and was released. n.mu is held.
func (n *Node) cleanReleased(id string) {
	if l, much, ok := n.scratchs.take(id); ok && n.cleanup.collect(n.control, l, much) {
		n.poll.notice() // the poller cleans up, if no more comes soon
	}
}
