// Package localnet distinguishes local addresses, which lead to this computer or its link, from
// addresses of machines elsewhere.
package localnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// ErrLocal means that an address is local, so nothing was sent to it.
var ErrLocal = errors.New("a local address cannot be a machine elsewhere")

// ranges are the local addresses that [net/netip] does not recognize.
var ranges = []struct {
	netip.Prefix
	kind string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "of this computer"},
	{netip.MustParsePrefix("100.100.100.200/32"), "of a cloud's metadata"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "of a cloud's metadata"},
	{netip.MustParsePrefix("255.255.255.255/32"), "for broadcasts"},
}

// Kind describes a local address, as in the end of "127.0.0.1 is an address of this computer". It
// returns "" if the address is not local.
func Kind(a netip.Addr) string {
	a = a.Unmap()
	switch {
	case !a.IsValid(), a.IsLoopback(), a.IsUnspecified():
		return "of this computer"
	case a.IsLinkLocalUnicast():
		return "of this computer's link, which clouds use for their metadata too"
	case a.IsMulticast():
		return "for multicast"
	}
	for _, r := range ranges {
		if r.Contains(a.WithZone("")) {
			return r.kind
		}
	}
	return ""
}

// IsURL reports whether a URL's host is a local address, or the name localhost. It looks up no
// names.
func IsURL(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && Kind(a) != ""
}

// Dial connects to host:port by TCP as d does. If the address of the connection is local, whatever
// name resolved to it, the error is ErrLocal.
func Dial(ctx context.Context, d net.Dialer, addr string) (net.Conn, error) {
	d.ControlContext = func(_ context.Context, _, to string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(to)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrLocal, to, err)
		}
		if kind := Kind(at.Addr()); kind != "" {
			return fmt.Errorf("%w: %s is an address %s", ErrLocal, at.Addr(), kind)
		}
		return nil
	}
	return d.DialContext(ctx, "tcp", addr)
}
