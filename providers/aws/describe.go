package aws

import (
	"cmp"
	"context"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const (
	labelZone = "aws.zone"
	// idsPerCall is the largest number of values that a filter takes.
	idsPerCall = 200
)

var instanceForm = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// describe reports the named machines. It asks by a filter: a call that names IDs fails if EC2
// does not know one of them yet.
func (i *instances) describe(ctx context.Context, ids []string) ([]driver.Instance, error) {
	byID := map[string]types.Instance{}
	known := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !instanceForm.MatchString(id) })
	for some := range slices.Chunk(known, idsPerCall) {
		found, err := i.find(ctx, filter("instance-id", some...))
		if err != nil {
			return nil, err
		}
		for _, in := range found {
			byID[sdk.ToString(in.InstanceId)] = in
		}
	}
	all := make([]driver.Instance, 0, len(ids))
	for _, id := range ids {
		if in, ok := byID[id]; ok {
			described, err := i.toInstance(ctx, in)
			if err != nil {
				return nil, err
			}
			all = append(all, described)
		} else {
			all = append(all, i.missing(id))
		}
	}
	return all, nil
}

// missing describes a machine that EC2 does not list: terminated, unless it may still come. EC2 lists a machine for about
// an hour after its end.
func (i *instances) missing(id string) driver.Instance {
	gone, m := false, machine{}
	i.remember(id, func(known *machine) {
		gone, m = known.sight.IsGone(sighting(), i.opened), *known
	})
	in := driver.Instance{ID: id, Name: m.node.Name, Rank: m.node.Rank, Offer: m.offer, State: driver.InstanceTerminated, StateReason: "EC2 does not know it"}
	if !gone && instanceForm.MatchString(id) {
		in.State, in.StateReason = m.sight.Missing(), "EC2 does not know it, or not yet"
	}
	return in
}

// isGone reports whether a machine in this state is gone: EC2 did not know it when asked to end
// it, and it is older than the list lag.
func (i *instances) isGone(m machine, state driver.InstanceState) bool {
	return m.gone && cloud.IsOver(state) && !m.sight.IsNew(sighting(), i.opened)
}

// toInstance translates EC2's description of an instance.
func (i *instances) toInstance(ctx context.Context, in types.Instance) (driver.Instance, error) {
	id, tags := sdk.ToString(in.InstanceId), tagList(in.Tags)
	m := i.remembered(id)
	state, why := stateOf(in)
	i.remember(id, func(m *machine) { m.sight.Seen(state) })
	switch {
	case state == driver.InstancePreempted && m.sight.Accepted():
		state = driver.InstanceTerminated // both are true, and the caller asked for this one
	case i.isGone(m, state):
		state, why = driver.InstanceTerminated, cloud.NothingToEnd(why)
	}
	rank, err := strconv.Atoi(tags.value(tagRank))
	if err != nil {
		rank = m.node.Rank
	}
	out := driver.Instance{
		ID: id, Name: cmp.Or(tags.value(tagNode), m.node.Name), Rank: rank, State: state, StateReason: why,
		PublicAddr: sdk.ToString(in.PublicIpAddress), PrivateAddr: sdk.ToString(in.PrivateIpAddress),
		Offer: i.offerOf(ctx, in, m), Labels: map[string]string{labelZone: zoneOf(in)},
	}
	if state != driver.InstanceRunning {
		return out, nil
	}
	i.zones.pin(tags.pool(), zoneOf(in))
	if out.PublicAddr == "" {
		return out, nil // not yet
	}
	user, err := i.images.user(ctx, tags)
	if err != nil {
		return out, err
	}
	out.SSH = driver.Endpoint{Addr: net.JoinHostPort(out.PublicAddr, "22"), User: user}
	if key := cmp.Or(tags.value(tagHostKey), pooltag.PublicKey(m.node.HostKey.Public)); key != "" {
		out.SSH.HostKeys = []string{key}
	}
	return out, nil
}

// offerOf returns the offer of a machine: from the launch, if this driver made it, or from the
// instance and its tags. The price of a spot machine is the present one of its zone.
func (i *instances) offerOf(ctx context.Context, in types.Instance, m machine) driver.Offer {
	o := m.offer
	if o.Provider == "" {
		tags := tagList(in.Tags)
		o = driver.Offer{
			Provider: providerName, InstanceType: string(in.InstanceType), Region: i.api.region, Country: countryOf(i.api.region),
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
	if state, _ := stateOf(in); state == driver.InstancePending || state == driver.InstanceRunning {
		i.reprice(ctx, &o, in, m)
	}
	return o
}

// reprice sets the price of a machine that is billed, and its parts: a spot machine's by the present
// price in its zone, another's that a driver has launched before by the sum in its tags.
func (i *instances) reprice(ctx context.Context, o *driver.Offer, in types.Instance, m machine) {
	spot := 0.0
	if o.Spot {
		spot = i.spot.now(ctx, o.InstanceType, zoneOf(in))
	}
	sum, known := o.HourlyUSD.USD()
	if spot <= 0 && (o.Spot || !known || o.Parts != nil) {
		return
	}
	diskGB := i.diskOf(ctx, sdk.ToString(in.InstanceId), m)
	switch rest := sum - extrasUSD(diskGB); {
	case diskGB == 0:
	case spot > 0:
		setPrice(o, driver.USD(spot), diskGB)
	case rest > -1e-6:
		setPrice(o, driver.USD(max(rest, 0)), diskGB)
	}
}

// diskOf returns the size of a machine's disk: that of the launch, if this driver made it, or that
// of its volume, which is looked up once. It returns 0 if EC2 does not tell.
func (i *instances) diskOf(ctx context.Context, id string, m machine) int {
	if m.diskGB > 0 {
		return m.diskGB
	}
	out, err := i.api.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: []types.Filter{filter("attachment.instance-id", id)}})
	if err != nil {
		return 0
	}
	size := 0
	for _, v := range out.Volumes {
		size += int(sdk.ToInt32(v.Size))
	}
	i.remember(id, func(known *machine) { known.diskGB = size })
	return size
}

// stateOf translates EC2's states. A machine that shuts down is no longer billed and cannot
// come back.
func stateOf(in types.Instance) (driver.InstanceState, string) {
	if in.State == nil {
		return driver.InstanceUnknown, "EC2 reports no state"
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
		return driver.InstancePending, why
	case types.InstanceStateNameRunning:
		return driver.InstanceRunning, why
	case types.InstanceStateNameStopping, types.InstanceStateNameStopped:
		return driver.InstanceStopped, why
	case types.InstanceStateNameShuttingDown, types.InstanceStateNameTerminated:
		if strings.HasPrefix(code, "Server.SpotInstance") {
			return driver.InstancePreempted, why
		}
		return driver.InstanceTerminated, why
	}
	return driver.InstanceUnknown, why
}
