package calls

import (
	"slices"
	"sync"
)

// leftovers are the files of dead workers that may still be on the node.
type leftovers struct {
	mu    sync.Mutex
	files []string
}

func (l *leftovers) add(files ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files = append(l.files, files...)
}

func (l *leftovers) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.files)
}

// removed forgets files that are no longer there.
func (l *leftovers) removed(files []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files = slices.DeleteFunc(l.files, func(s string) bool { return slices.Contains(files, s) })
}
