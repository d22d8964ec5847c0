package gputrain

import (
	"strings"

	"github.com/gputrain/gputrain/internal/ssh"
	xssh "golang.org/x/crypto/ssh"
)

// keys are the pair that a pool logs in with, made for it. The private one is also
// in a file of its own beside the pool's ledger, as long as there is one.
type keys struct {
	signer  xssh.Signer
	private []byte // in OpenSSH's PEM form, for whoever attaches
	public  string // in authorized_keys form
}

func newKeys() (keys, error) {
	pair, err := ssh.NewKeyPair()
	if err != nil {
		return keys{}, err
	}
	return keys{signer: pair.Signer, private: pair.Private, public: pair.Public}, nil
}

// newHostKey makes the identity of a machine that is told who it is.
func newHostKey() (HostKey, error) {
	pair, err := ssh.NewKeyPair()
	if err != nil {
		return HostKey{}, err
	}
	return HostKey{Private: Secret(pair.Private), Public: pair.Public}, nil
}

// authorizedForm returns a public key as authorized_keys has it.
func authorizedForm(key xssh.PublicKey) string {
	return strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key)))
}
