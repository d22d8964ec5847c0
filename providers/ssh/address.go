package ssh

import (
	"net"
	"net/netip"
	"os/user"
	"strconv"
	"strings"
)

// address returns host:port for a user's "gpu1", "gpu1:2222", "::1" or "[::1]:2222".
func address(s string) (string, error) {
	const hint = `write "gpu1.lab", "gpu1.lab:2222" or "[2001:db8::1]:22"`
	switch {
	case s == "":
		return "", invalid(hint, "Addr is empty")
	case strings.Contains(s, "://"):
		return "", invalid(hint, "Addr is a host and a port, not a URL")
	case strings.Contains(s, "@"):
		return "", invalid("write the part before the @ into User", "Addr holds a user name")
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' }):
		return "", invalid(hint, "Addr has a character that is not allowed in an address")
	}
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		s += ":22"
	} else if _, err := netip.ParseAddr(s); err == nil || !strings.Contains(s, ":") {
		s = net.JoinHostPort(s, "22")
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", invalid(hint, "Addr is not host:port: %v", err)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", invalid(hint, "port %q is not a number from 1 to 65535", port)
	}
	if host == "" || strings.HasPrefix(host, "-") || strings.ContainsAny(host, "[]") {
		return "", invalid(hint, "Addr names no host")
	}
	return net.JoinHostPort(host, port), nil
}

// currentUser returns the login name of the user of this program.
func currentUser() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", invalid("set User", "the current user is unknown: %v", err)
	}
	// Windows returns DOMAIN\name.
	return u.Username[strings.LastIndexByte(u.Username, '\\')+1:], nil
}
