package gputrain

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
	xssh "golang.org/x/crypto/ssh"
)

// authPatience is how long a machine that has just come up may refuse the
// pool's key: many clouds put keys in only after sshd has started.
const authPatience = 2 * time.Minute

// adoptedPatience is how long an adopted host may refuse the port, or be unknown, when it
// is first reached. It is not starting; its SSH server may be.
const adoptedPatience = 5 * time.Second

// sshClient makes the client of one machine, from what its endpoint says.
func (p *pool) sshClient(n *poolNode, inst Instance) (*ssh.Client, error) {
	at, source := n.server.endpoint(inst.SSH, n.caps())
	if err := refuseUnknown(source, n.caps(), p.spec); err != nil {
		return nil, err
	}
	auth, err := n.auth(at, source)
	if err != nil {
		return nil, err
	}
	callback, algorithms, err := n.server.callback(at, source)
	if err != nil {
		return nil, err
	}
	cfg := ssh.Config{
		Addr: at.Addr, User: at.User, Auth: auth, HostKey: callback, HostKeyAlgorithms: algorithms,
		Dial: n.dialer(inst), Notify: n.rise.notify,
	}
	if withheld := at.Password != "" && !sendsPassword(at, source); !n.caps().Adopts && !withheld {
		cfg.AuthPatience = authPatience // else no key will be put in
	}
	if n.caps().Adopts && !n.wasNode() {
		cfg.AbsentPatience = adoptedPatience
	}
	return ssh.New(cfg), nil
}

// dialer returns how the machine is reached: as its driver says, or by its address. A
// cloud that says that a rented machine is at this computer, or at what only this computer
// reaches, is not believed.
func (n *poolNode) dialer(inst Instance) func(context.Context) (net.Conn, error) {
	m := n.member()
	if special, ok := m.driver.(Dialer); ok {
		return func(ctx context.Context) (net.Conn, error) { return special.Dial(ctx, m.own(inst)) }
	}
	direct := net.Dialer{Timeout: 10 * time.Second}
	if m.caps.Adopts || m.caps.LocalAddresses {
		return func(ctx context.Context) (net.Conn, error) { return direct.DialContext(ctx, "tcp", inst.SSH.Addr) }
	}
	return func(ctx context.Context) (net.Conn, error) {
		nc, err := localnet.Dial(ctx, direct, inst.SSH.Addr)
		if errors.Is(err, localnet.ErrLocal) {
			err = fmt.Errorf("%s says that instance %s has its SSH server at %s: %w; nothing was sent, and the machine is given up", m.provider, m.ownID(inst.ID), inst.SSH.Addr, err)
		}
		return nc, err
	}
}

// auth returns the keys to log in with: the user's own only where the endpoint
// asks for them. A password comes after the pool's key, if the server may have it.
func (n *poolNode) auth(at Endpoint, source HostKeySource) ([]xssh.AuthMethod, error) {
	if at.KeyFile != "" {
		signer, err := ssh.LoadKey(at.KeyFile)
		if err != nil {
			return nil, err
		}
		return []xssh.AuthMethod{xssh.PublicKeys(signer)}, nil
	}
	if at.Agent {
		signers, err := ssh.AgentSigners()
		if err != nil {
			return nil, err
		}
		return []xssh.AuthMethod{xssh.PublicKeys(signers...)}, nil
	}
	auth := []xssh.AuthMethod{xssh.PublicKeys(n.p.keys.signer)}
	if sendsPassword(at, source) {
		n.p.secrets.learn(map[string]Secret{"password": at.Password})
		auth = append(auth, xssh.PasswordCallback(func() (string, error) {
			n.byPassword.Store(true)
			return string(at.Password), nil
		}))
	}
	return auth, nil
}

// putKey puts the pool's key in place on a machine that a password was needed for, so that
// it is not needed again. Where the server looks elsewhere for keys, as a proxy may, the
// password goes on letting in.
func (n *poolNode) putKey(ctx context.Context) error {
	if !n.byPassword.Load() {
		return nil
	}
	key, err := supervisor.Quote(n.p.keys.public)
	if err != nil {
		return err
	}
	const file = "~/.ssh/authorized_keys"
	// What stands there may lack the end of its last line.
	return n.client.Exec(ctx, "umask 077; mkdir -p ~/.ssh && { grep -qxF "+key+" "+file+" 2>/dev/null || printf '\\n%s\\n' "+key+" >>"+file+"; }", nil, nil, nil)
}

// kindOfSSH maps what went wrong with a connection to the package's kinds.
func kindOfSSH(err error) error {
	switch {
	case errors.Is(err, ssh.ErrHostKey):
		return ErrHostKey
	case errors.Is(err, ssh.ErrAuth):
		return ErrAuth
	case errors.Is(err, supervisor.ErrFenced):
		return ErrFenced
	}
	return ErrUnavailable
}

// transferTools says what the node has for copying files.
func transferTools(f supervisor.Facts) transfer.Tools {
	t := transfer.Tools{Tar: f.Tools["tar"], Gzip: f.Tools["gzip"]}
	switch {
	case f.Tools["openssl"]: // first: it uses what the processor has for this, which Debian's sha256sum does not
		t.SHA256 = "openssl dgst -sha256 -r"
	case f.Tools["sha256sum"]:
		t.SHA256 = "sha256sum"
	case f.Tools["shasum"]:
		t.SHA256 = "shasum -a 256"
	}
	return t
}
