package preflight

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/driver"
)

// lookupTime bounds the look-ups of the nodes' names.
const lookupTime = 5 * time.Second

// meet reports whether the nodes may meet at their addresses. At public ones whoever is in the internet could take part in
// the gang, or read it even if a firewall lets in the nodes alone: that is refused unless it is allowed.
func (c *check) meet(ctx context.Context) bool {
	if len(c.nodes) < 2 || c.options.AllowPublicNetwork {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	c.each(func(i int, n Node) {
		if n.Addr == "" {
			return
		}
		addrs, err := c.addrsOf(ctx, n.Addr)
		if err != nil {
			c.add(Problem{i, -1, Note, fault(nil, nodeError(n, "is reached by the name %s, of which this computer does not know whether it is one of a private network: %w", n.Addr, err),
				"if it is not, anyone may reach the ports of the gang, which ask for no password")})
			return
		}
		if k := slices.IndexFunc(addrs, localnet.Public); k >= 0 {
			at := n.Addr
			if said := addrs[k].String(); said != at {
				at += " (" + said + ")"
			}
			c.add(Problem{i, -1, Refuse, fault(driver.ErrUnsupported, nodeError(n, "has the public address %s, at which anyone could join the gang, read it and change it: its ports ask for no password", at),
				"set Spec.Network to gputrain.NetworkPrivate, which rents nodes in a network of their own, or, if a firewall lets in the nodes alone, Training.AllowPublicNetwork")})
		}
	})
	return !c.refused()
}

// addrsOf returns the addresses of a host.
func (c *check) addrsOf(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, ok := localnet.Parse(host); ok {
		return []netip.Addr{a}, nil
	}
	lookup := c.options.lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupNetIP
	}
	return lookup(ctx, "ip", host)
}
