package scheduler

import (
	"container/list"
	"sync"
)

// Jobs is a list of started jobs whose results were not delivered, in the order of their start. The zero value is
// empty.
type Jobs[J any] struct {
	mu   sync.Mutex
	list list.List // of J
}

// Add appends a job. remove takes it out again; it is called once at most.
func (l *Jobs[J]) Add(job J) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.list.PushBack(job)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.list.Remove(e)
	}
}

// All returns the jobs that are in the list now.
func (l *Jobs[J]) All() []J {
	l.mu.Lock()
	defer l.mu.Unlock()
	jobs := make([]J, 0, l.list.Len())
	for e := l.list.Front(); e != nil; e = e.Next() {
		jobs = append(jobs, e.Value.(J))
	}
	return jobs
}
