package gcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/internal/sshkey"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// stockTime bounds how long Launch waits for Google to report whether it has the machine. Only
// the finished operation reports a stock-out, usually within half a minute.
func stockTime() time.Duration { return max(120*second, 15*time.Second) } // tests shorten second

// If an answer was lost, failed reads are repeated until settleGrace after createLag.
const settleGrace = 30 * time.Second

// reservationKey is the label by which Google finds a reservation by its name.
const reservationKey = "compute.googleapis.com/reservation-name"

// A launcher inserts instances.
type launcher struct {
	cfg       Config //secretvet:ignore complete, without credentials
	api       *client
	images    *images
	instances *instances
}

// launch inserts an instance for each node and waits until Google has found room for it.
func (l *launcher) launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	if len(req.Nodes) == 0 {
		return nil, nil
	}
	o, err := l.order(ctx, req)
	if err != nil {
		return nil, fail("launch", err)
	}
	made, err := launches.Each(req.Nodes, l.cfg.ThreadPoolSize, func(n driver.NodeRequest) (got []driver.Instance, err error) {
		in, err := l.launchNode(ctx, o, n)
		if in.ID != "" {
			got = append(got, in)
		}
		if err != nil {
			err = fail("launch", fmt.Errorf("%s: %w", n.Name, err))
		}
		return got, err
	}, func(err error) bool { return errors.Is(err, driver.ErrUnavailable) })
	slices.SortFunc(made, func(a, b driver.Instance) int { return a.Rank - b.Rank })
	return made, err
}

// An order is a launch with everything that it needs looked up.
type order struct {
	place
	req   driver.Launch //secretvet:ignore for the time of a launch, and no message formats it
	gpu   bool
	image source
	begun time.Time
}

func (l *launcher) order(ctx context.Context, req driver.Launch) (order, error) {
	at, err := parseOffer(req.Offer.ID)
	if err != nil {
		return order{}, err
	}
	if err := check(req); err != nil {
		return order{}, err
	}
	o := order{place: at, req: req, gpu: at.gpu != "" || !req.Offer.Accelerator.IsZero(), begun: time.Now()}
	if req.Offer.Baked != "" {
		o.image, err = l.images.baked(ctx, req.Offer.Baked)
	} else {
		o.image, err = l.images.forNode(ctx, o.gpu, req.Offer.Arch)
	}
	return o, err
}

func check(req driver.Launch) error {
	if err := checkPool(req.Pool.ID); err != nil {
		return err
	}
	if err := checkTags(req.Pool.Tags); err != nil {
		return err
	}
	if sshkey.CheckPublic(req.Pool.AuthorizedKey) != nil || strings.ContainsAny(strings.TrimSpace(req.Pool.AuthorizedKey), "\n\r\x00") {
		return fmt.Errorf("%w: the pool's public key is not one line in authorized_keys form", driver.ErrInvalid)
	}
	for _, n := range req.Nodes {
		if !nameForm.MatchString(n.Name) {
			return fmt.Errorf("%w: %q is not a valid instance name", driver.ErrInvalid, n.Name)
		}
	}
	return nil
}

// notMade returns the error of a lookup before anything was made, so that no create is settled.
func notMade(err error) error {
	if kind := kindOf(err); kind != driver.ErrUnavailable && kind != nil {
		return err
	}
	return &driver.Error{Kind: driver.ErrNoCapacity, Err: fmt.Errorf("no machine was requested: %w", err)}
}

// launchNode inserts one node's instance. If the answer leaves open what was made, the
// instance's name settles it, which is unique in a zone.
func (l *launcher) launchNode(ctx context.Context, o order, n driver.NodeRequest) (driver.Instance, error) {
	if ctx.Err() != nil {
		return driver.Instance{}, context.Cause(ctx)
	}
	in := driver.Instance{
		ID: instanceID(o.zone, n.Name), Name: n.Name, Rank: n.Rank, State: driver.InstancePending, StateReason: "being made", Offer: o.req.Offer,
		Labels: map[string]string{"gcp.zone": o.zone},
	}
	l.instances.note(in.ID, func(known *node) { *known = node{offer: o.req.Offer, launched: time.Now()} })
	requestID := newRequestID()
	if o.req.Token != "" {
		requestID = uuid(strings.Join([]string{o.req.Token, o.req.Offer.ID, n.Name}, "\n"))
	}
	op, err := l.api.insert(ctx, o.zone, requestID, l.body(o, n))
	switch {
	case exists(err), isOpen(err):
		return l.settle(ctx, o, in, err)
	case err != nil:
		return driver.Instance{}, err
	}
	l.instances.note(in.ID, func(known *node) { known.op, known.sight = op, cloud.MadeAt(time.Now()) })
	waiting, cancel := context.WithTimeout(ctx, stockTime())
	defer cancel()
	err = l.api.await(waiting, op)
	_, refused := errors.AsType[*operationError](err)
	switch {
	case err == nil:
		l.instances.note(in.ID, func(known *node) { known.op = nil })
		return in, nil
	case !refused:
		return in, context.Cause(ctx) // the instance is being made; Describe reports the outcome
	case exists(err):
		return l.settle(ctx, o, in, err)
	}
	l.instances.note(in.ID, func(known *node) { known.op, known.refused = nil, true })
	return driver.Instance{}, err
}

