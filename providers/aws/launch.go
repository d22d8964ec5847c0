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
	"sync/atomic"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const (
	// launchesAtOnce bounds the machines that are launched at the same time.
	launchesAtOnce = 4
	// cleanupTimeout bounds calls that are made even after the caller has given up.
	cleanupTimeout = 20 * time.Second
)

// A launcher creates machines.
type launcher struct {
	cfg       Config //secretvet:ignore complete, without credentials
	api       *client
	networks  *networks
	catalogue *catalogue
	spot      *spotPrices
	extras    extras
	images    *images
	groups    *securityGroups
	profiles  *instanceProfiles
	templates *launchTemplates
	instances *instances
	zones     *poolZones
	reserved  reservation

	noFleet atomic.Bool // the account may not make fleets: machines are run one by one
}

// launch makes a machine for each node: the first alone, then the others.
func (l *launcher) launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	if len(req.Nodes) == 0 {
		return nil, nil
	}
	o, err := l.order(ctx, req)
	if err != nil {
		return nil, fail("launch", err)
	}
	launch := func(node driver.NodeRequest) ([]driver.Instance, error) {
		got, err := l.launchNode(ctx, o, node)
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
	slices.SortFunc(made, func(a, b driver.Instance) int { return a.Rank - b.Rank })
	return made, err
}

// An order is a launch with everything that it needs looked up.
type order struct {
	req       driver.Launch //secretvet:ignore for the time of a launch, and no message formats it
	net       *network
	zones     []string // those with the type, the cheapest first
	image     image
	diskGB    int32
	reserved  reservation
	group     string
	profile   string // the ARN of the instance profile
	key       string // the name of the key pair
	placement string // the name of the placement group
	maxUSD    string // the most that a spot machine may cost
}

func (l *launcher) order(ctx context.Context, req driver.Launch) (o order, err error) {
	if err := checkPool(req.Pool); err != nil {
		return o, err
	}
	if req.Offer.InstanceType == "" || req.Offer.Region != l.api.region {
		return o, fmt.Errorf("%w: EC2 has no offer %s in %q; the region is %s", driver.ErrInvalid, cmp.Or(req.Offer.InstanceType, "nothing"), req.Offer.Region, l.api.region)
	}
	o = order{req: req, profile: l.cfg.InstanceProfileARN, reserved: l.reserved}
	if o.net, err = l.networks.find(ctx); err != nil {
		return o, err
	}
	s, _ := softwareFor(req.Offer.Accelerator) // the offer has an image, or the user has one
	if req.Offer.Baked != "" {
		o.image, err = l.images.baked(ctx, req.Offer.Baked)
	} else {
		o.image, err = l.images.forNode(ctx, cmp.Or(req.Offer.Arch, "amd64"), s)
	}
	if err != nil {
		return o, err
	}
	o.diskGB = int32(l.extras.launchedGB(req.Query, o.image))
	if o.zones, err = l.zonesFor(ctx, o); err != nil {
		return o, err
	}
	if o.group, err = l.groups.id(ctx, req.Pool.ID); err != nil {
		return o, err
	}
	if o.profile == autoProfile {
		if o.profile, err = l.profiles.arn(ctx, req.Pool); err != nil {
			return o, err
		}
	}
	if l.cfg.ImportKeyPair {
		o.key = pooltag.SharedName(req.Pool.ID)
	}
	if l.cfg.ClusterPlacement && canBePlaced(req.Offer.InstanceType) {
		o.placement = pooltag.SharedName(req.Pool.ID)
	}
	if most := req.Query.MaxHourlyUSD - extrasUSD(int(o.diskGB)); req.Query.MaxHourlyUSD > 0 && req.Offer.Spot && paysUSD(l.api.region) {
		o.maxUSD = strconv.FormatFloat(math.Floor(max(most, 0.0001)*1e4)/1e4, 'f', 4, 64)
	}
	return o, nil
}

// zonesFor returns the zones that have the type, cheapest spot price first, without those that
// charge more than the spec allows.
func (l *launcher) zonesFor(ctx context.Context, o order) ([]string, error) {
	req := o.req
	known, err := l.catalogue.zonesOf(ctx, []string{req.Offer.InstanceType})
	if err != nil {
		return nil, err
	}
	zones := slices.Clone(known[req.Offer.InstanceType])
	if req.Offer.Spot {
		prices := l.spot.latest(req.Offer.InstanceType)
		slices.SortStableFunc(zones, func(a, b string) int { return cmp.Compare(orMost(prices[a]), orMost(prices[b])) })
		if most := req.Query.MaxHourlyUSD; most > 0 {
			zones = slices.DeleteFunc(zones, func(zone string) bool { return prices[zone]+extrasUSD(int(o.diskGB)) > most })
		}
	}
	if len(zones) == 0 {
		return nil, &driver.Error{Kind: driver.ErrNoCapacity, Err: fmt.Errorf("%s: %w", req.Offer.InstanceType, errNoZone)}
	}
	return zones, nil
}

func orMost(usd float64) float64 {
	if usd <= 0 {
		return math.Inf(1)
	}
	return usd
}

// An attempt is one way to get a machine.
type attempt struct {
	zones     []string
	placement string
}

