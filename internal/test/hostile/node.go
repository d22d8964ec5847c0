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

// Config says how a Node is reached and what is behind it.
type Config struct {
	// HostKey is what the node proves itself with, and AuthorizedKeys may log in.
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
	said   atomic.Int64

	mu    sync.Mutex
	keys  []xssh.PublicKey // that may log in
	conns map[net.Conn]bool
	kinds map[Kind]int
}

// A liar has all liars be of one type, for atomic.Value.
type liar struct{ Liar }

// New returns an honest node. Its owner closes it.
func New(cfg Config) *Node {
	n := &Node{cfg: cfg, keys: cfg.AuthorizedKeys, conns: map[net.Conn]bool{}, kinds: map[Kind]int{}}
	n.life, n.end = context.WithCancel(context.Background())
	n.Lie(Honest{})
	return n
}

// Lie has the node say what l wants from now on. Sessions that have begun go on as
// they are.
func (n *Node) Lie(l Liar) { n.liar.Store(liar{l}) }

// Authorize lets other clients in, and the former ones no more.
func (n *Node) Authorize(keys ...xssh.PublicKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keys = keys
}

// Leaked reports whether the node has received one of Config.Secrets.
func (n *Node) Leaked() bool { return n.leaked.Load() }

// Said returns how many bytes of output the node has sent.
func (n *Node) Said() int64 { return n.said.Load() }

// Sessions returns how many sessions of a kind there were.
func (n *Node) Sessions(kind Kind) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kinds[kind]
}

// Dial returns a new connection to the node, in memory.
func (n *Node) Dial(context.Context) (net.Conn, error) {
	client, server := sshd.Pipe()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life.Err() != nil {
		return nil, errors.New("hostile: the node is gone")
	}
	n.conns[server] = true
	n.wg.Go(func() { n.serve(server) })
	return client, nil
}

// HangUp ends all connections.
func (n *Node) HangUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for nc := range n.conns {
		nc.Close()
	}
}

// Close ends all connections and returns when nothing of the node is left. What is
// behind it is not touched.
func (n *Node) Close() {
	n.end()
	n.HangUp()
	n.wg.Wait()
}

// serve is the life of one connection.
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
		nc.Close() // as when the node itself hangs up
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
