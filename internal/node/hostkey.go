package node

import (
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
	xssh "golang.org/x/crypto/ssh"
)

// A server is the SSH server of a machine: which host key it must have, and which it has. The
// zero value knows nothing yet.
type server struct {
	pin ssh.Pin // the key of the first contact, if nothing else decides

	mu     sync.Mutex
	source driver.HostKeySource
	proved string // the fingerprint of the key that the server has proved
	public string // the same key in authorized_keys form
}

// endpoint returns an endpoint with the keys that the server may have, and how they came to be
// known: from the driver, else from an earlier program that had the node.
func (s *server) endpoint(at driver.Endpoint, caps driver.Capabilities, earlier []string) (driver.Endpoint, driver.HostKeySource) {
	if len(at.HostKeys) == 0 && at.KnownHosts == "" {
		at.HostKeys = earlier
	}
	return at, sourceOf(at, caps)
}

// sourceOf returns how the key of a machine at an endpoint comes to be known: in the driver's way if the endpoint has
// the key, and otherwise by the first contact.
func sourceOf(at driver.Endpoint, caps driver.Capabilities) driver.HostKeySource {
	if len(at.HostKeys) == 0 && at.KnownHosts == "" {
		return driver.HostKeyFirstContact
	}
	return caps.HostKeys
}

// callback returns what checks the server's key, and notes the key that the server has proved.
func (s *server) callback(at driver.Endpoint, source driver.HostKeySource) (xssh.HostKeyCallback, []string, error) {
	check, algorithms, err := ssh.HostKeys(at.HostKeys, at.KnownHosts, at.Addr, &s.pin)
	if err != nil {
		return nil, nil, err
	}
	return func(host string, remote net.Addr, key xssh.PublicKey) error {
		if err := check(host, remote, key); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.source, s.proved = source, ssh.Fingerprint(key)
		if cert, ok := key.(*xssh.Certificate); ok {
			key = cert.Key
		}
		s.public = strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key)))
		return nil
	}, algorithms, nil
}

// known returns the fingerprint of the key that the server has proved, or "", and how the key
// came to be known.
func (s *server) known() (fingerprint string, source driver.HostKeySource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proved, s.source
}

// publicKey returns the key that the server has proved, or that a certificate has proved, or "".
func (s *server) publicKey() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.public
}

// refuseUnknown returns why no connection is made to a machine whose key only the first contact
// would show, or nil.
func refuseUnknown(source driver.HostKeySource, caps driver.Capabilities, requireKnown bool) error {
	switch {
	case source != driver.HostKeyFirstContact:
		return nil
	case caps.HostKeys != driver.HostKeyFirstContact:
		return fmt.Errorf("%w: host keys are %v there, and this machine's is missing", ssh.ErrHostKey, caps.HostKeys)
	case requireKnown:
		return fmt.Errorf("%w: %s", ssh.ErrHostKey, market.UnknownHostKey)
	}
	return nil
}
