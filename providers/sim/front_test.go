package sim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain/providers/providertest"
	"github.com/gputrain/gputrain/providers/sim"
)

// A front is what stands before a served cloud and spoils its answers.
type front struct {
	*httptest.Server
	api http.Handler
	end chan struct{}

	mu     sync.Mutex
	calls  map[providertest.Op]int
	faults []*frontFault
}

type frontFault struct {
	providertest.Fault
	op   providertest.Op
	left int
}

func newFront(t *testing.T, c *sim.Cloud) *front {
	f := &front{api: c.Handler(), end: make(chan struct{}), calls: map[providertest.Op]int{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() {
		close(f.end)
		f.Server.Close()
	})
	return f
}

func (f *front) count(op providertest.Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

func (f *front) fault(op providertest.Op, fault providertest.Fault) (remove func()) {
	in := &frontFault{fault, op, max(fault.Times, 1)}
	if fault.Times < 0 {
		in.left = 1 << 30
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, in)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		in.left = 0
	}
}

// take counts a call, and returns the fault that hits it.
func (f *front) take(op providertest.Op) *frontFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
	f.calls[providertest.AnyOp]++
	for _, in := range f.faults {
		if in.left > 0 && (in.op == op || in.op == providertest.AnyOp) {
			in.left--
			return in
		}
	}
	return nil
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var call struct{ Op providertest.Op }
	json.Unmarshal(body, &call)
	in := f.take(call.Op)
	if in == nil {
		f.api.ServeHTTP(w, r)
		return
	}
	if in.After {
		f.api.ServeHTTP(httptest.NewRecorder(), r)
	}
	switch in.Kind {
	case providertest.Failed:
		http.Error(w, "internal error", http.StatusInternalServerError)
	case providertest.Unavailable:
		http.Error(w, "try again later", http.StatusServiceUnavailable)
	case providertest.RateLimited:
		if in.RetryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(int(in.RetryAfter.Seconds())))
		}
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	case providertest.Garbage:
		io.WriteString(w, "{\"Has\":\x00")
	case providertest.HTML:
		io.WriteString(w, "<html>It works!</html>\n")
	case providertest.Astray:
		http.Error(w, "<html>no such page</html>", http.StatusNotFound)
	case providertest.Redirected:
		http.Redirect(w, r, in.To, in.Status)
	case providertest.Empty:
	case providertest.Huge:
		io.WriteString(w, `{"Has":"`+strings.Repeat("x", 20<<20)+`"}`)
	case providertest.Hang:
		select {
		case <-r.Context().Done():
		case <-f.end:
		}
		panic(http.ErrAbortHandler)
	case providertest.Cut:
		panic(http.ErrAbortHandler)
	}
}
