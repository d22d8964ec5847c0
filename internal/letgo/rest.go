package letgo

import "sync"

// A Rest is what goes on without its callers, and what ends all of it waits for. Unlike a WaitGroup it takes more while another
// goroutine waits. The zero value is empty.
type Rest struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is zero again; nil if no one waits
}

// Go runs f in a goroutine.
func (r *Rest) Go(f func()) {
	r.mu.Lock()
	r.n++
	r.mu.Unlock()
	go func() {
		defer r.done()
		f()
	}()
}

func (r *Rest) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.n == 0 && r.none != nil {
		close(r.none)
		r.none = nil
	}
}

// Wait waits until nothing goes on.
func (r *Rest) Wait() {
	r.mu.Lock()
	if r.n == 0 {
		r.mu.Unlock()
		return
	}
	if r.none == nil {
		r.none = make(chan struct{})
	}
	none := r.none
	r.mu.Unlock()
	<-none
}
