package providertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

func redirectChecks() []check {
	return []check{{"calls that are redirected to another server", []string{"Fault"}, redirected}}
}

// A stranger is the server at the end of a redirect. It records what it receives.
type stranger struct {
	*httptest.Server
	mu  sync.Mutex
	got []string
}

func newStranger(t testing.TB) *stranger {
	s := &stranger{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, r.Method+" "+r.URL.Path)
		http.Error(w, "{}", http.StatusTeapot)
	}))
	t.Cleanup(s.Close)
	return s
}

// take returns what the stranger has received since the last take.
func (s *stranger) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = nil
	return got
}

// A redirect is not an answer, and nothing is sent to its target: neither the credential nor a
// launch's data for its machine.
func redirected(c *trial) {
	if c.h.stranger == nil {
		c.Fatal("Run starts the server that a redirect leads to")
	}
	p := c.prepared()
	id := p.running(p.launch(1))[0].ID
	c.listed(p, p.info.ID, has(id))
	calls := p.reads(id)
	calls[OpTerminate] = func() error { return p.Terminate(c.Context(), id) }
	if c.h.Machines != 1 { // with Machines 1, the pool has its one machine
		calls[OpLaunch] = func() error { _, err := p.Launch(c.Context(), p.request()); return err }
	}
	for op, call := range calls {
		for _, status := range []int{301, 302, 303, 307, 308} {
			remove := c.fault(op, Fault{Kind: Redirected, Status: status, To: c.h.stranger.URL + "/elsewhere", Times: -1})
			err := call()
			remove()
			c.failure(fmt.Sprintf("a redirect (%d) in answer to Driver.%s", status, op), err, driver.ErrUnavailable)
			if got := c.h.stranger.take(); len(got) > 0 {
				c.Errorf("Driver.%s follows a redirect (%d) and sends %s to another server: a credential is for the API's own server alone", op, status, got[0])
			}
		}
	}
}
