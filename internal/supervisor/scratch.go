package supervisor

import (
	"crypto/rand"
	"strconv"
)

// scratch is what is known of scratch directories. Their names are never used
// twice, also not by another program that takes the pool over. Node.mu guards it.
type scratch struct {
	prefix     string
	used, made int               // so many names were given out, and made ahead
	of         map[string]string // their names by task
	letGo      map[string]bool   // tasks that were released before they ended
	over       map[string]litter // what is to be removed of tasks that ended before they were released
	much       map[string]bool   // where that is much
}

func newScratch() scratch {
	return scratch{
		prefix: rand.Text()[:10], of: map[string]string{}, letGo: map[string]bool{},
		over: map[string]litter{}, much: map[string]bool{},
	}
}

// scratchAhead is how many a shell makes at once: one process on the node.
const scratchAhead = 32

// scratch gives a task the name of a directory. Where it is not there yet, since
// a connection was cut, the node makes it with the task.
func (n *Node) scratch(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := &n.scratchs
	if name := s.of[id]; name != "" {
		return name
	}
	if s.used == s.made && n.control != nil && !n.control.runner {
		c := newCall("dirs")
		for range scratchAhead {
			s.made++
			c.args(s.name(s.made))
		}
		n.control.send(c)
	}
	s.used++
	s.made = max(s.made, s.used)
	s.of[id] = s.name(s.used)
	return s.of[id]
}

func (s *scratch) name(i int) string { return s.prefix + "-" + strconv.Itoa(i) }

// Scratch returns the absolute path of a task's scratch directory, from Run until
// Release, or "" where it has none.
func (n *Node) Scratch(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name := n.scratchs.of[id]; name != "" {
		return n.facts.Root + "/s/" + name
	}
	return ""
}

// Marker returns the absolute path of a file that was written when a task with
// Spec.Mark began. It is there as long as the scratch directory.
func (n *Node) Marker(id string) string { return n.facts.Root + "/t/" + id + ".start" }

// Release has a task's scratch directory removed, and what the node knows of the
// task: soon, and many at once, or by Close at the latest. A task that still runs
// keeps its own until it has ended.
func (n *Node) Release(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := &n.scratchs
	if s.of[id] == "" {
		return
	}
	s.letGo[id] = true
	if n.tasks[id] == nil {
		n.letGo(id)
	}
}

// letGo removes what a task that is over was released from. n.mu is held.
func (n *Node) letGo(id string) {
	s := &n.scratchs
	if !s.letGo[id] {
		return
	}
	l, much := s.over[id], s.much[id]
	l.dirs = []string{s.of[id]}
	delete(s.of, id)
	delete(s.letGo, id)
	delete(s.over, id)
	delete(s.much, id)
	n.soil(l, much)
}
