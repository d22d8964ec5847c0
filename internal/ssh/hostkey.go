package ssh

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	xssh "golang.org/x/crypto/ssh"
)

// The origins of a known key, in errors.
const (
	sourcePin    = "first contact"
	sourcePinned = "the pinned HostKey"
)

// HostKeys returns the Config.HostKey and Config.HostKeyAlgorithms for a server at addr, host:port.
//
// Each of want is a key in authorized_keys form, or a "SHA256:" fingerprint: the server must show one of them. Without
// any, knownHosts is a file in known_hosts form that must name the server. Without that too the first contact decides:
// its key is recorded in pin, and the server must show it from then on. A refusal is a *HostKeyError.
func HostKeys(want []string, knownHosts, addr string, pin *Pin) (xssh.HostKeyCallback, []string, error) {
	switch {
	case len(want) > 0:
		return pinned(want, addr)
	case knownHosts != "":
		return known(knownHosts, addr)
	case pin == nil:
		return nil, nil, errors.New("the server's host key is unknown, and there is no Pin to record it in")
	}
	return func(_ string, _ net.Addr, key xssh.PublicKey) error {
		key = plain(key)
		if held := pin.hold(key); !isSameKey(held, key) {
			return &HostKeyError{Host: addr, Want: []string{Fingerprint(held)}, Got: Fingerprint(key), Source: sourcePin}
		}
		return nil
	}, nil, nil
}

// pinned accepts the keys and fingerprints in want.
func pinned(want []string, addr string) (xssh.HostKeyCallback, []string, error) {
	var fingerprints, algorithms []string
	anyKind := false
	for _, w := range want {
		key, fingerprint, err := parseWant(w)
		if err != nil {
			return nil, nil, err
		}
		fingerprints = append(fingerprints, fingerprint)
		if key == nil {
			anyKind = true
		} else {
			algorithms = append(algorithms, algorithmsFor(key.Type())...)
		}
	}
	if anyKind {
		algorithms = nil
	}
	return func(_ string, _ net.Addr, key xssh.PublicKey) error {
		got := Fingerprint(plain(key))
		if !slices.Contains(fingerprints, got) {
			return &HostKeyError{Host: addr, Want: fingerprints, Got: got, Source: sourcePinned}
		}
		return nil
	}, unique(algorithms), nil
}

// parseWant reads a key in authorized_keys form, or a fingerprint; then key is nil.
func parseWant(s string) (key xssh.PublicKey, fingerprint string, err error) {
	s = strings.TrimSpace(s)
	if hash, ok := strings.CutPrefix(s, "SHA256:"); ok {
		sum, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(hash, "="))
		if err != nil || len(sum) != 32 {
			return nil, "", fmt.Errorf("host key %q is not a fingerprint: SHA256: and 43 characters of base64, as ssh-keygen -lf prints it", s)
		}
		return nil, "SHA256:" + base64.RawStdEncoding.EncodeToString(sum), nil
	}
	key, _, options, rest, err := xssh.ParseAuthorizedKey([]byte(s))
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("host key %q is neither a public key (\"ssh-ed25519 AAAA...\") nor a SHA256: fingerprint", s)
	case len(options) > 0 || len(bytes.TrimSpace(rest)) > 0:
		return nil, "", fmt.Errorf("host key %q is more than one public key: give each as one string, without options", s)
	}
	key = plain(key)
	return key, Fingerprint(key), nil
}

// Fingerprint returns a key's SHA-256 fingerprint: "SHA256:...".
func Fingerprint(key xssh.PublicKey) string { return xssh.FingerprintSHA256(key) }

// plain returns the key that a certificate certifies, or key itself.
func plain(key xssh.PublicKey) xssh.PublicKey {
	if cert, ok := key.(*xssh.Certificate); ok {
		return cert.Key
	}
	return key
}

func isSameKey(a, b xssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// unique removes duplicates and keeps the order.
func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
