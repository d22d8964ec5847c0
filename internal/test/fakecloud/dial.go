package fakecloud

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

// Dial uses these to find every machine that is not down.
var (
	machines sync.Map // by public address: ip:22
	booked   atomic.Uint32
)

// publicIP returns a unique address from the range reserved for network tests (198.18.0.0/15).
func publicIP() string {
	n := booked.Add(1)
	return fmt.Sprintf("198.18.%d.%d", n/254%256, n%254+1)
}

// Dial connects to addr. It also reaches a machine at port 22 of its PublicIP: most clouds' APIs do not report a port.
// A test's provider for such a cloud dials with this function.
func Dial(ctx context.Context, addr string) (net.Conn, error) {
	if m, ok := machines.Load(addr); ok {
		addr = m.(*Machine).Addr()
	} else if host, _, _ := net.SplitHostPort(addr); testNet.Contains(net.ParseIP(host)) {
		return nil, fmt.Errorf("dial %s: no machine has this address, or it is down: %w", addr, syscall.ECONNREFUSED)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

var testNet = net.IPNet{IP: net.IPv4(198, 18, 0, 0), Mask: net.CIDRMask(15, 32)}

// Addr returns host:port of the machine's SSH server.
func (m *Machine) Addr() string { return net.JoinHostPort(m.Host, strconv.Itoa(m.Port)) }
