package ssh

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/sshkey"
)

// known accepts the server at addr if a known_hosts file does, as ssh(1) does: by plain or hashed names in any case, [host]:port,
// patterns, certificate authorities, revoked keys; and by a name without its port. The client asks the server for keys of the
// kinds that the file has. A line that cannot be read takes nothing from the others.
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
	var hosts knownHosts
	for _, path := range sshkey.KnownHostsFiles(path) {
		err := hosts.read(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil, fmt.Errorf("known_hosts file %s does not exist: make it with `ssh-keyscan %s` after comparing the key with the machine's own, or pin its HostKey: %w", path, scanArgs(addr), err)
		case err != nil:
			return nil, nil, fmt.Errorf("known_hosts file %s: %w", path, err)
		}
	}
	lines := hosts.of(addr)
	checker := &xssh.CertChecker{
		IsHostAuthority: func(key xssh.PublicKey, _ string) bool { return lines.have(key, sshkey.MarkerAuthority) },
		IsRevoked:       func(cert *xssh.Certificate) bool { return hosts.revoked(cert) },
	}
	return func(_ string, remote net.Addr, key xssh.PublicKey) error {
		refused := &HostKeyError{Host: addr, Got: Fingerprint(plain(key)), Source: path, Unread: hosts.unread}
		if hosts.revoked(key) {
			refused.Revoked = true
			return refused
		}
		if cert, certified := key.(*xssh.Certificate); certified && lines.have(cert.SignatureKey, sshkey.MarkerAuthority) {
			if err := checker.CheckHostKey(addr, remote, key); err != nil {
				return fmt.Errorf("%w: %s, by %s: %w", ErrHostKey, addr, path, err)
			}
			return nil
		}
		if lines.have(plain(key), "") {
			return nil
		}
		for _, l := range lines {
			refused.Want = append(refused.Want, Fingerprint(l.key))
		}
		return refused
	}, lines.algorithms(), nil
}

// A knownLine is a line of a known_hosts file that can be read.
type knownLine struct {
	marker string
	names  []string
	key    xssh.PublicKey
}

type knownLines []knownLine

// knownHosts are the lines of known_hosts files.
type knownHosts struct {
	lines  knownLines
	unread []string // where lines are that cannot be read
}

// read adds the lines of a file.
func (h *knownHosts) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines, unread := sshkey.KnownHosts(text)
	for _, l := range lines {
		key, err := xssh.ParsePublicKey(l.Key)
		if err != nil {
			unread = append(unread, l.Number) // of a kind that this program does not know
			continue
		}
		h.lines = append(h.lines, knownLine{l.Marker, l.Names, key})
	}
	slices.Sort(unread)
	for _, n := range unread {
		h.unread = append(h.unread, fmt.Sprintf("%s:%d", path, n))
	}
	return nil
}

// revoked reports whether a key is, or what a certificate certifies, or its authority.
func (h *knownHosts) revoked(key xssh.PublicKey) bool {
	if cert, ok := key.(*xssh.Certificate); ok && h.lines.have(cert.SignatureKey, sshkey.MarkerRevoked) {
		return true
	}
	return h.lines.have(plain(key), sshkey.MarkerRevoked)
}

// of returns the lines that name the server at addr, host:port; without any, those that name the host without its port.
func (h *knownHosts) of(addr string) knownLines {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil
	}
	host = strings.ToLower(host)
	names := []string{"[" + host + "]:" + port}
	if port == "22" {
		names = append(names, host)
	}
	if lines := h.naming(names); len(lines) > 0 {
		return lines
	}
	return h.naming([]string{host})
}

func (h *knownHosts) naming(names []string) (lines knownLines) {
	for _, l := range h.lines {
		if l.marker != sshkey.MarkerRevoked && slices.ContainsFunc(names, l.matches) {
			lines = append(lines, l)
		}
	}
	return lines
}

// matches reports whether one of a line's patterns is that of a name, and no negated one is.
func (l knownLine) matches(name string) (matched bool) {
	for _, pattern := range l.names {
		pattern, negated := strings.CutPrefix(pattern, "!")
		hit := false
		if strings.HasPrefix(pattern, "|") {
			hit = hashedName(pattern, name)
		} else {
			hit = wildcard(strings.ToLower(pattern), name)
		}
		if hit && negated {
			return false
		}
		matched = matched || hit
	}
	return matched
}

// hashedName reports whether a pattern |1|salt|hash is that of a name.
func hashedName(pattern, name string) bool {
	parts := strings.Split(pattern, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	hash, err2 := base64.StdEncoding.DecodeString(parts[3])
	if err := cmp.Or(err, err2); err != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return hmac.Equal(mac.Sum(nil), hash)
}

// wildcard reports whether a pattern with * and ? is that of a text. It takes as many steps as both are long, multiplied.
func wildcard(pattern, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p, t = p+1, t+1
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// have reports whether a line with the marker has the key.
func (lines knownLines) have(key xssh.PublicKey, marker string) bool {
	return slices.ContainsFunc(lines, func(l knownLine) bool { return l.marker == marker && isSameKey(l.key, key) })
}

// algorithms lists the algorithms of the keys. It is nil without any. A server of which an authority is known shows a certificate,
// whatever kind its own key is.
func (lines knownLines) algorithms() []string {
	var certificates, keys []string
	for _, l := range lines {
		if l.marker == sshkey.MarkerAuthority {
			certificates = certificateAlgorithms()
		} else {
			keys = append(keys, algorithmsFor(l.key.Type())...)
		}
	}
	return unique(append(certificates, keys...))
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
