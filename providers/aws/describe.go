package aws

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	labelZone = "aws.zone"
	// idsPerCall is how many values a filter may have.
	idsPerCall = 200
)

var instanceForm = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// Describe reports the named machines. They are asked for by a filter: by their IDs, one
// that EC2 does not know, or not yet, would refuse all.
func (d *driver) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
	byID := map[string]types.Instance{}
	known := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !instanceForm.MatchString(id) })
	for some := range slices.Chunk(known, idsPerCall) {
		found, err := d.instances(ctx, filter("instance-id", some...))
		if err != nil {
			return nil, fail("describe", err)
		}
		for _, in := range found {
			byID[sdk.ToString(in.InstanceId)] = in
		}
	}
	all := make([]gputrain.Instance, 0, len(ids))
	for _, id := range ids {
		if in, ok := byID[id]; ok {
			described, err := d.instance(ctx, in)
			if err != nil {
				return nil, fail("describe", err)
			}
			all = append(all, described)
		} else {
			all = append(all, d.missing(id))
		}
	}
	return all, nil
}

// instances returns the instances that pass all filters, in whichever state.
func (d *driver) instances(ctx context.Context, filters ...types.Filter) (all []types.Instance, err error) {
	pages := ec2.NewDescribeInstancesPaginator(d.api.ec2, &ec2.DescribeInstancesInput{Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = isList("DescribeInstances", page.Reservations)
		}
		if err != nil {
			return nil, err
		}
		for _, r := range page.Reservations {
			for _, in := range r.Instances {
				if sdk.ToString(in.InstanceId) == "" {
					return nil, fmt.Errorf("DescribeInstances: %w: an instance has no ID", rest.ErrAnswer)
				}
				all = append(all, in)
			}
		}
	}
	return all, nil
}

// isList says what is wrong with a list that an answer does not have, not even as an empty
// one: it would say of all that there is that it is gone.
func isList[T any](operation string, list []T) error {
	if list == nil {
		return fmt.Errorf("%s: %w: it has no list, not even an empty one", operation, rest.ErrAnswer)
	}
	return nil
}

// missing is what a machine is taken for that EC2 does not list: gone, unless it may be too
// new to be listed, made by this driver or by one of a program that has just died. One that
// was ended is listed for about an hour.
func (d *driver) missing(id string) gputrain.Instance {
	m := d.remembered(id)
	in := gputrain.Instance{ID: id, Name: m.node.Name, Rank: m.node.Rank, Offer: m.offer, State: gputrain.InstanceTerminated, StateReason: "EC2 does not know it"}
	switch {
	case m.ended || !instanceForm.MatchString(id):
	case m.at.IsZero() && time.Since(d.opened) < listLag():
		in.State, in.StateReason = gputrain.InstanceUnknown, "EC2 does not know it, or not yet"
	case !m.at.IsZero() && time.Since(m.at) < visibleAfter:
		in.State, in.StateReason = gputrain.InstancePending, "EC2 does not show it yet"
	}
	return in
}

// hasGone is whether a machine in such a state is gone, as EC2 knew no such instance when it was
// asked to end it, though its lists show it: unless it may be too new.
func (d *driver) hasGone(m machine, state gputrain.InstanceState) bool {
	since := m.at
	if since.IsZero() {
		since = d.opened // it was made before that
	}
	return m.gone && cloud.IsOver(state) && time.Since(since) >= listLag()
}

// instance says in the pool's words what EC2 says of an instance.
func (d *driver) instance(ctx context.Context, in types.Instance) (gputrain.Instance, error) {
	id, tags := sdk.ToString(in.InstanceId), tagList(in.Tags)
	m := d.remembered(id)
	state, why := stateOf(in)
	switch {
	case state == gputrain.InstancePreempted && m.ended:
		state = gputrain.InstanceTerminated // both are so, and this one was asked for
	case d.hasGone(m, state):
		state, why = gputrain.InstanceTerminated, cloud.NothingToEnd(why)
	}
	rank, err := strconv.Atoi(tags.value(tagRank))
	if err != nil {
		rank = m.node.Rank
	}
	out := gputrain.Instance{
		ID: id, Name: cmp.Or(tags.value(tagNode), m.node.Name), Rank: rank, State: state, StateReason: why,
		PublicAddr: sdk.ToString(in.PublicIpAddress), PrivateAddr: sdk.ToString(in.PrivateIpAddress),
		Offer: d.offerOf(in, m), Labels: map[string]string{labelZone: zoneOf(in)},
	}
	if state != gputrain.InstanceRunning {
		return out, nil
	}
	if pool := tags.pool(); pool != "" {
		d.mu.Lock()
		if d.pinned[pool] == "" {
			d.pinned[pool] = zoneOf(in)
		}
		d.mu.Unlock()
	}
	if out.PublicAddr == "" {
		return out, nil // it has none yet
	}
	user, err := d.user(ctx, in)
	if err != nil {
		return out, err
	}
	out.SSH = gputrain.Endpoint{Addr: net.JoinHostPort(out.PublicAddr, "22"), User: user}
	if key := cmp.Or(tags.value(tagHostKey), publicKey(m.node.HostKey)); key != "" {
		out.SSH.HostKeys = []string{key}
	}
	return out, nil
}

// user is whom to log in as on an instance, by its tags: its image may be withdrawn since. Where
// they do not tell, that of AWS's own images is known, and another's is looked up, once.
func (d *driver) user(ctx context.Context, in types.Instance) (string, error) {
	user := cmp.Or(d.cfg.Username, tagList(in.Tags).value(tagUser))
	if user != "" || d.cfg.AMI == "" {
		return cmp.Or(user, "ubuntu"), nil
	}
	im, err := d.image(ctx, "", plain)
	return im.user, err
}

// offerOf is what was rented: as this driver has launched it, or as the instance and its
// tags tell.
func (d *driver) offerOf(in types.Instance, m machine) gputrain.Offer {
	o := m.offer
	if o.Provider == "" {
		tags := tagList(in.Tags)
		o = gputrain.Offer{
			Provider: providerName, InstanceType: string(in.InstanceType), Region: d.api.region,
			Accelerator: tags.accelerator(), HourlyUSD: tags.price(),
		}
		switch in.Architecture {
		case types.ArchitectureValuesX8664:
			o.Arch = "amd64"
		case types.ArchitectureValuesArm64:
			o.Arch = "arm64"
		}
	}
	o.Spot = in.InstanceLifecycle == types.InstanceLifecycleTypeSpot
	return o
}

// stateOf maps EC2's states. What shuts down bills no more, and cannot come back.
func stateOf(in types.Instance) (gputrain.InstanceState, string) {
	if in.State == nil {
		return gputrain.InstanceUnknown, "EC2 tells no state"
	}
	code, why := "", string(in.State.Name)
	if in.StateReason != nil {
		code = sdk.ToString(in.StateReason.Code)
		if said := cmp.Or(sdk.ToString(in.StateReason.Message), code); said != "" {
			why += ": " + said
		}
	}
	switch in.State.Name {
	case types.InstanceStateNamePending:
		return gputrain.InstancePending, why
	case types.InstanceStateNameRunning:
		return gputrain.InstanceRunning, why
	case types.InstanceStateNameStopping, types.InstanceStateNameStopped:
		return gputrain.InstanceStopped, why
	case types.InstanceStateNameShuttingDown, types.InstanceStateNameTerminated:
		if strings.HasPrefix(code, "Server.SpotInstance") {
			return gputrain.InstancePreempted, why
		}
		return gputrain.InstanceTerminated, why
	}
	return gputrain.InstanceUnknown, why
}