// adopt takes over an existing instance if it is this very node.
func (l *launcher) adopt(o order, in driver.Instance, there *computepb.Instance, why error) (driver.Instance, error) {
	t := tagIn(there)
	asked := pooltag.Tag{Pool: o.req.Pool.ID, Owner: o.req.Pool.Owner, Name: in.Name, Created: o.begun}
	if made := created(there.GetCreationTimestamp()); t.doubt(in.Name, made) != "" || !asked.Is(pooltag.Tag{Pool: t.Pool, Owner: t.Owner, Name: there.GetName(), Created: made}) {
		return driver.Instance{}, fmt.Errorf("%w: instance %s exists already, but not for pool %s: %w", driver.ErrInvalid, in.ID, o.req.Pool.ID, why)
	}
	if t.Type != "" {
		in.Offer = t.offer(o.zone) // its type and its price
	}
	in.State, in.StateReason = stateOf(there.GetStatus(), there.GetStatusMessage())
	if in.State == driver.InstanceRunning {
		in.State = driver.InstancePending // Describe checks whether it can be reached
	}
	l.instances.note(in.ID, func(known *node) {
		known.offer, known.op = in.Offer, nil
		known.sight.Seen(in.State)
	})
	return in, nil
}

// settle looks for an instance that exists already, or that a create with a lost answer may
// have made. If the caller has given up, settle returns the instance together with the error.
func (l *launcher) settle(ctx context.Context, o order, in driver.Instance, why error) (driver.Instance, error) {
	if isAnswered(why) {
		why = &cloud.AnsweredError{Err: why}
	}
	there, err := cloud.Search[*computepb.Instance]{
		Pool: o.req.Pool, Name: in.Name, Why: why, Lag: createLag(), Pause: second, Grace: settleGrace,
		Find: func(ctx context.Context) (*computepb.Instance, bool, error) {
			there, err := l.api.instance(ctx, o.zone, in.Name)
			if isGone(err) {
				err = nil
			}
			return there, err == nil && there != nil, err
		},
	}.Settle(ctx)
	if err != nil {
		return driver.Instance{}, err
	}
	found, err := l.adopt(o, in, there, why)
	return found, errors.Join(err, context.Cause(ctx))
}

// body returns the request for a node's instance.
func (l *launcher) body(o order, n driver.NodeRequest) *computepb.Instance {
	node := pooltag.OfNode(o.req.Pool, n, o.begun)
	fam := family(o.name)
	labels := func() map[string]string { // one map for each thing
		all := maps.Clone(o.req.Pool.Tags)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, labelsOf(node))
		return all
	}
	in := &computepb.Instance{
		Name:        proto.String(n.Name),
		Description: proto.String("node of gputrain's pool " + o.req.Pool.ID),
		MachineType: proto.String("zones/" + o.zone + "/machineTypes/" + o.name),
		Labels:      labels(),
		Tags:        &computepb.Tags{Items: []string{networkTag(o.req.Pool.ID)}},
		Disks: []*computepb.AttachedDisk{{
			Boot: proto.Bool(true), AutoDelete: proto.Bool(true),
			InitializeParams: &computepb.AttachedDiskInitializeParams{
				SourceImage: proto.String(o.image.link),
				DiskSizeGb:  proto.Int64(max(l.cfg.diskGB(o.req.Query), o.image.diskGB)),
				DiskType:    proto.String("zones/" + o.zone + "/diskTypes/" + l.cfg.diskType(fam)),
				Labels:      labels(),
			},
		}},
		NetworkInterfaces: []*computepb.NetworkInterface{l.card(o.zone, fam)},
		Scheduling:        l.scheduling(o),
		Metadata:          &computepb.Metadata{Items: l.metadata(o, n, tagOf(node).machine(o.req.Offer))},
	}
	if o.gpuAdded() {
		in.GuestAccelerators = []*computepb.AcceleratorConfig{{
			AcceleratorType:  proto.String("projects/" + l.cfg.ProjectID + "/zones/" + o.zone + "/acceleratorTypes/" + o.place.gpu),
			AcceleratorCount: proto.Int32(int32(o.gpus)),
		}}
	}
	if l.cfg.Reservation != "" {
		in.ReservationAffinity = &computepb.ReservationAffinity{
			ConsumeReservationType: proto.String("SPECIFIC_RESERVATION"), Key: proto.String(reservationKey), Values: []string{l.cfg.Reservation},
		}
	}
	if l.cfg.ServiceAccount != "" {
		in.ServiceAccounts = []*computepb.ServiceAccount{{Email: proto.String(l.cfg.ServiceAccount), Scopes: []string{cloudScope}}}
	}
	return in
}

