package local

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/sshd"
	xssh "golang.org/x/crypto/ssh"
)

// What marks every process of a node.
const (
	poolEnv = "GPUTRAIN_POOL"
	nodeEnv = "GPUTRAIN_NODE"
)

// A node is a home directory and the server that leads there.
type node struct {
	id, pool, login string
	rank            int
	home            string
	hostKey         string // in authorized_keys form
	offer           gputrain.Offer
	server          *sshd.Server
}

// startNode makes a node that the holder of the authorized key can log in to.
// Nothing is left of one that fails.
func startNode(dir string, env []string, req gputrain.LaunchRequest, want gputrain.NodeRequest, authorized xssh.PublicKey) (_ *node, err error) {
	if !validID(want.Name) {
		return nil, fmt.Errorf("%w: a node's name is lower-case letters, digits and dashes", gputrain.ErrInvalid)
	}
	host, err := hostKey(want.HostKey)
	if err != nil {
		return nil, fmt.Errorf("host key: %w", err)
	}
	home := homePath(dir, want.Name)
	if err := makeHome(home, mark{Pool: req.Pool.ID, Owner: req.Pool.Owner, Rank: want.Rank}); err != nil {
		return nil, err
	}
	server, err := sshd.New(sshd.Config{
		HostKey:        host,
		AuthorizedKeys: []xssh.PublicKey{authorized},
		Dir:            home,
		Env:            append(env, poolEnv+"="+req.Pool.ID, nodeEnv+"="+want.Name),
	})
	if err != nil {
		removeHome(home)
		return nil, err
	}
	return &node{
		id:      want.Name,
		pool:    req.Pool.ID,
		rank:    want.Rank,
		home:    home,
		hostKey: strings.TrimSpace(string(xssh.MarshalAuthorizedKey(host.PublicKey()))),
		offer:   req.Offer,
		server:  server,
	}, nil
}

// hostKey returns the key that the pool injects, or a new one.
func hostKey(k gputrain.HostKey) (xssh.Signer, error) {
	if k.Private != "" {
		return xssh.ParsePrivateKey([]byte(string(k.Private)))
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	return xssh.NewSignerFromKey(key)
}

// instance describes the node as it is now.
func (n *node) instance() gputrain.Instance {
	in := gputrain.Instance{
		ID:          n.id,
		Name:        n.id,
		Rank:        n.rank,
		State:       gputrain.InstanceRunning,
		PrivateAddr: "127.0.0.1",
		SSH:         gputrain.Endpoint{Addr: name + ":" + n.id, User: n.login, HostKeys: []string{n.hostKey}},
		Offer:       n.offer,
	}
	if !exists(n.home) {
		in.State = gputrain.InstanceTerminated
		in.StateReason = "its home directory is gone: its lease or TTL ran out, or somebody removed it"
	}
	return in
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
