package gputrain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/internal/inventory"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/reach"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
)

// A Forwarding is a port of this computer whose connections lead to an address on a node: see
// [Compute.Forward]. Addr returns its address here, a *net.TCPAddr. Close ends it with its
// connections, and returns when they have ended; closing twice is the same as once.
type Forwarding = reach.Forwarding

// Dial connects to a TCP address, host:port, from the node of a rank, through the node's SSH
// connection: "127.0.0.1:6006" is a port of the node itself, as is ":6006". No port of the node has
// to be open to others. If the node's SSH server forbids forwarding, perl, python3 or nc on the node
// takes its place.
//
// Dial waits, as long as ctx, for a node that is coming up or whose connection is down. It gets an
// elastic pool no node. ctx does not bound the connection, which ends by its Close, with the node's
// SSH connection, or with the pool. A connection that is cut is an error of Read, never io.EOF.
// Deadlines work, and it has the method CloseWrite. Until it ends, an elastic pool does not end the
// node for being idle.
//
// The error is [ErrUnavailable] if the node cannot connect; it wraps syscall.ECONNREFUSED if nothing
// listens there. It is [ErrInvalid] if there is no such rank or addr is malformed, [ErrNodeLost] if
// the node is lost, [ErrUnsupported] if neither the server nor a program can connect, and
// [ErrClosed] after the end of the pool.
func (c *Compute) Dial(ctx context.Context, rank int, addr string) (net.Conn, error) {
	conn, err := c.p.access.Dial(invalid.OrEnded("dial", ctx), rank, addr)
	if err != nil {
		return nil, c.p.withoutSecrets(err)
	}
	return conn, nil
}

// Forward listens at local, a TCP address of this computer, and leads each connection to remote, an
// address on the node of a rank as for [Compute.Dial], until ctx ends, the Forwarding is closed, or
// the pool ends. "127.0.0.1:0" and ":0" are any free port of the loopback: without a host Forward
// does not listen on other interfaces, as package net would. Whoever can connect to local reaches
// remote: other users of this computer can, and with a host such as 0.0.0.0 the network can.
//
// Each connection is dialed when it comes, so the node need not be there yet, and nothing need
// listen on it. A connection that cannot be led on is reset, and an [EventTrouble] of state "forward"
// has the reason. One that is open when the node's SSH connection is cut is reset too; new ones wait
// for the next connection, or for the node that replaces the one that was lost. Only open
// connections keep the idle node of an elastic pool.
func (c *Compute) Forward(ctx context.Context, local string, rank int, remote string) (*Forwarding, error) {
	f, err := c.p.access.Forward(invalid.OrEnded("forward", ctx), local, rank, remote)
	if err != nil {
		return nil, c.p.withoutSecrets(err)
	}
	return f, nil
}

// Shell runs the login's shell on the node of a rank, in the working directory of tasks and with
// their environment, until it ends. If stdin is a terminal (an *os.File), the shell has one too, of
// the same kind and size: the terminal here is in raw mode meanwhile, Ctrl-C goes to the node, and
// stderr is not used. Otherwise the shell has pipes, and reads commands until stdin ends. A nil
// stdin is empty; a nil stdout or stderr is discarded.
//
// The error is nil if the shell's exit code is 0, and a [*TaskError] of [CauseExit] or [CauseSignal]
// otherwise. When ctx or the pool ends, the shell is hung up. So it is when the node's connection is
// cut, with [ErrUnavailable]: what must outlive that runs as a task, or in tmux. Shell waits for a
// node as Dial does. While it runs, an elastic pool does not end the node for being idle, and the
// pool renews the node's lease as ever; Resize, a budget or a TTL that ends the node ends the shell.
func (c *Compute) Shell(ctx context.Context, rank int, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx = invalid.OrEnded("shell", ctx)
	visit, member, err := entrance{c.p}.visit(ctx, rank)
	if err != nil {
		return c.p.withoutSecrets(c.p.access.Explain(ctx, "shell on", rank, err))
	}
	defer visit.Leave()
	err = c.p.access.Shell(ctx, visit, stdin, stdout, stderr)
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		failed := &TaskError{Name: "shell", Node: c.p.nodeOf(nodeOf(member)), Attempt: 1, Cause: CauseExit, ExitCode: exit.Code, Signal: exit.Signal}
		if exit.Signal != "" {
			failed.Cause = CauseSignal
		}
		return failed
	}
	if err != nil {
		return c.p.withoutSecrets(c.p.access.Explain(ctx, "shell on", rank, err))
	}
	return nil
}

