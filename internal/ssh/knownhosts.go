package ssh

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// known accepts the server at addr if a known_hosts file does: by plain or hashed names, [host]:port, certificate
// authorities, revoked keys. The client asks the server for keys of the kinds that the file has.
func known(file, addr string) (xssh.HostKeyCallback, []string, error) {
	path, err := expand(file)
	if err != nil {
		return nil, nil, err
	}
	if addr == "" {
		return nil, nil, fmt.Errorf("known_hosts file %s cannot name a server without an address: pin its HostKey instead", path)
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(strings.Trim(addr, "[]"), "22")
	}
	check, err := knownhosts.New(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("known_hosts file %s does not exist: make it with `ssh-keyscan %s` after comparing the key with the machine's own, or pin its HostKey: %w", path, scanArgs(addr), err)
	case err != nil:
		return nil, nil, fmt.Errorf("known_hosts file %s: %w", path, err)
	}
	algorithms, err := knownAlgorithms(check, addr)
	if err != nil {
		return nil, nil, err
	}
	return func(_ string, _ net.Addr, key xssh.PublicKey) error {
		err := check(addr, address(addr), key)
		if err == nil {
			return nil
		}
		refused := &HostKeyError{Host: addr, Got: Fingerprint(plain(key)), Source: path}
		var mismatch *knownhosts.KeyError
		var revoked *knownhosts.RevokedError
		switch {
		case errors.As(err, &revoked):
			refused.Revoked = true
		case errors.As(err, &mismatch):
			for _, k := range mismatch.Want {
				refused.Want = append(refused.Want, Fingerprint(k.Key))
			}
		default: // an invalid certificate
			return fmt.Errorf("%w: %s, by %s: %w", ErrHostKey, addr, path, err)
		}
		return refused
	}, algorithms, nil
}

// knownAlgorithms lists the algorithms of the keys that the file has for the server. It is nil if the file does not
// name the server.
func knownAlgorithms(check xssh.HostKeyCallback, addr string) ([]string, error) {
	// The refusal of an unknown key lists the known ones of the server.
	unknown, err := xssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	if err != nil {
		return nil, err
	}
	var mismatch *knownhosts.KeyError
	if !errors.As(check(addr, address(addr), unknown), &mismatch) {
		return nil, nil
	}
	var certificates, keys []string
	for _, k := range mismatch.Want {
		isAuthority, err := namesAuthority(k)
		switch {
		case err != nil:
			return nil, err
		case isAuthority:
			certificates = certificateAlgorithms()
		default:
			keys = append(keys, algorithmsFor(k.Key.Type())...)
		}
	}
	return unique(append(certificates, keys...)), nil
}

// namesAuthority reports whether a line names a certificate authority: the server then shows a certificate, whatever
// kind its own key is.
func namesAuthority(k knownhosts.KnownKey) (bool, error) {
	text, err := os.ReadFile(k.Filename)
	if err != nil {
		return false, err
	}
	lines := bytes.Split(text, []byte("\n"))
	if k.Line < 1 || k.Line > len(lines) {
		return false, fmt.Errorf("known_hosts file %s changed while it was read", k.Filename)
	}
	return bytes.HasPrefix(bytes.TrimSpace(lines[k.Line-1]), []byte("@cert-authority")), nil
}

func certificateAlgorithms() []string {
	var out []string
	for _, a := range xssh.SupportedAlgorithms().HostKeys {
		if strings.Contains(a, "-cert-v") {
			out = append(out, a)
		}
	}
	return out
}

// address is a net.Addr made of its text alone.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// expand replaces a leading ~ by the user's home directory.
func expand(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && !os.IsPathSeparator(rest[0]) {
		return path, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return filepath.Join(home, rest), nil
}
