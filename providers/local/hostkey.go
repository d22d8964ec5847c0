package local

import (
	"crypto/ed25519"
	"encoding/pem"
	"path/filepath"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/private"
	xssh "golang.org/x/crypto/ssh"
)

// hostKeyFile, in a home, is the private key of its server, in OpenSSH's PEM
// form, for this user alone: with it another program can serve the home after
// the one that made it was killed. It ends with the home.
const hostKeyFile = ".gputrain-hostkey"

// hostKey returns the key that the pool injects, or a new one, also as it is kept.
func hostKey(k gputrain.HostKey) (key xssh.Signer, kept []byte, err error) {
	kept = []byte(string(k.Private))
	if k.Private == "" {
		_, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			return nil, nil, err
		}
		if kept, err = marshalKey(private); err != nil {
			return nil, nil, err
		}
	}
	key, err = xssh.ParsePrivateKey(kept)
	return key, kept, err
}

// keptHostKey returns the key that a home was made with.
func keptHostKey(home string) (xssh.Signer, error) {
	kept, err := private.ReadFile(filepath.Join(home, hostKeyFile), markBytes)
	if err != nil {
		return nil, err
	}
	return xssh.ParsePrivateKey(kept)
}

func marshalKey(key ed25519.PrivateKey) ([]byte, error) {
	block, err := xssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(block), nil
}
