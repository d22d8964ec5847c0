package status

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxStrangers is how many connections may be open that have not shown the token.
const maxStrangers = 32

// strangers are the connections that have not shown the token, in the order in which they came. If there are too many, the oldest
// is closed: whoever opens many keeps nobody else out.
type strangers struct {
	mu  sync.Mutex
	all []net.Conn
}

// changed is told the states of connections, as [http.Server.ConnState].
func (s *strangers) changed(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.all = append(s.all, c); len(s.all) > maxStrangers {
			s.all[0].Close()
			s.all = slices.Delete(s.all, 0, 1)
		}
	case http.StateClosed, http.StateHijacked:
		s.known(c)
	}
}

// known takes out a connection that has shown the token, or is closed.
func (s *strangers) known(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.all, c); i >= 0 {
		s.all = slices.Delete(s.all, i, i+1)
	}
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

func connOf(q *http.Request) net.Conn {
	c, _ := q.Context().Value(connKey{}).(net.Conn)
	return c
}
