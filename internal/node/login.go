package node

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
	xssh "golang.org/x/crypto/ssh"
)

// A rented machine may refuse the pool's key for authPatience after it has come up: many clouds
// put keys in only after sshd has started.
const authPatience = 2 * time.Minute

// An adopted host may refuse the port, or be unknown, for adoptedPatience when it is first
// reached: the host is not starting, but its SSH server may be.
const adoptedPatience = 5 * time.Second

// dial makes the SSH client of the machine, from its endpoint. Nothing is sent yet.
func (n *Node) dial(inst driver.Instance) error {
	caps := n.Capabilities()
	at, source := n.server.endpoint(inst.SSH, caps, n.before().HostKeys)
	if err := refuseUnknown(source, caps, n.settings.RequireKnownHostKey); err != nil {
		return err
	}
	auth, keys, err := n.auth(at, source)
	if err != nil {
		return err
	}
	callback, algorithms, err := n.server.callback(at, source)
	if err != nil {
		return err
	}
	cfg := ssh.Config{
		Addr: at.Addr, User: at.User, Auth: auth, Keys: keys, HostKey: callback, HostKeyAlgorithms: algorithms,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return market.Dial(ctx, n.Provider(), n.settings.Driver, n.Capabilities(), inst)
		}, Notify: n.startup.notify,
	}
	if withheld := at.Password != "" && !sendsPassword(at, source); !caps.Adopts && !withheld {
		cfg.AuthPatience = authPatience // without a password that is needed, waiting is in vain
	}
	if wasNode := n.Resumed() || n.owner != nil && n.owner.WasReady(); caps.Adopts && !wasNode {
		cfg.AbsentPatience = adoptedPatience
	}
	n.open(ssh.New(cfg))
	return nil
}

// auth returns what to log in with: the user's own keys only if the endpoint asks for them. A
// password comes after the pool's key, if the server may have it.
func (n *Node) auth(at driver.Endpoint, source driver.HostKeySource) ([]xssh.AuthMethod, []xssh.Signer, error) {
	if files := at.Identities(); len(files) > 0 || at.Agent {
		keys, err := ssh.UserKeys(files, at.Agent)
		return nil, keys, err
	}
	auth := []xssh.AuthMethod{xssh.PublicKeys(n.settings.Login.Signer)}
	if sendsPassword(at, source) {
		n.settings.Secrets.Learn(map[string]driver.Secret{"password": at.Password})
		auth = append(auth, xssh.PasswordCallback(func() (string, error) {
			n.passwordSent.Store(true)
			return string(at.Password), nil
		}))
	}
	return auth, nil, nil
}

// authorize adds the pool's key to a machine that has asked for its password, so that the
// password is not needed again. If the server looks elsewhere for keys, as a proxy may, each
// login needs the password.
func authorize(ctx context.Context, client *ssh.Client, key string) error {
	quoted, err := supervisor.Quote(key)
	if err != nil {
		return err
	}
	const file = "~/.ssh/authorized_keys"
	// The last line of the file may lack its end.
	_, err = repeat(ctx, client, client, "umask 077; mkdir -p ~/.ssh && { grep -qxF "+quoted+" "+file+" 2>/dev/null || printf '\\n%s\\n' "+quoted+" >>"+file+"; }", "")
	return err
}

// sendsPassword reports whether a machine's password may be sent to its server: only if the
// server's key is certain, or the user has allowed it at the first contact.
func sendsPassword(at driver.Endpoint, source driver.HostKeySource) bool {
	return at.Password != "" && (source != driver.HostKeyFirstContact || at.PasswordAtFirstContact)
}

// errWithheld is added to a refused login that lacked the machine's password.
var errWithheld = errors.New("the machine's password was not sent, since its host key is known by the first contact alone")
