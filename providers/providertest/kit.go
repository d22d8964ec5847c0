package providertest

import (
	"testing"

	"github.com/gputrain/gputrain/internal/fakecloud"
)

// A Server is the fake of an API, for [OnServer]. Its Handle gives an operation a Handler,
// by method and path ("DELETE /servers/{id}"). Handlers run one at a time, so that a fake's
// state needs no lock of its own; Do runs a function while none runs.
type Server = fakecloud.Server

// A Handler does an operation's effect on the fake's state, and answers.
type Handler = fakecloud.Handler

// A Call is a request, with the variables of its path in Vars, and the JSON of its body in
// Input.
type Call = fakecloud.Call

// An Answer is what a Handler returns.
type Answer = fakecloud.Answer

// Reply is an Answer of a status and a body, which is sent as JSON.
func Reply(status int, body any) Answer { return fakecloud.Reply(status, body) }

// StartServer starts a server at 127.0.0.1 for these operations, which ends with the test.
// A call of another operation fails the test. One that authorized, if it is not nil, does
// not let in is answered 401.
func StartServer(t testing.TB, authorized func(*Call) bool, operations ...string) *Server {
	t.Helper()
	return fakecloud.Start(t, fakecloud.Config{Contracts: []fakecloud.Contract{fakecloud.Unchecked(operations...)}, Authorized: authorized})
}

// A Machine is a machine of a fake: a real SSH server on a port of this computer, whose
// commands are real processes. Kill takes it down.
type Machine = fakecloud.Machine

// A MachineConfig says what a Machine is. AuthorizedKey must be there.
type MachineConfig = fakecloud.MachineConfig

// NewMachine starts a machine, which ends with the test.
func NewMachine(t testing.TB, cfg MachineConfig) *Machine {
	t.Helper()
	return fakecloud.NewMachine(t, cfg)
}
