package sim_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/providertest"
	"github.com/gputrain/gputrain/providers/sim"
)

// newFront starts a server that passes calls on to a cloud, and spoils answers by faults.
func newFront(t *testing.T, c *sim.Cloud) *fakecloud.Server {
	s := fakecloud.Start(t, fakecloud.Config{Contracts: []fakecloud.Contract{frontContract{}}})
	api := c.Handler()
	for op := range frontOps() {
		s.Handle(string(op), func(call *fakecloud.Call) fakecloud.Answer {
			if call.Undone() {
				return fakecloud.Reply(http.StatusOK, []byte(`{"Done":true}`))
			}
			r := httptest.NewRequest(call.Method, call.Path, bytes.NewReader(call.Body))
			r.Header = call.Header
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			return fakecloud.Answer{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}
		})
	}
	return s
}

// frontOps are the operations of the front: the API's own, by their names.
func frontOps() map[providertest.Op][]string {
	ops := map[providertest.Op][]string{}
	for _, op := range []sim.Op{sim.OpOpen, sim.OpOffers, sim.OpPrepare, sim.OpLaunch, sim.OpDescribe, sim.OpList, sim.OpTerminate, sim.OpRelease, sim.OpMarkLease, sim.OpAccount} {
		ops[op] = []string{string(op)}
	}
	return ops
}

// A frontContract finds the operation of a call in its body. The cloud checks the rest.
type frontContract struct{}

func (frontContract) Find(c *fakecloud.Call) error {
	return json.Unmarshal(c.Body, &struct{ Op *string }{&c.Op})
}
func (frontContract) Operations() []string {
	var all []string
	for op := range frontOps() {
		all = append(all, string(op))
	}
	return all
}
func (frontContract) Check(*fakecloud.Call) error { return nil }
func (frontContract) Encode(_ *fakecloud.Call, a fakecloud.Answer) (fakecloud.Answer, error) {
	return a, nil
}
