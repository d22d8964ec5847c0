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

// Every machine is known to Dial while it is not down.
var (
	machines sync.Map // by their public addresses: ip:22
	booked   atomic.Uint32
)

// publicIP returns an address of its own, out of the range that is set aside
// for tests of networks, where nothing real answers.
func publicIP() string {
	n := booked.Add(1)
	return fmt.Sprintf("198.18.%d.%d", n/254%256, n%254+1)
}

// Dial connects to addr. A machine is also to be reached by its PublicIP at port
// 22: most clouds' APIs know no other port, and there a test's provider dials
// with this.
func Dial(ctx context.Context, addr string) (net.Conn, error) {
	if m, ok := machines.Load(addr); ok {
		addr = m.(*Machine).Addr()
	} else if host, _, _ := net.SplitHostPort(addr); testNet.Contains(net.ParseIP(host)) {
		return nil, fmt.Errorf("dial %s: no machine has this address, or it is down: %w", addr, syscall.ECONNREFUSED)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

var testNet = net.IPNet{IP: net.IPv4(198, 18, 0, 0), Mask: net.CIDRMask(15, 32)}

// Addr is host:port of the machine's SSH server.
func (m *Machine) Addr() string { return net.JoinHostPort(m.Host, strconv.Itoa(m.Port)) }
