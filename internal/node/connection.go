package node

import (
	"sync"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
)

// A connection is how a machine is reached, and what it has reported. Its zero value has none.
type connection struct {
	found []supervisor.Found // what ran there when it was attached to; set before the node is ready

	mu         sync.Mutex
	closed     bool
	client     *ssh.Client
	supervisor *supervisor.Node
	files      *transfer.Remote
	facts      supervisor.Facts
	devices    Devices
}

// Client returns the SSH client, or nil before the machine has an address.
func (c *connection) Client() *ssh.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

// Supervisor returns what runs commands on the machine, or nil before it was taken over.
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

// Facts returns what the machine reports about itself. They are empty before it was taken over.
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

// open notes the client of a connection. A connection that was closed before stays closed.
func (c *connection) open(client *ssh.Client) {
	c.mu.Lock()
	c.client = client
	closed := c.closed
	c.mu.Unlock()
	if closed {
		client.Close()
	}
}

// supervise notes what runs commands on the machine, with the machine's facts.
func (c *connection) supervise(s *supervisor.Node) supervisor.Facts {
	facts := s.Facts()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.supervisor, c.facts = s, facts
	c.files = &transfer.Remote{Client: c.client, Tools: transferTools(facts), Dir: facts.WorkDir}
	return facts
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
