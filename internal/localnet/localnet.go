// Package localnet distinguishes local addresses, which lead to this computer or its link, and addresses that no
// machine has, from addresses of machines elsewhere.
package localnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// ErrLocal means that an address is local, so nothing was sent to it.
var ErrLocal = errors.New("a local address cannot be a machine elsewhere")

const (
	ofThisComputer = "of this computer"
	ofMetadata     = "of a cloud's metadata"
)

// ranges are the addresses that [net/netip] does not recognize.
var ranges = []struct {
	netip.Prefix
	kind string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), ofThisComputer},
	{netip.MustParsePrefix("100.96.0.96/32"), ofMetadata},     // Volcano Engine
	{netip.MustParsePrefix("100.100.100.200/32"), ofMetadata}, // Alibaba
	{netip.MustParsePrefix("168.63.129.16/32"), ofMetadata},   // Azure's wire server
	{netip.MustParsePrefix("192.0.0.192/32"), ofMetadata},     // Oracle's classic one
	{netip.MustParsePrefix("192.0.0.0/24"), "of a protocol, which no machine has"},
	{netip.MustParsePrefix("fd00:42::42/128"), ofMetadata}, // Scaleway
	{netip.MustParsePrefix("fd00:c1::/32"), ofMetadata},    // Oracle
	{netip.MustParsePrefix("fd00:ec2::/32"), ofMetadata},   // AWS, with its clock and its resolver
	{netip.MustParsePrefix("fd20:ce::/32"), ofMetadata},    // Google
	{netip.MustParsePrefix("255.255.255.255/32"), "for broadcasts"},
}

// Kind describes a local address, or one that no machine has, as in the end of "127.0.0.1 is an address of this
// computer". It returns "" for an address that another machine may have. The addresses of this computer's interfaces
// are local too, and an IPv6 address by which a translator or a tunnel reaches an IPv4 address is what that one is.
func Kind(a netip.Addr) string { return kind(a, own()) }

// Reserved is Kind for an address by which machines reach each other: the loopback's and this computer's own may be one.
func Reserved(a netip.Addr) string {
	for _, one := range meanings(a) {
		if kind := reserved(one); kind != "" {
			return kind
		}
	}
	return ""
}

func kind(a netip.Addr, own []netip.Addr) string {
	for _, one := range meanings(a) {
		if one.IsLoopback() {
			return ofThisComputer
		}
		if kind := reserved(one); kind != "" {
			return kind
		}
		if slices.Contains(own, one) {
			return ofThisComputer
		}
	}
	return ""
}

func reserved(a netip.Addr) string {
	switch {
	case !a.IsValid(), a.IsUnspecified():
		return ofThisComputer
	case a.IsLinkLocalUnicast():
		return "of this computer's link, which clouds use for their metadata too"
	case a.IsMulticast():
		return "for multicast"
	}
	for _, r := range ranges {
		if r.Contains(a) {
			return r.kind
		}
	}
	return ""
}

// elsewhere is an address of this computer at which tests have the machines of a cloud: it counts as another computer's. The
// linker sets it for programs that a test builds, and CountElsewhere for tests themselves. It is empty for all others.
var elsewhere string

var elsewhereLock sync.Mutex

// CountElsewhere has an address of this computer count as one of another, for tests.
func CountElsewhere(address string) {
	elsewhereLock.Lock()
	defer elsewhereLock.Unlock()
	elsewhere = address
}

// Linked returns the linker's flags for a program in which the same address counts as one of another computer, or "".
func Linked() string {
	elsewhereLock.Lock()
	defer elsewhereLock.Unlock()
	if elsewhere == "" {
		return ""
	}
	return "-X=github.com/gputrain/gputrain/internal/localnet.elsewhere=" + elsewhere
}

// own returns the addresses of this computer's interfaces, which change as it moves. If the system does not tell them,
// there are none.
func own() (all []netip.Addr) {
	elsewhereLock.Lock()
	not := elsewhere
	elsewhereLock.Unlock()
	found, _ := net.InterfaceAddrs()
	for _, f := range found {
		if n, ok := f.(*net.IPNet); ok {
			if a, ok := netip.AddrFromSlice(n.IP); ok && a.Unmap().String() != not {
				all = append(all, a.Unmap())
			}
		}
	}
	return all
}

