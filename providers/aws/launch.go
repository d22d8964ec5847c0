package aws

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// launchesAtOnce is how many machines are launched at the same time.
	launchesAtOnce = 4
	// cleanupTimeout bounds what must be done though the caller has given up.
	cleanupTimeout = 20 * time.Second
)

// Launch creates an instance for each node, by a fleet of one that may choose the zone:
// user data is a launch's, and each node has a host key of its own. The zone of the first
// is tried first for the others, as traffic between zones costs.
func (d *driver) Launch(ctx context.Context, req gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	if len(req.Nodes) == 0 {
		return nil, nil
	}
	o, err := d.order(ctx, req)
	if err != nil {
		return nil, fail("launch", err)
	}
	launch := func(node gputrain.NodeRequest) ([]gputrain.Instance, error) {
		got, err := d.launch(ctx, o, node)
		if err != nil {
			err = fail("launch", fmt.Errorf("%s: %w", node.Name, err))
		}
		return got, err
	}
	made, err := launches.Each(req.Nodes[:1], 1, launch, isAmbiguous)
	if err == nil || isAmbiguous(err) {
		others, othersErr := launches.Each(req.Nodes[1:], launchesAtOnce, launch, isAmbiguous)
		made, err = append(made, others...), launches.Join(isAmbiguous, err, othersErr)
	}
	slices.SortFunc(made, func(a, b gputrain.Instance) int { return a.Rank - b.Rank })
	return made, err
}

// An order is a launch with all that it needs looked up.
type order struct {
	req       gputrain.LaunchRequest //secretvet:ignore for the time of a launch, and no message formats it
	net       *network
	zones     []string // those with the type, the cheapest first
	image     image
	diskGB    int32
	group     string
	profile   string // the ARN of the instance profile
	key       string // the name of the key pair
	placement string // the name of the placement group
	maxUSD    string // the most that a spot machine may cost
}

func (d *driver) order(ctx context.Context, req gputrain.LaunchRequest) (o order, err error) {
	if err := checkPool(req.Pool.ID); err != nil {
		return o, err
	}
	if req.Offer.InstanceType == "" || req.Offer.Region != d.api.region {
		return o, fmt.Errorf("%w: %s in %q is no offer of EC2's in %s", gputrain.ErrInvalid, cmp.Or(req.Offer.InstanceType, "nothing"), req.Offer.Region, d.api.region)
	}
	o = order{req: req, profile: d.cfg.InstanceProfileARN}
	if o.net, err = d.network(ctx); err != nil {
		return o, err
	}
	if o.zones, err = d.zonesFor(ctx, req); err != nil {
		return o, err
	}
	s, _ := softwareFor(req.Offer.Accelerator)
	if o.image, err = d.image(ctx, cmp.Or(req.Offer.Arch, "amd64"), s); err != nil {
		return o, err
	}
	o.diskGB = int32(max(d.diskGB(req.Spec), o.image.diskGB))
	if req.Spec.DiskGiB > 0 { // of room for tasks, beside what the image takes
		o.diskGB = int32(d.diskGB(req.Spec) + o.image.diskGB)
	}
	if o.group, err = d.groupOf(ctx, req.Pool); err != nil {
		return o, err
	}
	if o.profile == autoProfile {
		if o.profile, err = d.profileARN(ctx, req.Pool); err != nil {
			return o, err
		}
	}
	if d.cfg.ImportKeyPair {
		o.key = nameOf(req.Pool.ID)
	}
	if d.cfg.ClusterPlacement && canBePlaced(req.Offer.InstanceType) {
		o.placement = nameOf(req.Pool.ID)
	}
	if most := req.Spec.MaxHourlyUSD - d.extras(req.Spec); req.Spec.MaxHourlyUSD > 0 && req.Offer.Spot && paysUSD(d.api.region) {
		o.maxUSD = strconv.FormatFloat(math.Floor(max(most, 0.0001)*1e4)/1e4, 'f', 4, 64)
	}
	return o, nil
}

// zonesFor returns the zones that have the type, by the price of a spot machine there, and
// without those where it costs more than it may.
func (d *driver) zonesFor(ctx context.Context, req gputrain.LaunchRequest) ([]string, error) {
	known, err := d.zonesOf(ctx, []string{req.Offer.InstanceType})
	if err != nil {
		return nil, err
	}
	zones := slices.Clone(known[req.Offer.InstanceType])
	if req.Offer.Spot {
		d.mu.Lock()
		prices := d.spot[req.Offer.InstanceType]
		d.mu.Unlock()
		slices.SortStableFunc(zones, func(a, b string) int { return cmp.Compare(orMost(prices[a]), orMost(prices[b])) })
		if most := req.Spec.MaxHourlyUSD; most > 0 {
			zones = slices.DeleteFunc(zones, func(zone string) bool { return prices[zone]+d.extras(req.Spec) > most })
		}
	}
	if len(zones) == 0 {
		return nil, &gputrain.Error{Kind: gputrain.ErrNoCapacity, Err: fmt.Errorf("%s: %w", req.Offer.InstanceType, errNoZone)}
	}
	return zones, nil
}

func orMost(usd float64) float64 {
	if usd <= 0 {
		return math.Inf(1)
	}
	return usd
}

// An attempt is one of the ways to get a machine.
type attempt struct {
	zones     []string
	placement string
}

