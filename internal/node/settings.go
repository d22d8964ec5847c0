package node

import (
	"time"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/docker"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/providers/driver"
)

// Settings are shared by all nodes of a pool. They do not change while a node uses them. A node that is only cleaned up
// needs Pool, Generation, Provider, Driver, Capabilities, Login, Lease and Secrets.
type Settings struct {
	// Pool is the pool's ID, and Generation counts the programs that have had the pool.
	Pool       string
	Generation int
	// Provider is the driver's name, and Capabilities are the driver's own.
	Provider     string
	Driver       driver.Driver
	Capabilities driver.Capabilities
	// Describer asks the driver about machines for all nodes.
	Describer *Describer
	// Login is the key that the pool logs in with.
	Login ssh.KeyPair
	// AuthorizedKeys are public keys in authorized_keys form that may log in beside Login.
	AuthorizedKeys []string
	// Lease is how long a node goes on without hearing from this program.
	Lease time.Duration
	// Expires is when the pool ends by its TTL. Zero means that it has none.
	Expires time.Time
	// Wants has what each machine must have.
	Wants Wants
	// ProvisionTimeout bounds the time from a machine's launch until its SSH server answers. Zero
	// means that of the machine's capabilities.
	ProvisionTimeout time.Duration
	// RequireKnownHostKey refuses machines whose host key only the first contact shows.
	RequireKnownHostKey bool
	// Image is what a node needs before it takes tasks.
	Image bootstrap.Image
	// Given are the pool's own secrets.
	Given Given
	// GPUSharing is how many tasks share one device, by MPS. Zero and 1 mean that none is shared.
	GPUSharing int
	// Docker is the image in whose container tasks run, unless the machine itself is one of that image. Nil means none.
	Docker *docker.Pool
	// OnPreemption is shell text that a node runs once its end is announced, or "".
	OnPreemption string
	// Output shows what nodes print while they are made ready.
	Output *output.Printer
	// Secrets learns the passwords of machines.
	Secrets *output.Redactor
	// Go runs a function that the end of the pool waits for.
	Go func(func())
}

// Given are the secrets that a pool gives to every process that it starts on its nodes.
type Given struct {
	// Secrets are the values, by their names in the environment.
	Secrets map[string]string
	// Missing is why not all of them are known, or nil. Then no node can be made ready, and none is rented.
	Missing error
}

// Wants are a pool's conditions for its machines.
type Wants interface {
	// QueryOf returns the query that a machine of an offer must satisfy.
	QueryOf(driver.Offer) driver.Query
}

// An Owner is notified of what happens to a node, and makes it part of a pool. Its methods are called by the node's
// goroutines, one of which is in Run, and while the node holds no lock.
type Owner interface {
	// Rank is the node's index in the pool now.
	Rank() int
	// WasReady reports whether a node of this rank was ready before this one.
	WasReady() bool
	// Pending is called when the provider gives another reason why the machine has not come up yet.
	Pending(reason string)
	// Troubled is called with a failure that keeps the node from nothing, and of what it is: "accelerator".
	Troubled(about string, err error)
	// Connecting is called when the machine was launched, and Bootstrapping when it was
	// reached and has what the pool asks for.
	Connecting()
	Bootstrapping()
	// Phase is called when a phase of the bootstrap changes its state.
	Phase(p bootstrap.Phase, state bootstrap.State, elapsed time.Duration)
	// Renewed is called now and then when the node's lease has been renewed.
	Renewed()
	// Progressed is called with how far a phase has come, as far as it says so: a few times a second at most.
	Progressed(phase string, p bootstrap.Progress)
	// Sending is called before the image's files are sent. It returns what is told how far that is, and what is called
	// at its end.
	Sending() (progress transfer.Progress, end func(error))
	// Bootstrapped is called when all phases are done, with what tasks start from.
	Bootstrapped(base bootstrap.Base)
	// Leased is called when the machine keeps the pool's lease, with the folder in which it has the pool's files, and
	// the host key that the first contact has shown, or "".
	Leased(folder, hostKey string)
	// Resume takes what an earlier program has left running on the node. If the node was
	// ready for that program, Resume returns true and what its tasks start from.
	Resume(found []supervisor.Found) (base bootstrap.Base, ready bool)
	// Join makes the node ready for tasks. If resumed is true, an earlier program had
	// done so.
	Join(resumed bool) error
	// Reachable is called every second while the node is watched, with whether it is connected.
	Reachable(up bool)
	// Noticed is called when the provider has announced when it takes the machine back.
	Noticed(at time.Time)
	// Moved is called with the bytes that the machine has received and sent so far, if its traffic is billed.
	Moved(received, sent int64)
	// TakenOver is called when the node reports, with the error, that another program has the pool. It returns whether
	// that is so.
	TakenOver(why error) bool
	// Offline reports whether several nodes of the pool were reached, and none can be now.
	Offline() bool
	// Failed is called when the node has failed or is lost. It gives the node up.
	Failed(err error)
}
