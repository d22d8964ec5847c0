package node

import (
	"context"
	"io"
	"sync"

	"github.com/gputrain/gputrain/internal/docker"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
)

// A connection is how a machine is reached, and what it has reported. Its zero value has none.
type connection struct {
	found []supervisor.Found // what ran there when it was attached to; set before the node is ready

	mu         sync.Mutex
	closed     bool
	severed    bool
	client     *ssh.Client
	commands   Commands
	machine    *supervisor.Node // the machine's own
	supervisor *supervisor.Node // of tasks: machine, or that in a container there
	files      *transfer.Remote
	facts      supervisor.Facts // the supervisor's
	devices    Devices
	only       []string // the UUIDs of the devices that tasks may use; nil for all
}

// Commands run where tasks run: on the machine, or in a container there. The errors are those of an ssh.Client.
type Commands interface {
	Open(ctx context.Context, command string) (*ssh.Session, error)
	Exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error
	ExecMoving(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error
}

// Client returns the SSH client, or nil before the machine has an address.
func (c *connection) Client() *ssh.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

// Commands returns what runs commands where tasks run, or nil before the machine was taken over.
func (c *connection) Commands() Commands {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commands
}

// Supervisor returns what runs tasks, or nil before the machine was taken over.
func (c *connection) Supervisor() *supervisor.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.supervisor
}

// Files returns what copies files, in the folder of tasks, or nil before the machine was taken
// over.
func (c *connection) Files() *transfer.Remote {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files
}

// onMachine returns what runs commands on the machine itself, and keeps the lease. It is the Supervisor, unless tasks run in a
// container.
func (c *connection) onMachine() *supervisor.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine
}

// Facts returns what is known of where tasks run. They are empty before the machine was taken over.
func (c *connection) Facts() supervisor.Facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.facts
}

// Devices returns the accelerators that the node's slots share.
func (c *connection) Devices() Devices {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.devices
}

// IsUp reports whether the machine can be reached now.
func (c *connection) IsUp() bool {
	_, down := c.Client().Down()
	return !down
}

// Answers reports whether the machine answers before ctx ends.
func (c *connection) Answers(ctx context.Context) bool { return ssh.Answers(ctx, c.Client()) }

// open notes the client of a connection. A connection that was closed or severed before stays so.
func (c *connection) open(client *ssh.Client) {
	c.mu.Lock()
	c.client = client
	closed, severed := c.closed, c.severed
	c.mu.Unlock()
	if severed {
		client.Sever()
	}
	if closed {
		client.Close()
	}
}

// Sever cuts the connection and makes no other one: what is done over it from now on waits, until Close. The machine sees
// a program that has died.
func (c *connection) Sever() {
	c.mu.Lock()
	c.severed = true
	client := c.client
	c.mu.Unlock()
	if client != nil {
		client.Sever()
	}
}

// supervise notes what runs commands on the machine, with the machine's facts.
func (c *connection) supervise(s *supervisor.Node) supervisor.Facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machine = s
	return c.useLocked(s, c.client)
}

// enter notes what runs commands in a container on the machine: tasks run there from now on.
func (c *connection) enter(s *supervisor.Node, client *docker.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.useLocked(s, client)
}

// useLocked notes where tasks run.
func (c *connection) useLocked(s *supervisor.Node, client interface {
	Commands
	transfer.Client
}) supervisor.Facts {
	facts := s.Facts()
	c.supervisor, c.facts, c.commands = s, facts, client
	c.files = &transfer.Remote{Client: client, Tools: transferTools(facts), Dir: facts.WorkDir}
	return facts
}

// useOnly has tasks use no other accelerators than those of the UUIDs.
func (c *connection) useOnly(uuids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.only = uuids
}

// usable returns the UUIDs of useOnly, or nil for all.
func (c *connection) usable() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.only
}

func (c *connection) setDevices(d Devices) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.devices = d
}

func (c *connection) close() {
	c.mu.Lock()
	c.closed = true
	client := c.client
	c.mu.Unlock()
	if client != nil {
		client.Close() // waits for what runs over it, which may ask this connection
	}
}

// transferTools returns the node's commands for copying files.
func transferTools(f supervisor.Facts) transfer.Tools {
	t := transfer.Tools{Tar: f.Tools["tar"], Gzip: f.Tools["gzip"]}
	switch {
	case f.Tools["openssl"]: // first: it uses the processor's instructions for this, which Debian's sha256sum does not
		t.SHA256 = "openssl dgst -sha256 -r"
	case f.Tools["sha256sum"]:
		t.SHA256 = "sha256sum"
	case f.Tools["shasum"]:
		t.SHA256 = "shasum -a 256"
	}
	return t
}