// embeddings are IPv6 addresses that mean an IPv4 address, and which of their bytes that has. A prefix may stand for
// several forms.
var embeddings = []struct {
	netip.Prefix
	at  []int
	not byte // what the bytes are combined with by XOR
}{
	{netip.MustParsePrefix("::/96"), []int{12, 13, 14, 15}, 0},           // compatible addresses
	{netip.MustParsePrefix("::ffff:0:0:0/96"), []int{12, 13, 14, 15}, 0}, // translated ones
	{netip.MustParsePrefix("64:ff9b::/96"), []int{12, 13, 14, 15}, 0},    // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), []int{6, 7, 9, 10}, 0},     // NAT64 with a prefix of the network's own: RFC 6052
	{netip.MustParsePrefix("64:ff9b:1::/48"), []int{7, 9, 10, 11}, 0},
	{netip.MustParsePrefix("64:ff9b:1::/48"), []int{9, 10, 11, 12}, 0},
	{netip.MustParsePrefix("64:ff9b:1::/48"), []int{12, 13, 14, 15}, 0},
	{netip.MustParsePrefix("2001::/32"), []int{4, 5, 6, 7}, 0},        // Teredo's server
	{netip.MustParsePrefix("2001::/32"), []int{12, 13, 14, 15}, 0xff}, // and its client
	{netip.MustParsePrefix("2002::/16"), []int{2, 3, 4, 5}, 0},        // 6to4
}

// meanings returns an address without its zone, and the IPv4 addresses that it may lead to. Of the forms of one prefix
// those that would be in 0.0.0.0/8 are others' zeros, unless all are.
func meanings(a netip.Addr) []netip.Addr {
	a = a.Unmap().WithZone("")
	all := []netip.Addr{a}
	if !a.Is6() || a.IsUnspecified() || a.IsLoopback() {
		return all
	}
	raw := a.As16()
	zero := netip.Addr{}
	for _, e := range embeddings {
		if !e.Contains(a) {
			continue
		}
		v4 := netip.AddrFrom4([4]byte{raw[e.at[0]] ^ e.not, raw[e.at[1]] ^ e.not, raw[e.at[2]] ^ e.not, raw[e.at[3]] ^ e.not})
		if v4.As4()[0] == 0 {
			zero = v4
			continue
		}
		all = append(all, v4)
	}
	if isatap := raw[8]&^2 == 0 && raw[9] == 0 && raw[10] == 0x5e && raw[11] == 0xfe; isatap {
		all = append(all, netip.AddrFrom4([4]byte(raw[12:])))
	}
	if len(all) == 1 && zero.IsValid() {
		all = append(all, zero)
	}
	return all
}

// HostKind is [Kind] of a host as a text, as [Parse] reads it. It is "" for a name.
func HostKind(host string) string {
	if a, ok := Parse(host); ok {
		return Kind(a)
	}
	return ""
}

// Parse returns the address that a host is as a text: in any spelling that a resolver may accept, such as 0x7f.1, and
// for the name localhost. It looks up no names: ok is false for all others.
func Parse(host string) (a netip.Addr, ok bool) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		a = spelled(host)
	}
	return a, a.IsValid()
}

// notPublic are the addresses that the internet does not route, beside those that [net/netip] knows.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), // providers' own networks, and overlays
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("fec0::/10"),
}

// Public reports whether an address is one of the internet: what it leads to may be reached from there.
func Public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || reserved(a) != "" {
		return false
	}
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(a) })
}

// spelled returns the IPv4 address that inet_aton makes of a text: of one to four numbers in C's notation, the last of
// which fills the bytes that are left. The zero Addr means that it makes none.
func spelled(host string) netip.Addr {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}
	}
	var sum uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		n, err := strconv.ParseUint(part, 0, bits)
		if err != nil || strings.Contains(part, "_") || strings.HasPrefix(part, "0b") || strings.HasPrefix(part, "0o") { // Go's, and not C's
			return netip.Addr{}
		}
		sum = sum<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// IsURL reports whether a URL's host is a local address, in any spelling, or the name localhost. It looks up no
// names.
func IsURL(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && HostKind(u.Hostname()) != ""
}

// Dial connects to host:port by TCP as d does. If the address of the connection is local, whatever
// name resolved to it, the error is ErrLocal.
func Dial(ctx context.Context, d net.Dialer, addr string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		if kind := HostKind(host); kind != "" {
			return nil, fmt.Errorf("%w: %s is an address %s", ErrLocal, host, kind)
		}
	}
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
