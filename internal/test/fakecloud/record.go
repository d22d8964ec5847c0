package fakecloud

import (
	"net/http"
	"net/url"
	"slices"
)

// A Record is a request to a server, and its answer.
type Record struct {
	N      int
	Op     string // empty if no contract has it
	Method string
	Path   string
	Query  url.Values
	Header http.Header
	Body   string
	Status int // zero until the answer, and if the connection was cut
}

// enter numbers and records a call.
func (s *Server) enter(c *Call) *Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.N = len(s.records) + 1
	r := &Record{N: c.N, Method: c.Method, Path: c.Path, Query: c.Query, Header: c.Header, Body: string(c.Body)}
	s.records = append(s.records, r)
	return r
}

// calls returns the number of requests so far.
func (s *Server) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records)
}

// Records returns the requests so far of the given operations, or of all if none is given.
func (s *Server) Records(ops ...string) []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Record
	for _, r := range s.records {
		if len(ops) == 0 || slices.Contains(ops, r.Op) {
			found = append(found, *r)
		}
	}
	return found
}
