package machine

import (
	"crypto/ed25519"
	"encoding/pem"

	xssh "golang.org/x/crypto/ssh"
)

// NewHostKey returns a private key for Config.HostKey, in OpenSSH's PEM form.
func NewHostKey() (string, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", err
	}
	block, err := xssh.MarshalPrivateKey(key, "")
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(block)), nil
}

// CheckKey reports what is wrong with a public key in authorized_keys form.
func CheckKey(authorizedKey string) error {
	_, _, _, _, err := xssh.ParseAuthorizedKey([]byte(authorizedKey))
	return err
}
