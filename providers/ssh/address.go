package ssh

import (
	"net"
	"net/netip"
	"os/user"
	"strconv"
	"strings"
)

// address returns the parts of a user's "gpu1", "gpu1:2222", "::1" or "[::1]:2222". The port is empty if there is none.
func address(s string) (host, port string, err error) {
	const hint = `write "gpu1.lab", "gpu1.lab:2222" or "[2001:db8::1]:22"`
	switch {
	case s == "":
		return "", "", invalid(hint, "Addr is empty")
	case strings.Contains(s, "://"):
		return "", "", invalid(hint, "Addr is a host and a port, not a URL")
	case strings.Contains(s, "@"):
		return "", "", invalid("write the part before the @ into User", "Addr holds a user name")
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' }):
		return "", "", invalid(hint, "Addr has a character that is not allowed in an address")
	}
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		host = s[1 : len(s)-1]
	} else if _, err := netip.ParseAddr(s); err == nil || !strings.Contains(s, ":") {
		host = s
	} else if host, port, err = net.SplitHostPort(s); err != nil {
		return "", "", invalid(hint, "Addr is not host:port: %v", err)
	} else if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", "", invalid(hint, "port %q is not a number from 1 to 65535", port)
	}
	if host == "" || strings.HasPrefix(host, "-") || strings.ContainsAny(host, "[]") {
		return "", "", invalid(hint, "Addr names no host")
	}
	return host, port, nil
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
