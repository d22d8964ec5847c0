// Package uploads keeps the uploads to the nodes of a pool, for nodes that join later.
package uploads

import (
	"container/list"
	"path"
	"slices"

	"github.com/gputrain/gputrain/internal/transfer"
)

// An Upload is a file or folder that every node has, including those that join later.
type Upload struct {
	Local, Remote string
	Links         transfer.Links
	File          bool // Local was a file when it was uploaded
}

// A List is the uploads that a joining node is sent, in order. An upload leaves the list when a later one makes it
// useless: when the same thing is uploaded to the same path again, and when another file replaces a file. Folders that were
// uploaded to one path are merged there, so all of them stay, and so does a file that was put into a folder, before or
// after it. The zero value is empty. The caller guards a list and its items against concurrent use.
type List struct {
	items list.List // of *Item, by ascending number
	paths map[string][]*list.Element
	last  int // number of the newest
}

// An Item is an upload and its number: a later one has a higher one.
type Item struct {
	Upload
	Number     int
	Superseded bool // a later upload has made it useless
}

// Add appends an upload. It reports false if the list has the same effect as before.
func (l *List) Add(up Upload) (changed bool) {
	at := path.Clean(up.Remote)
	newest := l.items.Back()
	same := false
	keep := slices.DeleteFunc(l.paths[at], func(e *list.Element) bool {
		old := e.Value.(*Item)
		switch {
		case old.Upload == up:
			same = same || e == newest
		case !old.File || !up.File:
			return false
		}
		old.Superseded = true
		l.items.Remove(e)
		return true
	})
	l.last++
	if l.paths == nil {
		l.paths = map[string][]*list.Element{}
	}
	l.paths[at] = append(keep, l.items.PushBack(&Item{Upload: up, Number: l.last}))
	return !same
}

// After returns the items with a higher number, in order.
func (l *List) After(number int) (later []*Item) {
	for e := l.items.Back(); e != nil && e.Value.(*Item).Number > number; e = e.Prev() {
		later = append(later, e.Value.(*Item))
	}
	slices.Reverse(later)
	return later
}
