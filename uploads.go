package gputrain

import (
	"container/list"
	"path"
	"slices"
)

// An upload is a file or folder that every node has, also one that joins later.
type upload keptFiles

// uploads are what a node that joins is sent, in order. An upload that a later one makes
// useless is not among them: an earlier one of the same thing to the same path, and a file
// in whose place another file was put. Several folders at one path are merged there, so
// all of them stay, and so does a file that went into a folder, before or after it. The zero
// value is empty.
type uploads struct {
	list  list.List // of *sent, by ascending number
	paths map[string][]*list.Element
	last  int // number of the newest
}

// A sent is an upload and its number: a later one has a higher one.
type sent struct {
	upload
	number     int
	superseded bool // by a later one
}

// add appends an upload. It reports false where all of them come to the same as before.
func (s *uploads) add(up upload) (changed bool) {
	at := path.Clean(up.Remote)
	newest := s.list.Back()
	same := false
	keep := slices.DeleteFunc(s.paths[at], func(e *list.Element) bool {
		old := e.Value.(*sent)
		switch {
		case old.upload == up:
			same = same || e == newest
		case !old.File || !up.File:
			return false
		}
		old.superseded = true
		s.list.Remove(e)
		return true
	})
	s.last++
	if s.paths == nil {
		s.paths = map[string][]*list.Element{}
	}
	s.paths[at] = append(keep, s.list.PushBack(&sent{upload: up, number: s.last}))
	return !same
}

// after returns those with a higher number.
func (s *uploads) after(number int) (later []*sent) {
	for e := s.list.Back(); e != nil && e.Value.(*sent).number > number; e = e.Prev() {
		later = append(later, e.Value.(*sent))
	}
	slices.Reverse(later)
	return later
}

// join makes the node ready, once it has every upload that the others have.
func (n *poolNode) join() error {
	for done := 0; ; {
		n.p.mu.Lock()
		later := n.p.uploads.after(done)
		if len(later) == 0 {
			n.enterLocked(NodeReady, nil)
			n.p.fillLocked(n)
			n.p.mu.Unlock()
			return nil
		}
		n.p.mu.Unlock()
		for _, up := range later {
			if err := n.upload(n.ctx, up.upload); err != nil && !n.p.isSuperseded(up) {
				return err
			}
			done = up.number
		}
	}
}

// isSuperseded reports whether a later upload has made this one useless by now.
func (p *pool) isSuperseded(up *sent) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return up.superseded
}
