package gcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/internal/sshkey"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// stockTime is how long Launch waits for Google to say whether it has the machine: only
// the finished operation tells that it has not, usually within half a minute.
func stockTime() time.Duration { return 120 * second }

// settleTime is how long it may take to find out what became of a create.
func settleTime() time.Duration { return createLag() + 30*time.Second }

// Launch inserts an instance for each node, and waits until Google has found room for it.
func (d *driver) Launch(ctx context.Context, req gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	if len(req.Nodes) == 0 {
		return nil, nil
	}
	o, err := d.order(ctx, req)
	if err != nil {
		return nil, fail("launch", err)
	}
	made, err := launches.Each(req.Nodes, d.cfg.ThreadPoolSize, func(n gputrain.NodeRequest) (got []gputrain.Instance, err error) {
		in, err := d.launch(ctx, o, n)
		if in.ID != "" {
			got = append(got, in)
		}
		if err != nil {
			err = fail("launch", fmt.Errorf("%s: %w", n.Name, err))
		}
		return got, err
	}, func(err error) bool { return errors.Is(err, gputrain.ErrUnavailable) })
	slices.SortFunc(made, func(a, b gputrain.Instance) int { return a.Rank - b.Rank })
	return made, err
}

// An order is a launch with all that is looked up for it.
type order struct {
	place
	req   gputrain.LaunchRequest //secretvet:ignore for the time of a launch, and no message formats it
	gpu   bool
	image source
	tag   tag
}

func (d *driver) order(ctx context.Context, req gputrain.LaunchRequest) (order, error) {
	at, err := parseOffer(req.Offer.ID)
	if err != nil {
		return order{}, err
	}
	if err := check(req); err != nil {
		return order{}, err
	}
	o := order{place: at, req: req, gpu: at.gpu != "" || !req.Offer.Accelerator.IsZero(), tag: tagOf(req.Pool, time.Now())}
	o.image, err = d.image(ctx, o.gpu, req.Offer.Arch)
	return o, err
}

func check(req gputrain.LaunchRequest) error {
	if err := checkPool(req.Pool.ID); err != nil {
		return err
	}
	if sshkey.CheckPublic(req.Pool.AuthorizedKey) != nil || strings.ContainsAny(strings.TrimSpace(req.Pool.AuthorizedKey), "\n\r\x00") {
		return fmt.Errorf("%w: the pool's public key is not one line in authorized_keys form", gputrain.ErrInvalid)
	}
	for _, n := range req.Nodes {
		if !nameForm.MatchString(n.Name) {
			return fmt.Errorf("%w: %q is not the name of an instance", gputrain.ErrInvalid, n.Name)
		}
	}
	return nil
}

// notMade is the error of what was looked up before anything was made, so that nobody
// has to look for it.
func notMade(err error) error {
	if kind := kindOf(err); kind != gputrain.ErrUnavailable && kind != nil {
		return err
	}
	return &gputrain.Error{Kind: gputrain.ErrNoCapacity, Err: fmt.Errorf("nothing was asked for: %w", err)}
}

// launch inserts one node's instance. An answer that leaves open what was made is settled
// by the instance's name, which no two can have in a zone.
func (d *driver) launch(ctx context.Context, o order, n gputrain.NodeRequest) (gputrain.Instance, error) {
	if ctx.Err() != nil {
		return gputrain.Instance{}, context.Cause(ctx)
	}
	in := gputrain.Instance{
		ID: instanceID(o.zone, n.Name), Name: n.Name, Rank: n.Rank, State: gputrain.InstancePending, StateReason: "being made", Offer: o.req.Offer,
		Labels: map[string]string{"gcp.zone": o.zone},
	}
	d.note(in.ID, func(known *node) { *known = node{offer: o.req.Offer, at: time.Now()} })
	requestID := newRequestID()
	if o.req.Token != "" {
		requestID = uuid(strings.Join([]string{o.req.Token, o.req.Offer.ID, n.Name}, "\n"))
	}
	op, err := d.api.insert(ctx, o.zone, requestID, d.body(o, n))
	switch {
	case exists(err), isOpen(err):
		return d.settle(ctx, o, in, err)
	case err != nil:
		return gputrain.Instance{}, err
	}
	d.note(in.ID, func(known *node) { known.op = op })
	waiting, cancel := context.WithTimeout(ctx, stockTime())
	defer cancel()
	err = d.api.await(waiting, op)
	_, refused := errors.AsType[*operationError](err)
	switch {
	case err == nil:
		d.note(in.ID, func(known *node) { known.op, known.seen = nil, true })
		return in, nil
	case !refused:
		return in, context.Cause(ctx) // it is being made; what becomes of it Describe will tell
	case exists(err):
		return d.settle(ctx, o, in, err)
	}
	d.note(in.ID, func(known *node) { known.op, known.ended = nil, true })
	return gputrain.Instance{}, err
}

