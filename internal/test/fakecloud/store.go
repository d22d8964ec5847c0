package fakecloud

import (
	"slices"
	"time"
)

// A Store holds the objects of one kind in a fake cloud, by ID, with their earlier values: a call with a [Lag] sees
// these. Only the server's handlers and the funcs of [Server.Do] may use it.
//
// A nil *Call means the test itself, which always sees the current state.
type Store[T any] struct {
	server  *Server
	ids     []string // in the order of creation
	history map[string][]version[T]
}

// A version is the value of an object since a call.
type version[T any] struct {
	call  int
	at    time.Time
	value T
	gone  bool
}

// NewStore returns an empty store for a server's fake.
func NewStore[T any](s *Server) *Store[T] {
	return &Store[T]{server: s, history: map[string][]version[T]{}}
}

// Put sets the value of an ID. The store keeps v itself, so it has no earlier values of data behind a pointer.
func (st *Store[T]) Put(c *Call, id string, v T) { st.add(c, id, version[T]{value: v}) }

// Delete removes an ID, and reports whether it existed.
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

// Get returns the value of an ID that the call sees.
func (st *Store[T]) Get(c *Call, id string) (T, bool) {
	for _, v := range slices.Backward(st.history[id]) {
		if c == nil || !c.lag.hides(c.N, v.call, v.at) {
			return v.value, !v.gone
		}
	}
	var none T
	return none, false
}

// All returns the values of all IDs that the call sees.
func (st *Store[T]) All(c *Call) []T {
	all := []T{} // an empty list in JSON, not null
	for _, id := range st.ids {
		if v, ok := st.Get(c, id); ok {
			all = append(all, v)
		}
	}
	return all
}

// A Lag is how old a reply's state is: it does not show changes by the last Calls calls, nor changes within the last
// For.
type Lag struct {
	Calls int
	For   time.Duration
}

func (l Lag) hides(now, call int, at time.Time) bool {
	return l.Calls > 0 && call >= now-l.Calls || l.For > 0 && time.Since(at) < l.For
}
