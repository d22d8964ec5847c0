package fakecloud

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
)

// servers are all that run, by host and port.
var servers sync.Map

// Inside returns a client whose calls are answered in the goroutine that makes them, without a connection: for a bubble of
// testing/synctest, in which a goroutine that waits for the network keeps time from passing. The server answers, unless
// another one has the host.
func (s *Server) Inside() *http.Client { return &http.Client{Transport: inside{s}} }

type inside struct{ server *Server }

func (i inside) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body == nil {
		r = r.Clone(r.Context())
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			answer, err = nil, errors.New("fakecloud: the connection was cut")
		} else if p != nil {
			panic(p)
		}
	}()
	w := httptest.NewRecorder()
	if r.Host == "" {
		r = r.Clone(r.Context())
		r.Host = r.URL.Host
	}
	server := i.server
	if other, ok := servers.Load(r.URL.Host); ok {
		server = other.(*Server)
	}
	server.serve(w, r)
	answer = w.Result()
	answer.Request = r
	return answer, nil
}