// WriteSSHConfig writes a configuration for OpenSSH's programs to a file, with a host "node-0" and so
// on for each node, which its name stands for too: for ssh -F path node-0, for scp -F, for rsync -e
// "ssh -F path", and for VS Code. The hosts' keys are pinned, in a file beside it whose name ends in
// ".known_hosts". The hosts are logged in to with the pool's key, in its file beside the ledger, or
// with the key or agent of the user that the provider was configured with. A node without an address
// of its own, such as a local one, gets a port of the loopback that leads to its SSH server.
//
// Only this user can read the file. It is rewritten when a node joins, is replaced or gets another
// rank, and removed by Close, unless it was changed by others. Nodes whose SSH servers were not
// reached yet come in later. A file that is there is overwritten if gputrain has written it;
// otherwise the error is [ErrInvalid].
//
// What is run by the file is none of the pool's business: it does not keep the idle node of an
// elastic pool.
func (c *Compute) WriteSSHConfig(path string) error {
	if context.Cause(c.p.ctx) != nil {
		return c.p.fleet.ClosedError()
	}
	return c.p.access.WriteSSHConfig(path)
}

// An entrance is a pool as package reach uses it.
type entrance struct{ p *pool }

func newAccess(p *pool) *reach.Access {
	e := entrance{p}
	return reach.New(reach.Config{
		Pool: p.id, Provider: p.account.Provider, Context: p.ctx, Servers: e.servers,
		Visit: func(ctx context.Context, rank int) (*reach.Visit, error) {
			visit, _, err := e.visit(ctx, rank)
			return visit, err
		},
		Trouble: func(about string, err error) { reporter{p}.Trouble(about, p.withoutSecrets(err)) },
	})
}

// visit waits for the node of a rank, and keeps it.
func (e entrance) visit(ctx context.Context, rank int) (*reach.Visit, *fleet.Member, error) {
	v, err := fleet.NewVisit(ctx, e.p.fleet, rank)
	if err != nil {
		return nil, nil, err
	}
	n := v.Member.Node
	return &reach.Visit{
		Client: n.Client(), Context: n.Context(), Leave: v.Leave,
		Command: func(command string, terminal bool) (string, error) { return node.ShellCommand(n, command, terminal) },
		Login: func() (string, error) {
			s := n.Supervisor()
			if s == nil {
				return "", fmt.Errorf("%w: %s was not taken over", ErrUnavailable, n.Name())
			}
			return supervisor.Login(s)
		},
	}, v.Member, nil
}

// servers returns the SSH servers of the nodes.
func (e entrance) servers() (servers []reach.Server) {
	e.p.mu.Lock()
	members := append([]*fleet.Member{}, e.p.fleet.Members()...)
	var over []bool
	for _, m := range members {
		over = append(over, m.State().Over())
	}
	e.p.mu.Unlock()
	for i, m := range members {
		access, known := node.AccessTo(m.Node)
		if over[i] || !known {
			continue
		}
		s := reach.Server{
			Rank: m.Rank(), Name: m.Node.Name(), Addr: access.Addr, Dial: access.Dial,
			User: access.User, KeyFile: access.KeyFile, Agent: access.Agent, HostKey: access.HostKey,
		}
		if s.KeyFile == "" && !s.Agent {
			s.KeyFile = inventory.KeyPath(e.p.inventory)
		}
		servers = append(servers, s)
	}
	return servers
}
