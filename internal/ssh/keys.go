package ssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	xssh "golang.org/x/crypto/ssh"
)

// A KeyPair is an identity for one purpose: a pool's login, a machine's host key. Its private half is a secret.
type KeyPair struct {
	Signer xssh.Signer
	// Private is the private key in OpenSSH's PEM form.
	Private []byte
	// Public is the public key in authorized_keys form, without a newline.
	Public string
}

// NewKeyPair makes an Ed25519 key.
func NewKeyPair() (KeyPair, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return KeyPair{}, err
	}
	block, err := xssh.MarshalPrivateKey(private, "gputrain")
	if err != nil {
		return KeyPair{}, err
	}
	signer, err := xssh.NewSignerFromKey(private)
	if err != nil {
		return KeyPair{}, err
	}
	public := strings.TrimSpace(string(xssh.MarshalAuthorizedKey(signer.PublicKey())))
	return KeyPair{Signer: signer, Private: pem.EncodeToMemory(block), Public: public}, nil
}

// ParseKey reads a private key that NewKeyPair made.
func ParseKey(pem []byte) (xssh.Signer, error) { return xssh.ParsePrivateKey(pem) }

// AuthorizedKey returns the type and the key of a public key in authorized_keys form, without its comment. It refuses
// what is not one key that may do everything. The error holds nothing of the text: it may be a private key.
func AuthorizedKey(line string) (string, error) {
	if strings.Contains(line, "PRIVATE KEY") {
		return "", errors.New("it is a private key; give the public one, as in the file whose name ends in .pub")
	}
	key, _, options, rest, err := xssh.ParseAuthorizedKey([]byte(line))
	switch {
	case err != nil:
		return "", errors.New("it is no public key; give a line as in the file whose name ends in .pub: ssh-ed25519 AAAA... me@laptop")
	case len(options) > 0:
		return "", errors.New("it has options before the key, which are not supported; give the key alone")
	case strings.ContainsAny(strings.TrimSpace(line), "\n\r\x00") || len(rest) > 0:
		return "", errors.New("it is more than one line; give each key by itself")
	}
	if _, ok := key.(*xssh.Certificate); ok {
		return "", errors.New("it is a certificate; give the public key itself")
	}
	if key.Type() == "ssh-dss" {
		return "", errors.New("it is a DSA key, which servers no longer accept; make another with ssh-keygen -t ed25519")
	}
	return strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key))), nil
}

// LoadKey reads a private key from a file. A leading ~ is the user's home.
func LoadKey(path string) (xssh.Signer, error) {
	file, err := expand(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("ssh key: %w", err)
	}
	signer, err := xssh.ParsePrivateKey(text)
	var locked *xssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, fmt.Errorf("ssh key %s is protected by a passphrase: add it to the SSH agent (ssh-add %s) and use that: %w", file, file, err)
	case err != nil:
		if _, _, _, _, public := xssh.ParseAuthorizedKey(text); public == nil {
			return nil, fmt.Errorf("ssh key %s is the public half: name the private one", file)
		}
		return nil, fmt.Errorf("ssh key %s is not a private key that can be read: %w", file, err)
	}
	return signer, nil
}
