package gputrain

import (
	"github.com/gputrain/gputrain/internal/ssh"
	xssh "golang.org/x/crypto/ssh"
)

// keys are the pair that a pool logs in with, made for it and kept in memory.
type keys struct {
	signer xssh.Signer
	public string // in authorized_keys form
}

func newKeys() (keys, error) {
	pair, err := ssh.NewKeyPair()
	if err != nil {
		return keys{}, err
	}
	return keys{signer: pair.Signer, public: pair.Public}, nil
}

// newHostKey makes the identity of a machine that is told who it is.
func newHostKey() (HostKey, error) {
	pair, err := ssh.NewKeyPair()
	if err != nil {
		return HostKey{}, err
	}
	return HostKey{Private: Secret(pair.Private), Public: pair.Public}, nil
}
