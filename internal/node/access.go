package node

import (
	"context"
	"net"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

// An Access is how other SSH clients of this computer reach a node's machine.
type Access struct {
	// Addr is host:port. If Dial is not nil, it is no address, and Dial connects to the server.
	Addr string
	Dial func(ctx context.Context) (net.Conn, error)
	// User logs in by the private key in KeyFile, or if Agent is true by the keys of the user's agent, and otherwise by
	// the pool's key.
	User, KeyFile string
	Agent         bool
	// HostKey is the key that the server has proved, in authorized_keys form.
	HostKey string
}

// AccessTo returns how to reach a node, or false if its SSH server has not proved its key.
func AccessTo(n *Node) (Access, bool) {
	inst := n.Instance()
	a := Access{Addr: inst.SSH.Addr, User: inst.SSH.User, KeyFile: inst.SSH.KeyFile, Agent: inst.SSH.Agent && inst.SSH.KeyFile == "", HostKey: n.server.publicKey()}
	if _, ok := n.settings.Driver.(driver.Dialer); ok {
		a.Dial = func(ctx context.Context) (net.Conn, error) {
			return market.Dial(ctx, n.Provider(), n.settings.Driver, n.Capabilities(), inst)
		}
	}
	return a, a.HostKey != ""
}
