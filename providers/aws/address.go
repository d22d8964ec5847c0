package aws

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// An admitted finds the networks that the pool's security group lets in.
type admitted struct {
	api        *client
	networks   []string // the user's; if empty, the address of this program
	addressURL string   // a server that answers with that address; if empty, the local address that reaches endpoint
	endpoint   string
}

// find returns the networks.
func (a *admitted) find(ctx context.Context) ([]string, error) {
	if len(a.networks) > 0 {
		return a.networks, nil
	}
	ask := a.askAddress
	if a.addressURL == "" {
		ask = a.localAddress
	}
	at, err := ask(ctx)
	if err != nil {
		return nil, &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("cannot find the address of this program: %w", err),
			Hint: "set Config.SSHFrom to the network from which it reaches the nodes"}
	}
	return []string{netip.PrefixFrom(at, at.BitLen()).String()}, nil
}

// askAddress asks a server for the address of this program.
func (a *admitted) askAddress(ctx context.Context) (netip.Addr, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", a.addressURL, nil)
	if err != nil {
		return netip.Addr{}, err
	}
	resp, err := a.api.http.Do(req)
	if err != nil {
		return netip.Addr{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 100))
	if err != nil {
		return netip.Addr{}, err
	}
	at, err := netip.ParseAddr(strings.TrimSpace(string(text)))
	if resp.StatusCode != http.StatusOK || err != nil {
		return netip.Addr{}, fmt.Errorf("%s answered %s %q, not an address", a.addressURL, resp.Status, text)
	}
	return at.Unmap(), nil
}

// localAddress returns the local address from which this program reaches the endpoint. It sends
// nothing.
func (a *admitted) localAddress(ctx context.Context) (netip.Addr, error) {
	to, err := url.Parse(a.endpoint)
	if err != nil {
		return netip.Addr{}, err
	}
	port := to.Port()
	if port == "" {
		port = "443"
	}
	nc, err := new(net.Dialer).DialContext(ctx, "udp", net.JoinHostPort(to.Hostname(), port))
	if err != nil {
		return netip.Addr{}, err
	}
	defer nc.Close()
	return nc.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}