// adopt takes an instance that is there already, where it is this very node.
func (d *driver) adopt(o order, in gputrain.Instance, there *computepb.Instance, why error) (gputrain.Instance, error) {
	t := tagIn(there)
	if t.Pool != o.req.Pool.ID {
		return gputrain.Instance{}, fmt.Errorf("%w: instance %s is there already, and not of pool %s: %w", gputrain.ErrInvalid, in.ID, o.req.Pool.ID, why)
	}
	if t.Type != "" {
		in.Offer = t.offer(o.zone) // what it is, and costs
	}
	in.State, in.StateReason = stateOf(there.GetStatus(), there.GetStatusMessage())
	if in.State == gputrain.InstanceRunning {
		in.State = gputrain.InstancePending // Describe looks whether it can be reached
	}
	d.note(in.ID, func(known *node) { known.offer, known.seen, known.op = in.Offer, true, nil })
	return in, nil
}

// settle looks for the instance that is there already, or that a create may have made whose
// answer was lost. Where the caller has given up, what is found is returned with why.
func (d *driver) settle(ctx context.Context, o order, in gputrain.Instance, why error) (gputrain.Instance, error) {
	if isAnswered(why) {
		why = &cloud.AnsweredError{Err: why}
	}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime())
	defer cancel()
	until := time.Now().Add(createLag())
	o.req.Pool.Settling(fmt.Errorf("%s may have been made: %w", in.Name, why), until)
	for {
		asked := time.Now()
		there, err := d.api.instance(settling, o.zone, in.Name)
		if err == nil {
			found, err := d.adopt(o, in, there, why)
			return found, errors.Join(err, context.Cause(ctx))
		}
		// Who has given up is not kept waiting: whether the pool's list has it is looked at later.
		if asked.After(until) || ctx.Err() != nil || !launches.Pause(settling, second) {
			return gputrain.Instance{}, &gputrain.Error{Kind: gputrain.ErrUnavailable, Err: why, Hint: "an instance may have been made all the same: List has it"}
		}
	}
}

// body is what an instance is made of.
func (d *driver) body(o order, n gputrain.NodeRequest) *computepb.Instance {
	t := o.tag.machine(n.Rank, o.req.Offer)
	fam := family(o.name)
	diskType := d.cfg.DiskType
	if diskType == "" {
		if diskType = "pd-balanced"; isHyperdisk(fam) {
			diskType = "hyperdisk-balanced"
		}
	}
	in := &computepb.Instance{
		Name:        proto.String(n.Name),
		Description: proto.String("node of gputrain's pool " + o.req.Pool.ID),
		MachineType: proto.String("zones/" + o.zone + "/machineTypes/" + o.name),
		Labels:      t.labels(),
		Tags:        &computepb.Tags{Items: []string{networkTag(o.req.Pool.ID)}},
		Disks: []*computepb.AttachedDisk{{
			Boot: proto.Bool(true), AutoDelete: proto.Bool(true),
			InitializeParams: &computepb.AttachedDiskInitializeParams{
				SourceImage: proto.String(o.image.link),
				DiskSizeGb:  proto.Int64(max(d.cfg.diskGB(o.req.Spec), o.image.diskGB)),
				DiskType:    proto.String("zones/" + o.zone + "/diskTypes/" + diskType),
				Labels:      t.labels(),
			},
		}},
		NetworkInterfaces: []*computepb.NetworkInterface{d.card(o.zone, fam)},
		Scheduling:        d.scheduling(o),
		Metadata:          &computepb.Metadata{Items: d.metadata(o, n, t)},
	}
	if o.gpuAdded() {
		in.GuestAccelerators = []*computepb.AcceleratorConfig{{
			AcceleratorType:  proto.String("projects/" + d.cfg.ProjectID + "/zones/" + o.zone + "/acceleratorTypes/" + o.place.gpu),
			AcceleratorCount: proto.Int32(int32(o.gpus)),
		}}
	}
	if d.cfg.ServiceAccount != "" {
		in.ServiceAccounts = []*computepb.ServiceAccount{{Email: proto.String(d.cfg.ServiceAccount), Scopes: []string{cloudScope}}}
	}
	return in
}

