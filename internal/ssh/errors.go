package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/localnet"
	xssh "golang.org/x/crypto/ssh"
)

// What can go wrong, as kinds to test with errors.Is.
var (
	// ErrDisconnected means that the connection was cut while something ran over
	// it. Whether the other side did the work is not known.
	ErrDisconnected = errors.New("ssh connection lost")
	// ErrAuth means that the server does not let the user in with these keys.
	ErrAuth = errors.New("ssh login refused")
	// ErrHostKey means that the server is not, or cannot be shown to be, the
	// one that was meant. The error is a *HostKeyError.
	ErrHostKey = errors.New("host key mismatch")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("ssh client is closed")
	// ErrSessionClosed means that the session was closed before its command ended.
	ErrSessionClosed = errors.New("ssh session is closed")
)

// An ExitError is a remote command that did not exit with 0.
type ExitError struct {
	Code   int    // exit status, or -1
	Signal string // "KILL", where a signal ended it
}

// Error says how the command ended.
func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "remote command was ended by signal " + e.Signal
	}
	return fmt.Sprintf("remote command exited with status %d", e.Code)
}

// A HostKeyError is a server that did not prove to be the one that was meant.
type HostKeyError struct {
	// Host is the server's address, as it was dialed.
	Host string
	// Want holds the fingerprints of the keys it may have. Empty means that
	// nothing is known of it.
	Want []string
	// Got is the fingerprint of the key that it showed. Empty means that it
	// has no key of the wanted kind.
	Got string
	// Source is where Want comes from: a known_hosts file, "first contact", "pinned".
	Source string
	// Revoked means that Source names Got as revoked.
	Revoked bool
}

// Error names both sides and what to do about it.
func (e *HostKeyError) Error() string {
	host, _, err := net.SplitHostPort(e.Host)
	if err != nil {
		host = e.Host
	}
	got := e.Got
	if got == "" {
		got = "no key of that kind"
	}
	switch {
	case e.Revoked:
		return fmt.Sprintf("%v: %s shows %s, which %s marks as revoked; do not use this machine until its owner explains", ErrHostKey, e.Host, got, e.Source)
	case len(e.Want) == 0:
		return fmt.Sprintf("%v: %s does not know %s, which shows %s; compare that with the machine's own (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub there), then add the line of `ssh-keyscan %s` to the file, or pin the fingerprint as HostKey",
			ErrHostKey, e.Source, e.Host, got, scanArgs(e.Host))
	case e.Source == sourcePin:
		return fmt.Sprintf("%v: %s showed %s at first contact and now shows %s; someone may be in between, or the machine was made anew: if so, open the pool anew",
			ErrHostKey, e.Host, strings.Join(e.Want, " or "), got)
	default:
		return fmt.Sprintf("%v: %s shows %s, but %s has %s; someone may be in between, or the machine was made anew: if so, correct what is known (ssh-keygen -R %s, or the pinned HostKey)",
			ErrHostKey, e.Host, got, e.Source, strings.Join(e.Want, " or "), host)
	}
}

// Unwrap returns ErrHostKey.
func (e *HostKeyError) Unwrap() error { return ErrHostKey }

// scanArgs is what ssh-keyscan has to be called with for an address.
func scanArgs(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "22" {
		return strings.TrimSuffix(addr, ":22")
	}
	return "-p " + port + " " + host
}

// disconnected returns the error of work that a lost connection ended.
func disconnected(cause error) error {
	if cause == nil || errors.Is(cause, ErrDisconnected) {
		return ErrDisconnected
	}
	return fmt.Errorf("%w: %w", ErrDisconnected, cause)
}

// cutShort returns the error of waiting for a connection until ctx ended. It
// is ctx's own, with what went wrong last.
func cutShort(ctx context.Context, where string, last error) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	if last == nil {
		return fmt.Errorf("waiting for ssh to %s: %w", where, err)
	}
	return fmt.Errorf("waiting for ssh to %s: %w; last failure: %w", where, err, last)
}

// isPermanent reports errors of dialing that another attempt will not change,
// however long the machine takes to start.
func isPermanent(err error) bool {
	var addr *net.AddrError
	var parse *net.ParseError
	var network net.UnknownNetworkError
	var negotiation *xssh.AlgorithmNegotiationError
	return errors.As(err, &addr) || errors.As(err, &parse) || errors.As(err, &network) ||
		errors.As(err, &negotiation) || errors.Is(err, ErrHostKey) || errors.Is(err, localnet.ErrLocal)
}

// isUnknownName reports a host name that does not resolve.
func isUnknownName(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// isAbsent reports that a host answered that nothing listens at the port, or a network
// that there is no such host.
func isAbsent(err error) bool {
	return slices.ContainsFunc(absences, func(e error) bool { return errors.Is(err, e) })
}
