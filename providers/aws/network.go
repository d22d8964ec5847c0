package aws

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain"
)

// A network is where nodes can be: one subnet in each zone.
type network struct {
	vpc     string
	subnets []subnet // by zone
}

type subnet struct{ id, zone string }

func (n *network) subnetIn(zone string) string {
	for _, s := range n.subnets {
		if s.zone == zone {
			return s.id
		}
	}
	return ""
}

func (n *network) zoneOf(subnetID string) string {
	for _, s := range n.subnets {
		if s.id == subnetID {
			return s.zone
		}
	}
	return ""
}

// network looks up the user's subnet, or those of the default VPC, once.
func (d *driver) network(ctx context.Context) (*network, error) {
	d.finding.Lock()
	defer d.finding.Unlock()
	if d.net != nil {
		return d.net, nil
	}
	in := ec2.DescribeSubnetsInput{}
	if d.cfg.SubnetID != "" {
		in.SubnetIds = []string{d.cfg.SubnetID}
	} else {
		vpcs, err := d.api.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: []types.Filter{filter("is-default", "true")}})
		if err != nil {
			return nil, err
		}
		if len(vpcs.Vpcs) == 0 {
			return nil, &gputrain.Error{Kind: gputrain.ErrInvalid, Err: fmt.Errorf("the account has no default VPC in %s", d.api.region),
				Hint: "set Config.SubnetID to a subnet whose machines get public addresses, or make one with \"aws ec2 create-default-vpc\""}
		}
		in.Filters = []types.Filter{filter("vpc-id", sdk.ToString(vpcs.Vpcs[0].VpcId)), filter("default-for-az", "true")}
	}
	found := &network{}
	pages := ec2.NewDescribeSubnetsPaginator(d.api.ec2, &in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range page.Subnets {
			found.vpc = sdk.ToString(s.VpcId)
			found.subnets = append(found.subnets, subnet{sdk.ToString(s.SubnetId), sdk.ToString(s.AvailabilityZone)})
		}
	}
	if found.subnets == nil {
		return nil, &gputrain.Error{Kind: gputrain.ErrInvalid, Err: fmt.Errorf("the default VPC has no default subnets in %s", d.api.region), Hint: "set Config.SubnetID"}
	}
	slices.SortFunc(found.subnets, func(a, b subnet) int { return strings.Compare(a.zone, b.zone) })
	d.net = found
	return found, nil
}

// letIn returns the networks from which nodes are to be reached.
func (d *driver) letIn(ctx context.Context) ([]string, error) {
	if len(d.cfg.SSHFrom) > 0 {
		return d.cfg.SSHFrom, nil
	}
	ask := d.askAddress
	if d.cfg.AddressURL == "" {
		ask = d.localAddress
	}
	at, err := ask(ctx)
	if err != nil {
		return nil, &gputrain.Error{Kind: gputrain.ErrUnavailable, Err: fmt.Errorf("the address of this program is not found: %w", err),
			Hint: "set Config.SSHFrom to the network that it reaches the nodes from"}
	}
	return []string{netip.PrefixFrom(at, at.BitLen()).String()}, nil
}

// askAddress asks a server what address this program has.
func (d *driver) askAddress(ctx context.Context) (netip.Addr, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", d.cfg.AddressURL, nil)
	if err != nil {
		return netip.Addr{}, err
	}
	resp, err := d.api.http.Do(req)
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
		return netip.Addr{}, fmt.Errorf("%s does not answer with an address, but %s %q", d.cfg.AddressURL, resp.Status, text)
	}
	return at.Unmap(), nil
}

// localAddress is the address from which Endpoint is reached. Nothing is sent.
func (d *driver) localAddress(ctx context.Context) (netip.Addr, error) {
	to, err := url.Parse(d.cfg.Endpoint)
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
