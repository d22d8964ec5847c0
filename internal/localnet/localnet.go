// Package localnet tells addresses that only this computer, or its link, can mean from
// those of machines elsewhere.
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

// ErrLocal means that nothing was sent, as an address is local.
var ErrLocal = errors.New("no address of a machine elsewhere")

// ranges are what [net/netip] has no word for.
var ranges = []struct {
	netip.Prefix
	kind string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "of this computer"},
	{netip.MustParsePrefix("100.100.100.200/32"), "of a cloud's metadata"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "of a cloud's metadata"},
	{netip.MustParsePrefix("255.255.255.255/32"), "for broadcasts"},
}

// Kind says what is local about an address, as the end of "127.0.0.1 is an address of this
// computer", or returns "".
func Kind(a netip.Addr) string {
	a = a.Unmap()
	switch {
	case !a.IsValid(), a.IsLoopback(), a.IsUnspecified():
		return "of this computer"
	case a.IsLinkLocalUnicast():
		return "of this computer's link, where clouds have their metadata too"
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

// IsURL reports whether a URL's host is local by its text: an address, or the name
// localhost. Nothing is looked up.
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

// Dial connects to host:port by TCP as d does, unless that is local: then the error is
// ErrLocal. What counts is the address of the connection, whatever a name resolved to
// before.
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
