package providertest

import (
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

// A Server is the fake of an API, for [OnServer]. Its Handle gives an operation a Handler, by
// method and path ("DELETE /servers/{id}"). Handlers run one at a time, so that a fake's state
// needs no lock of its own; Do runs a function while no handler runs.
type Server = fakecloud.Server

// A Handler applies an operation to the fake's state, and answers.
type Handler = fakecloud.Handler

// A Call is a request, with the variables of its path in Vars, and the JSON of its body in
// Input.
type Call = fakecloud.Call

// An Answer is the result of a Handler.
type Answer = fakecloud.Answer

// Reply returns an Answer with a status and a body, which is sent as JSON.
func Reply(status int, body any) Answer { return fakecloud.Reply(status, body) }

// StartServer starts a server at 127.0.0.1 for these operations, which ends with the test. A
// call of another operation fails the test. If authorized is not nil, a call that it refuses
// gets 401.
func StartServer(t testing.TB, authorized func(*Call) bool, operations ...string) *Server {
	t.Helper()
	return fakecloud.Start(t, fakecloud.Config{Contracts: []fakecloud.Contract{fakecloud.Unchecked(operations...)}, Authorized: authorized})
}

// A Machine is a machine of a fake: a real SSH server on a port of this computer, whose
// commands are real processes. Kill ends it.
type Machine = fakecloud.Machine

// A MachineConfig describes a Machine. AuthorizedKey is mandatory.
type MachineConfig = fakecloud.MachineConfig

// NewMachine starts a machine, which ends with the test.
func NewMachine(t testing.TB, cfg MachineConfig) *Machine {
	t.Helper()
	return fakecloud.NewMachine(t, cfg)
}
