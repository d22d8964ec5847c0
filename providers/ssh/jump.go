package ssh

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/hops"
	"github.com/gputrain/gputrain/providers/driver"
)

// A dialer is a driver some of whose hosts are reached through others.
type dialer struct {
	*sshDriver
	chains map[string]*hops.Chain // of the hosts on the way, by host.id. Hosts with the same way share one.
}

var _ driver.Dialer = (*dialer)(nil)

// absentPatience is for how long a host on the way may refuse the port, or be unknown.
const absentPatience = 3 * time.Second

func newDialer(d *sshDriver) *dialer {
	all := &dialer{d, map[string]*hops.Chain{}}
	for i, h := range d.hosts {
		if j := slices.IndexFunc(d.hosts[:i], func(other *host) bool { return reflect.DeepEqual(other.jumps, h.jumps) }); j >= 0 {
			all.chains[h.id] = all.chains[d.hosts[j].id]
		} else {
			all.chains[h.id] = hops.New(h.jumps, absentPatience)
		}
	}
	return all
}

// Dial connects to a host, through those on the way. Its errors name the host at which it ends.
func (d *dialer) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	i := slices.IndexFunc(d.hosts, func(h *host) bool { return h.id == in.ID })
	if i < 0 {
		return nil, &driver.Error{Provider: provider, Op: "dial", Kind: driver.ErrNotFound, Err: fmt.Errorf("%s is not in Hosts", in.ID)}
	}
	return d.chains[in.ID].Dial(ctx, d.hosts[i].endpoint.Addr)
}

// Close ends the connections to the hosts on the way.
func (d *dialer) Close() error {
	for _, way := range d.chains {
		way.Close()
	}
	return d.sshDriver.Close()
}
