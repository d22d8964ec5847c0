package gputrain

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/gputrain/gputrain/internal/ssh"
	xssh "golang.org/x/crypto/ssh"
)

// A serverKey is the host key of a node's SSH server: what it must be, and what it is. The
// zero value knows nothing yet.
type serverKey struct {
	earlier []string // what a program that had the node before has met
	pin     ssh.Pin  // what the first contact showed, if nothing else decides

	mu     sync.Mutex
	source HostKeySource
	proved string // the fingerprint of the key that the server has proved to have
}

// sourceOf is how the key of a machine at an endpoint comes to be known: by its driver's way,
// if the driver has told the key.
func sourceOf(at Endpoint, caps Capabilities) HostKeySource {
	if len(at.HostKeys) == 0 && at.KnownHosts == "" {
		return HostKeyFirstContact
	}
	return caps.HostKeys
}

// endpoint returns an endpoint with what is known of its server's key, and how that came to
// be known: from the driver, else from the program that had the node before.
func (k *serverKey) endpoint(at Endpoint, caps Capabilities) (Endpoint, HostKeySource) {
	if len(at.HostKeys) == 0 && at.KnownHosts == "" {
		at.HostKeys = k.earlier
	}
	return at, sourceOf(at, caps)
}

// callback returns what checks the server's key, and notes the one that it has proved.
func (k *serverKey) callback(at Endpoint, source HostKeySource) (xssh.HostKeyCallback, []string, error) {
	check, algorithms, err := ssh.HostKeys(at.HostKeys, at.KnownHosts, at.Addr, &k.pin)
	if err != nil {
		return nil, nil, err
	}
	return func(host string, remote net.Addr, key xssh.PublicKey) error {
		if err := check(host, remote, key); err != nil {
			return err
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.source, k.proved = source, ssh.Fingerprint(key)
		return nil
	}, algorithms, nil
}

// known returns the fingerprint of the key that the server has proved, or "", and how the
// key came to be known.
func (k *serverKey) known() (fingerprint string, source HostKeySource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.proved, k.source
}

// refuseUnknown says why no connection is made to a machine whose key only the first
// contact would show, or returns nil.
func refuseUnknown(source HostKeySource, caps Capabilities, spec Spec) error {
	switch {
	case source != HostKeyFirstContact:
		return nil
	case caps.HostKeys != HostKeyFirstContact:
		return fmt.Errorf("%w: host keys are %v there, and this machine's was not told", ssh.ErrHostKey, caps.HostKeys)
	case spec.RequireKnownHostKey:
		return fmt.Errorf("%w: %s", ssh.ErrHostKey, unknownHostKey)
	}
	return nil
}

// unknownHostKey is why an offer is not for a spec with RequireKnownHostKey.
const unknownHostKey = "its host key is known by the first contact alone; the spec has RequireKnownHostKey"

// sendsPassword reports whether a machine's password may be sent to its server: to one
// whose key is certain, or which the user trusts without.
func sendsPassword(at Endpoint, source HostKeySource) bool {
	return at.Password != "" && (source != HostKeyFirstContact || at.PasswordAtFirstContact)
}

// errWithheld is added to a refused login that lacked the machine's password.
var errWithheld = errors.New("the machine's password was not sent, since its host key is known by the first contact alone")