// attempts are the ways to get a machine of an order, the best first. Nodes that are to be
// close to each other stay in one zone.
func (d *driver) attempts(o order) []attempt {
	d.mu.Lock()
	pinned := d.pinned[o.req.Pool.ID]
	d.mu.Unlock()
	first := o.zones
	if slices.Contains(o.zones, pinned) {
		first = []string{pinned}
	}
	all := []attempt{{first, o.placement}}
	others := slices.DeleteFunc(slices.Clone(o.zones), func(zone string) bool { return slices.Contains(first, zone) })
	switch {
	case o.placement != "":
		all = append(all, attempt{first, ""})
	case len(others) > 0 && !d.cfg.ClusterPlacement:
		all = append(all, attempt{others, ""})
	}
	return all
}

// launch gets a machine for one node. Should a create be given up in its midst, what it has
// made is returned beside why.
func (d *driver) launch(ctx context.Context, o order, node gputrain.NodeRequest) (got []gputrain.Instance, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	text, err := d.userData(o.req, node, time.Now())
	if err != nil {
		return nil, err
	}
	m := creation{order: o, node: node, userData: base64.StdEncoding.EncodeToString([]byte(text)), tags: nodeTags(o.req, node)}
	m.tags.add(tagUser, o.image.user)
	for i, a := range d.attempts(o) {
		m.attempt = a
		for again := 0; ; again++ {
			m.token = token(o.req.Token, node.Name, o.req.Offer.ID, strconv.Itoa(i), strconv.Itoa(again))
			if got, err = d.create(ctx, m); !isTooNew(err) || again == profileTries || !launches.Pause(ctx, 2*second) {
				break
			}
		}
		if len(got) > 0 || err == nil || kindOf(err) != gputrain.ErrNoCapacity {
			return got, err
		}
	}
	return nil, err
}

// profileTries is how often a launch is tried with an instance profile that EC2 does not
// know yet, which takes about ten seconds.
const profileTries = 15

// isTooNew reports whether a launch was refused since its instance profile is too new.
func isTooNew(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Invalid IAM Instance Profile")
}

// token makes a create's token out of what is its own. The same token with anything else
// would be refused.
func token(of ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(of, "\n")))
	return hex.EncodeToString(sum[:])[:48]
}

// A creation is one create of one machine.
type creation struct {
	order
	attempt
	node     gputrain.NodeRequest //secretvet:ignore for the time of a launch, and no message formats it
	userData string               // as EC2 takes it
	tags     tagList
	token    string
}

// create makes one machine, in whichever of the zones has room.
func (d *driver) create(ctx context.Context, m creation) ([]gputrain.Instance, error) {
	d.mu.Lock()
	noFleet := d.noFleet
	d.mu.Unlock()
	if !noFleet {
		got, err := d.fleet(ctx, m)
		if len(got) > 0 || !errors.Is(err, errNoFleet) {
			return got, err
		}
		d.mu.Lock()
		d.noFleet = true
		d.mu.Unlock()
	}
	return d.run(ctx, m)
}

// launched notes a machine that was made, and returns it.
func (d *driver) launched(m creation, id, zone string) gputrain.Instance {
	offer := m.req.Offer
	node := m.node
	node.HostKey.Private = ""
	d.mu.Lock()
	defer d.mu.Unlock()
	if offer.Spot {
		if usd := d.spot[offer.InstanceType][zone]; usd > 0 {
			offer.HourlyUSD = d.withExtras(usd, m.req.Spec)
		}
	}
	d.made[id] = machine{node: node, offer: offer, at: time.Now()}
	if zone != "" && d.pinned[m.req.Pool.ID] == "" {
		d.pinned[m.req.Pool.ID] = zone
	}
	return gputrain.Instance{ID: id, Name: node.Name, Rank: node.Rank, State: gputrain.InstancePending, Offer: offer}
}

// settle looks for the machine that a create may have made whose answer was lost, by its
// tag, until the list is whole. Nothing is created again. A caller who has given up gets
// one look.
func (d *driver) settle(ctx context.Context, m creation, why error) ([]gputrain.Instance, error) {
	if isAnswered(why) {
		why = &cloud.AnsweredError{Err: why}
	}
	looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), listLag()+cleanupTimeout)
	defer cancel()
	until := time.Now().Add(listLag())
	m.req.Pool.Settling(fmt.Errorf("%s may have been made: %w", m.node.Name, why), until)
	for {
		asked := time.Now()
		found, err := d.instances(looking, filter("tag:"+tagNode, m.node.Name), filter("tag:"+tagPool, m.req.Pool.ID))
		var got []gputrain.Instance
		for _, in := range found {
			if in.State != nil && in.State.Name != types.InstanceStateNameTerminated && in.State.Name != types.InstanceStateNameShuttingDown {
				got = append(got, d.launched(m, sdk.ToString(in.InstanceId), zoneOf(in)))
			}
		}
		switch {
		case len(got) > 0:
			return got, context.Cause(ctx)
		case ctx.Err() != nil:
			return nil, errors.Join(context.Cause(ctx), why)
		case err == nil && asked.After(until) || !launches.Pause(looking, second):
			return nil, &gputrain.Error{Kind: gputrain.ErrUnavailable, Err: why, Hint: "a machine may have been made all the same: List has it"}
		}
	}
}

func zoneOf(in types.Instance) string {
	if in.Placement == nil {
		return ""
	}
	return sdk.ToString(in.Placement.AvailabilityZone)
}