// gpuAdded reports whether GPUs are added to the machine, as opposed to being its own.
func (o order) gpuAdded() bool { return o.place.gpu != "" }

// card returns the request for the node's network card.
func (l *launcher) card(zone, fam string) *computepb.NetworkInterface {
	card := &computepb.NetworkInterface{}
	switch network := l.cfg.Network; {
	case strings.Contains(network, "/"):
		card.Network = &network
	default:
		card.Network = proto.String("global/networks/" + network)
	}
	switch subnet := l.cfg.Subnet; {
	case strings.Contains(subnet, "/"):
		card.Subnetwork = &subnet
	case subnet != "":
		card.Subnetwork = proto.String("regions/" + regionOf(zone) + "/subnetworks/" + subnet)
	}
	if hasGVNIC(fam) {
		card.NicType = proto.String("GVNIC")
	}
	if !l.cfg.PrivateIP {
		card.AccessConfigs = []*computepb.AccessConfig{{
			Type: proto.String("ONE_TO_ONE_NAT"), Name: proto.String("External NAT"), NetworkTier: proto.String("PREMIUM"),
		}}
	}
	return card
}

// scheduling sets the market in which the node is rented, and when Google itself deletes it.
func (l *launcher) scheduling(o order) *computepb.Scheduling {
	s := &computepb.Scheduling{ProvisioningModel: proto.String("STANDARD"), AutomaticRestart: proto.Bool(false)}
	if o.spot {
		s.ProvisioningModel, s.InstanceTerminationAction = proto.String("SPOT"), proto.String("DELETE")
	}
	if l.cfg.Reservation != "" && spotOnly.MatchString(o.name) { // Google sells those on demand for a reserved time only
		s.ProvisioningModel, s.InstanceTerminationAction = proto.String("RESERVATION_BOUND"), proto.String("DELETE")
	}
	if o.spot || o.gpu {
		s.OnHostMaintenance = proto.String("TERMINATE")
	}
	limit := l.cfg.MaxRunDuration
	if expires := o.req.Pool.Expires; limit == 0 && !expires.IsZero() {
		limit = min(max(time.Until(expires)+afterTTL, minRun), maxRun)
	}
	if limit > 0 {
		s.MaxRunDuration = &computepb.Duration{Seconds: proto.Int64(int64(limit.Round(time.Second) / time.Second))}
		s.InstanceTerminationAction = proto.String("DELETE")
	}
	return s
}

// metadata instructs the node's agents. Every process on the node can read it.
func (l *launcher) metadata(o order, n driver.NodeRequest, t tag) []*computepb.Items {
	var items []*computepb.Items
	add := func(key, value string) {
		items = append(items, &computepb.Items{Key: &key, Value: &value})
	}
	fields := strings.Fields(o.req.Pool.AuthorizedKey)
	add("ssh-keys", l.cfg.SSHUser+":"+fields[0]+" "+fields[1]+" gputrain")
	add("block-project-ssh-keys", "TRUE")
	add("enable-oslogin", "FALSE") // OS Login would ignore the key
	add("enable-guest-attributes", "TRUE")
	if o.gpu {
		add("install-nvidia-driver", "True")
	}
	add("startup-script", l.cfg.startScript(instanceID(o.zone, n.Name), n.Name))
	add(tagKey, t.String())
	return items
}
