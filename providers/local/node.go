package local

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/sshd"
	xssh "golang.org/x/crypto/ssh"
)

// What marks every process of a node. Nodes of other providers have the first
// two as well, and a container's processes are to be seen from its machine; what
// is to be ended as a node of this one has the third too: where its home is. All of
// these any process can have: what proves that one is the node's is the token, which
// only the node's processes and its home have.
const (
	poolEnv  = "GPUTRAIN_POOL"
	nodeEnv  = "GPUTRAIN_NODE"
	homesEnv = "GPUTRAIN_HOMES"
	tokenEnv = "GPUTRAIN_LOCAL_TOKEN"
)

// A node is a home directory and the server that leads there.
type node struct {
	id, login  string
	home       string
	mark       mark
	hostKey    string         // in authorized_keys form
	authorized xssh.PublicKey // whose holder may log in
	offer      gputrain.Offer
	server     *sshd.Server
}

// startNode makes a node that the holder of the authorized key can log in to.
// Nothing is left of one that fails.
func (d *driver) startNode(req gputrain.LaunchRequest, want gputrain.NodeRequest, authorized xssh.PublicKey) (*node, error) {
	if !validID(want.Name) {
		return nil, fmt.Errorf("%w: a node's name is lower-case letters, digits and dashes", gputrain.ErrInvalid)
	}
	key, kept, err := hostKey(want.HostKey)
	if err != nil {
		return nil, fmt.Errorf("host key: %w", err)
	}
	m := mark{Token: rand.Text(), Rank: want.Rank, Created: time.Now().UTC()}.of(req.Pool)
	home, err := d.homes.newHome(want.Name, m, kept)
	if err != nil {
		return nil, err
	}
	n, err := d.serve(want.Name, home, m, key, authorized)
	if err != nil {
		removeHome(home)
		return nil, err
	}
	n.offer = req.Offer
	return n, nil
}

// serve starts the server of a home that exists.
func (d *driver) serve(id, home string, m mark, key xssh.Signer, authorized xssh.PublicKey) (*node, error) {
	login, err := userName()
	if err != nil {
		return nil, err
	}
	env := append(environment(os.Environ(), d.pass), poolEnv+"="+m.Pool, nodeEnv+"="+id, homesEnv+"="+d.real)
	if m.Token != "" {
		env = append(env, tokenEnv+"="+m.Token)
	}
	server, err := sshd.New(sshd.Config{
		HostKey:        key,
		AuthorizedKeys: []xssh.PublicKey{authorized},
		Dir:            home,
		Env:            env,
	})
	if err != nil {
		return nil, err
	}
	return &node{
		id:         id,
		login:      login,
		home:       home,
		mark:       m,
		hostKey:    strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key.PublicKey()))),
		authorized: authorized,
		offer:      d.offer(),
		server:     server,
	}, nil
}

// instance describes the node as it is now.
func (n *node) instance() gputrain.Instance {
	in := gputrain.Instance{
		ID:          n.id,
		Name:        n.id,
		Rank:        n.mark.Rank,
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

// admits reports whether the holder of the key can log in.
func (n *node) admits(key xssh.PublicKey) bool {
	return bytes.Equal(n.authorized.Marshal(), key.Marshal())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
