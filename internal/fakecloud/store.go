package fakecloud

import (
	"slices"
	"time"
)

// A Store holds what there is of one kind in a fake cloud, by ID, and what there
// was: a call that lags sees the past. It belongs to the server's handlers and
// to what [Server.Do] runs.
//
// A nil *Call stands for the test itself, which never lags.
type Store[T any] struct {
	server  *Server
	ids     []string // in the order of creation
	history map[string][]version[T]
}

// A version is a value since a call.
type version[T any] struct {
	call  int
	at    time.Time
	value T
	gone  bool
}

// NewStore returns an empty store of a server's fake.
func NewStore[T any](s *Server) *Store[T] {
	return &Store[T]{server: s, history: map[string][]version[T]{}}
}

// Put sets the value of an ID. The store keeps the value itself: what is behind
// a pointer in it has no past.
func (st *Store[T]) Put(c *Call, id string, v T) { st.add(c, id, version[T]{value: v}) }

// Delete removes an ID, and reports whether it was there.
func (st *Store[T]) Delete(c *Call, id string) bool {
	_, ok := st.Get(nil, id)
	if ok {
		st.add(c, id, version[T]{gone: true})
	}
	return ok
}

func (st *Store[T]) add(c *Call, id string, v version[T]) {
	if !slices.Contains(st.ids, id) {
		st.ids = append(st.ids, id)
	}
	v.at = time.Now()
	if c != nil {
		v.call = c.N
	} else {
		v.call = st.server.calls()
	}
	st.history[id] = append(st.history[id], v)
}

// Get returns the value of an ID, as the call sees it.
func (st *Store[T]) Get(c *Call, id string) (T, bool) {
	for _, v := range slices.Backward(st.history[id]) {
		if c == nil || !c.lag.hides(c.N, v.call, v.at) {
			return v.value, !v.gone
		}
	}
	var none T
	return none, false
}

// All returns the values of all IDs, as the call sees them.
func (st *Store[T]) All(c *Call) []T {
	all := []T{} // an empty list in JSON, not null
	for _, id := range st.ids {
		if v, ok := st.Get(c, id); ok {
			all = append(all, v)
		}
	}
	return all
}

// A Lag is how far behind a reply is: it does not show what the last Calls
// calls changed, nor what was changed within the last For.
type Lag struct {
	Calls int
	For   time.Duration
}

func (l Lag) hides(now, call int, at time.Time) bool {
	return l.Calls > 0 && call >= now-l.Calls || l.For > 0 && time.Since(at) < l.For
}
