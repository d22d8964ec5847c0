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

// Kinds of errors, to test with errors.Is.
var (
	// ErrDisconnected means that the connection was lost while something ran over it. Whether the other side did the
	// work is unknown.
	ErrDisconnected = errors.New("ssh connection lost")
	// ErrAuth means that the server accepts none of the offered logins.
	ErrAuth = errors.New("ssh login refused")
	// ErrHostKey means that the server did not prove to be the intended one. The error is a *HostKeyError.
	ErrHostKey = errors.New("host key mismatch")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("ssh client is closed")
	// ErrSessionClosed means that the session was closed before its command ended.
	ErrSessionClosed = errors.New("ssh session is closed")
	// ErrNoCommand means that the user's login shell did not run the command: it is no shell, another command is forced upon
	// the login, or its start files end it.
	ErrNoCommand = errors.New("the login runs no commands (its shell, its start files, or a forced command?)")
)

// An ExitError is a remote command that did not exit with 0.
type ExitError struct {
	Code   int    // exit status, or -1
	Signal string // "KILL", if a signal ended it
}

// Error describes how the command ended.
func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "remote command was ended by signal " + e.Signal
	}
	return fmt.Sprintf("remote command exited with status %d", e.Code)
}

// IsInterrupted reports whether something else ended the command that failed with err, so that another try may succeed: the
// connection was lost, or a signal came. A server that is killed can leave the signal as its last word: that of a session it was
// just starting.
func IsInterrupted(err error) bool {
	exit, ok := errors.AsType[*ExitError](err)
	return errors.Is(err, ErrDisconnected) || ok && exit.Signal != ""
}

// A HostKeyError is a server that did not prove to be the intended one.
type HostKeyError struct {
	// Host is the address that was dialed.
	Host string
	// Want holds the fingerprints of the keys that the server may have. Empty means that none is known.
	Want []string
	// Got is the fingerprint of the key that the server showed. Empty means that it has no key of the wanted kind.
	Got string
	// Source is the origin of Want: a known_hosts file, "first contact", "pinned".
	Source string
	// Revoked means that Source lists Got as revoked.
	Revoked bool
	// Unread are the lines of Source that cannot be read: "/home/me/.ssh/known_hosts:3".
	Unread []string
}

// Error describes both sides and advises what to do.
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
		return fmt.Sprintf("%v: %s does not know %s, which shows %s%s; compare that with the machine's own (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub there), then add the line of `ssh-keyscan %s` to the file, or pin the fingerprint as HostKey",
			ErrHostKey, e.Source, e.Host, got, e.unread(), scanArgs(e.Host))
	case e.Source == sourcePin:
		return fmt.Sprintf("%v: %s showed %s at first contact and now shows %s; someone may be in between, or the machine was made anew: if so, open the pool anew",
			ErrHostKey, e.Host, strings.Join(e.Want, " or "), got)
	default:
		return fmt.Sprintf("%v: %s shows %s, but %s has %s; someone may be in between, or the machine was made anew: if so, correct what is known (ssh-keygen -R %s, or the pinned HostKey)",
			ErrHostKey, e.Host, got, e.Source, strings.Join(e.Want, " or "), host)
	}
}

func (e *HostKeyError) unread() string {
	if len(e.Unread) == 0 {
		return ""
	}
	return fmt.Sprintf(" (what cannot be read: %s)", strings.Join(e.Unread[:min(len(e.Unread), 5)], ", "))
}

// Unwrap returns ErrHostKey.
func (e *HostKeyError) Unwrap() error { return ErrHostKey }

// scanArgs returns the arguments of ssh-keyscan for an address.
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

// cutShort returns the error of a wait for a connection that ctx ended: ctx's own, with the last failure.
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

// isPermanent reports whether dialing failed with an error that another attempt cannot change, however long the machine
// takes to start.
func isPermanent(err error) bool {
	var addr *net.AddrError
	var parse *net.ParseError
	var network net.UnknownNetworkError
	var negotiation *xssh.AlgorithmNegotiationError
	return errors.As(err, &addr) || errors.As(err, &parse) || errors.As(err, &network) ||
		errors.As(err, &negotiation) || errors.Is(err, ErrHostKey) || errors.Is(err, localnet.ErrLocal)
}

// isUnknownName reports whether a host name does not resolve.
func isUnknownName(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// isAbsent reports whether a host refused the port, or the network has no such host.
func isAbsent(err error) bool {
	return slices.ContainsFunc(absences, func(e error) bool { return errors.Is(err, e) })
}