// gpuAdded is whether GPUs are added to the machine, and not its own.
func (o order) gpuAdded() bool { return o.place.gpu != "" }

// card is the node's network card.
func (d *driver) card(zone, fam string) *computepb.NetworkInterface {
	card := &computepb.NetworkInterface{}
	switch network := d.cfg.Network; {
	case strings.Contains(network, "/"):
		card.Network = &network
	default:
		card.Network = proto.String("global/networks/" + network)
	}
	switch subnet := d.cfg.Subnet; {
	case strings.Contains(subnet, "/"):
		card.Subnetwork = &subnet
	case subnet != "":
		card.Subnetwork = proto.String("regions/" + regionOf(zone) + "/subnetworks/" + subnet)
	}
	if hasGVNIC(fam) {
		card.NicType = proto.String("GVNIC")
	}
	if !d.cfg.PrivateIP {
		card.AccessConfigs = []*computepb.AccessConfig{{
			Type: proto.String("ONE_TO_ONE_NAT"), Name: proto.String("External NAT"), NetworkTier: proto.String("PREMIUM"),
		}}
	}
	return card
}

// scheduling says in which market the node is rented, and when Google itself deletes it.
func (d *driver) scheduling(o order) *computepb.Scheduling {
	s := &computepb.Scheduling{ProvisioningModel: proto.String("STANDARD"), AutomaticRestart: proto.Bool(false)}
	if o.spot {
		s.ProvisioningModel, s.InstanceTerminationAction = proto.String("SPOT"), proto.String("DELETE")
	}
	if o.spot || o.gpu {
		s.OnHostMaintenance = proto.String("TERMINATE")
	}
	limit := d.cfg.MaxRunDuration
	if expires := o.req.Pool.Expires; limit == 0 && !expires.IsZero() {
		limit = min(max(time.Until(expires)+afterTTL, minRun), maxRun)
	}
	if limit > 0 {
		s.MaxRunDuration = &computepb.Duration{Seconds: proto.Int64(int64(limit.Round(time.Second) / time.Second))}
		s.InstanceTerminationAction = proto.String("DELETE")
	}
	return s
}

// metadata is what the node's agents go by. Every process on the node can read it.
func (d *driver) metadata(o order, n gputrain.NodeRequest, t tag) []*computepb.Items {
	var items []*computepb.Items
	add := func(key, value string) {
		items = append(items, &computepb.Items{Key: &key, Value: &value})
	}
	fields := strings.Fields(o.req.Pool.AuthorizedKey)
	add("ssh-keys", d.cfg.SSHUser+":"+fields[0]+" "+fields[1]+" gputrain")
	add("block-project-ssh-keys", "TRUE")
	add("enable-oslogin", "FALSE") // with which the key would be ignored
	add("enable-guest-attributes", "TRUE")
	if o.gpu {
		add("install-nvidia-driver", "True")
	}
	add("startup-script", d.startScript(instanceID(o.zone, n.Name), n.Name))
	add(tagKey, t.String())
	return items
}
