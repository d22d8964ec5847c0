package hostile

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/sshd"
)

// Config configures a Node.
type Config struct {
	// HostKey is the node's host key. AuthorizedKeys may log in.
	HostKey        xssh.Signer
	AuthorizedKeys []xssh.PublicKey
	// Behind connects to the real node.
	Behind func(context.Context) (*xssh.Client, error)
	// Secrets are texts that the node must never receive.
	Secrets [][]byte
}

// A Node lies to the clients of a real node.
type Node struct {
	cfg  Config
	life context.Context
	end  context.CancelFunc
	liar atomic.Value // of liar

	wg     sync.WaitGroup
	leaked atomic.Bool
	hole   atomic.Bool
	said   atomic.Int64

	mu    sync.Mutex
	keys  []xssh.PublicKey // the keys that may log in
	conns map[net.Conn]bool
	kinds map[Kind]int
}

// A liar wraps every Liar in the same type, as atomic.Value requires.
type liar struct{ Liar }

// New returns an honest node. The caller must close it.
func New(cfg Config) *Node {
	n := &Node{cfg: cfg, keys: cfg.AuthorizedKeys, conns: map[net.Conn]bool{}, kinds: map[Kind]int{}}
	n.life, n.end = context.WithCancel(context.Background())
	n.Lie(Honest{})
	return n
}

// Lie sets the liar for new sessions. It does not affect sessions that have begun.
func (n *Node) Lie(l Liar) { n.liar.Store(liar{l}) }

// Authorize replaces the keys that may log in.
func (n *Node) Authorize(keys ...xssh.PublicKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keys = keys
}

// Leaked reports whether a client has sent the node one of Config.Secrets.
func (n *Node) Leaked() bool { return n.leaked.Load() }

// Said returns the number of bytes of output that the node has sent.
func (n *Node) Said() int64 { return n.said.Load() }

// Sessions returns the number of sessions of a kind so far.
func (n *Node) Sessions(kind Kind) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kinds[kind]
}

// Dial returns a new in-memory connection to the node.
func (n *Node) Dial(context.Context) (net.Conn, error) {
	client, server := sshd.Pipe()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life.Err() != nil {
		return nil, errors.New("hostile: the node is gone")
	}
	server = swallowed{server, n}
	n.conns[server] = true
	n.wg.Go(func() { n.serve(server) })
	return client, nil
}

// Swallow has all that is sent from now on, in both directions, on connections old and new, arrive nowhere. No connection ends by that,
// and the real node sees none of it.
func (n *Node) Swallow() { n.hole.Store(true) }

// A swallowed connection is one whose node may swallow all.
type swallowed struct {
	net.Conn
	node *Node
}

func (c swallowed) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.node.hole.Load() {
			return n, err
		}
	}
}

func (c swallowed) Write(p []byte) (int, error) {
	if c.node.hole.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// HangUp closes all connections.
func (n *Node) HangUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for nc := range n.conns {
		nc.Close()
	}
}

// Close ends all connections and all goroutines of the node. It does not affect the real node.
func (n *Node) Close() {
	n.end()
	n.HangUp()
	n.wg.Wait()
}

// serve serves one connection.
func (n *Node) serve(nc net.Conn) {
	defer func() {
		nc.Close()
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.conns, nc)
	}()
	l := n.liar.Load().(liar)
	conn, channels, requests, err := xssh.NewServerConn(nc, n.server(l))
	if err != nil {
		return
	}
	behind, err := n.cfg.Behind(n.life)
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer behind.Close()
	wg.Go(func() {
		behind.Wait()
		nc.Close() // as if the node itself closed the connection
	})
	wg.Go(func() { xssh.DiscardRequests(requests) })
	wg.Go(func() { l.Connect(conn) })
	for c := range channels {
		if c.ChannelType() != "session" {
			c.Reject(xssh.Prohibited, "no such channels here")
			continue
		}
		wg.Go(func() { n.relay(c, behind) })
	}
}

func (n *Node) server(l Liar) *xssh.ServerConfig {
	cfg := &xssh.ServerConfig{
		ServerVersion: "SSH-2.0-gputrain",
		PublicKeyCallback: func(_ xssh.ConnMetadata, key xssh.PublicKey) (*xssh.Permissions, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			for _, k := range n.keys {
				if bytes.Equal(k.Marshal(), key.Marshal()) {
					return &xssh.Permissions{}, nil
				}
			}
			return nil, errors.New("hostile: another key")
		},
		BannerCallback: func(xssh.ConnMetadata) string { return l.Banner() },
	}
	cfg.KeyExchanges = []string{xssh.KeyExchangeECDHP256, xssh.KeyExchangeCurve25519}
	cfg.AddHostKey(n.cfg.HostKey)
	return cfg
}