// attempts returns the ways to get a machine of an order, best first. Nodes that must be close
// to each other stay in one zone.
func (l *launcher) attempts(o order) []attempt {
	first := o.zones
	if pinned := l.zones.zone(o.req.Pool.ID); slices.Contains(o.zones, pinned) {
		first = []string{pinned}
	}
	all := []attempt{{first, o.placement}}
	others := slices.DeleteFunc(slices.Clone(o.zones), func(zone string) bool { return slices.Contains(first, zone) })
	switch {
	case o.placement != "":
		all = append(all, attempt{first, ""})
	case len(others) > 0 && !l.cfg.ClusterPlacement:
		all = append(all, attempt{others, ""})
	}
	return all
}

// launchNode gets a machine for one node. If the caller gives up during a create, it returns
// the machine together with the error.
func (l *launcher) launchNode(ctx context.Context, o order, node driver.NodeRequest) (got []driver.Instance, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	text, err := userData(o.req, node, l.cfg.InstanceTimeout, time.Now())
	if err != nil {
		return nil, err
	}
	m := creation{order: o, node: node, userData: base64.StdEncoding.EncodeToString([]byte(text)), tags: nodeTags(o.req, node)}
	m.tags.add(tagUser, o.image.user)
	for i, a := range l.attempts(o) {
		m.attempt = a
		for again := 0; ; again++ {
			m.token = token(o.req.Token, node.Name, o.req.Offer.ID, strconv.Itoa(i), strconv.Itoa(again))
			if got, err = l.create(ctx, m); !isTooNew(err) || again == profileTries || !retry.Sleep(ctx, 2*second) {
				break
			}
		}
		if len(got) > 0 || err == nil || kindOf(err) != driver.ErrNoCapacity {
			return got, err
		}
	}
	return nil, err
}

// profileTries bounds the attempts at a launch while EC2 does not know its instance profile
// yet, which takes about ten seconds.
const profileTries = 15

// isTooNew reports whether EC2 refused a launch because its instance profile is too new.
func isTooNew(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Invalid IAM Instance Profile")
}

// token derives a create's token from its parts. EC2 refuses a token that comes again with
// other parameters.
func token(of ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(of, "\n")))
	return hex.EncodeToString(sum[:])[:48]
}

// A creation is one create of one machine.
type creation struct {
	order
	attempt
	node     driver.NodeRequest //secretvet:ignore for the time of a launch, and no message formats it
	userData string             // encoded as EC2 takes it
	tags     tagList
	token    string
}

// create makes one machine, in any of the zones that has room.
func (l *launcher) create(ctx context.Context, m creation) ([]driver.Instance, error) {
	if m.reserved.id == "" && !l.noFleet.Load() {
		got, err := l.fleet(ctx, m)
		if len(got) > 0 || !errors.Is(err, errNoFleet) {
			return got, err
		}
		l.noFleet.Store(true)
	}
	return l.run(ctx, m)
}

// launched records a new machine and returns it.
func (l *launcher) launched(m creation, id, zone string) driver.Instance {
	offer := m.req.Offer
	node := m.node
	node.HostKey.Private = ""
	if offer.Spot {
		if usd := l.spot.latest(offer.InstanceType)[zone]; usd > 0 {
			setPrice(&offer, driver.USD(usd), int(m.diskGB))
		}
	}
	l.instances.remember(id, func(known *machine) {
		*known = machine{node: node, offer: offer, diskGB: int(m.diskGB), sight: cloud.MadeAt(time.Now())}
	})
	l.zones.pin(m.req.Pool.ID, zone)
	return driver.Instance{ID: id, Name: node.Name, Rank: node.Rank, State: driver.InstancePending, Offer: offer}
}

// isOf reports whether a machine that is found by its tags can be that of a create by this driver.
func (i *instances) isOf(in types.Instance, m creation) bool {
	found := tagList(in.Tags).tag()
	found.Created = sdk.ToTime(in.LaunchTime)
	return pooltag.OfNode(m.req.Pool, m.node, i.opened).Is(found) && found.Doubt(tagList(in.Tags).value("Name"), time.Time{}) == ""
}

// settle looks by tags for the machine of a create whose answer was lost.
func (l *launcher) settle(ctx context.Context, m creation, why error) ([]driver.Instance, error) {
	if isAnswered(why) {
		why = &cloud.AnsweredError{Err: why}
	}
	got, err := cloud.Search[[]driver.Instance]{
		Pool: m.req.Pool, Name: m.node.Name, Why: why, Lag: listLag(), Pause: second, Grace: cleanupTimeout,
		Find: func(ctx context.Context) (got []driver.Instance, ok bool, err error) {
			found, err := l.instances.find(ctx, filter("tag:"+tagNode, m.node.Name), filter("tag:"+tagPool, m.req.Pool.ID))
			for _, in := range found {
				if !l.instances.isOf(in, m) {
					continue // it is a stranger's
				}
				if in.State != nil && in.State.Name != types.InstanceStateNameTerminated && in.State.Name != types.InstanceStateNameShuttingDown {
					got = append(got, l.launched(m, sdk.ToString(in.InstanceId), zoneOf(in)))
				}
			}
			return got, len(got) > 0, err
		},
	}.Settle(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = errors.Join(cause, err)
	}
	return got, err
}
