package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/providers/driver"
)

// A network is a VPC for nodes, with one subnet in each zone.
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

// networks looks up the network of the nodes.
type networks struct {
	api      *client
	subnetID string // the user's; if empty, those of the default VPC

	mu    sync.Mutex // held during the lookup
	found *network
}

// find returns the user's subnet, or those of the default VPC. It looks them up once.
func (n *networks) find(ctx context.Context) (*network, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.found != nil {
		return n.found, nil
	}
	in := ec2.DescribeSubnetsInput{}
	if n.subnetID != "" {
		in.SubnetIds = []string{n.subnetID}
	} else {
		vpcs, err := n.api.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: []types.Filter{filter("is-default", "true")}})
		if err != nil {
			return nil, err
		}
		if len(vpcs.Vpcs) == 0 {
			return nil, &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("the account has no default VPC in %s", n.api.region),
				Hint: "set Config.SubnetID to a subnet whose machines get public addresses, or make one with \"aws ec2 create-default-vpc\""}
		}
		in.Filters = []types.Filter{filter("vpc-id", sdk.ToString(vpcs.Vpcs[0].VpcId)), filter("default-for-az", "true")}
	}
	found := &network{}
	pages := ec2.NewDescribeSubnetsPaginator(n.api.ec2, &in)
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
		return nil, &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("the default VPC has no default subnets in %s", n.api.region), Hint: "set Config.SubnetID"}
	}
	slices.SortFunc(found.subnets, func(a, b subnet) int { return strings.Compare(a.zone, b.zone) })
	n.found = found
	return found, nil
}
