package gcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/internal/sshkey"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A driver rents the machines of one pool. What it remembers spares calls and tells what
// is not there yet from what is gone: a driver that knows nothing works, too.
type driver struct {
	cfg       Config //secretvet:ignore complete, without credentials
	api       *client
	catalogue *catalogue
	close     func()

	mu     sync.Mutex
	images map[familyName]source
	nodes  map[string]*node // by instance ID
}

// A node is what is remembered of an instance.
type node struct {
	offer    gputrain.Offer
	at       time.Time            // when it was launched here; zero where it was not
	op       *computepb.Operation // that makes it, while that is not known to be done
	seen     bool                 // it was there once
	ended    bool                 // its end was asked for, and granted
	gone     bool                 // its end was asked for, and the API knew no such instance
	hostKeys []string
}

var (
	_ gputrain.Driver            = (*driver)(nil)
	_ gputrain.SelfDestructor    = (*driver)(nil)
	_ gputrain.LeaseMarker       = (*driver)(nil)
	_ gputrain.PreemptionWatcher = (*driver)(nil)
)

func newDriver(ctx context.Context, cfg Config, base http.RoundTripper, id *identity) (*driver, error) {
	api, err := newClient(ctx, cfg, base, id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", gputrain.ErrInvalid, err)
	}
	return &driver{cfg: cfg, api: api, catalogue: catalogueOf(cfg), images: map[familyName]source{}, nodes: map[string]*node{}}, nil
}

const (
	// lateEffect is how long a request that nobody waits for may go on.
	lateEffect = time.Minute
	// noticeTime is how long before a preemption the machine is told.
	noticeTime = 30 * time.Second
	// provisionTimeout covers the boot of a Deep Learning image on a large machine.
	provisionTimeout = 15 * time.Minute
)

// createLag is how long an instance that was just asked for may be missing from what the
// API tells.
func createLag() time.Duration { return 15 * second }

// Capabilities says what Compute Engine can do.
func (d *driver) Capabilities() gputrain.Capabilities {
	keys := gputrain.HostKeyPublished
	if d.cfg.TrustFirstContact {
		keys = gputrain.HostKeyFirstContact
	}
	return gputrain.Capabilities{
		Account:          "project " + d.cfg.ProjectID,
		LocalAddresses:   localnet.IsURL(d.cfg.Endpoint),
		ListLag:          createLag(),
		LateEffect:       lateEffect,
		Spot:             true,
		PreemptionNotice: noticeTime,
		EndsBilling:      "instances.delete",
		PrivateNetwork:   true,
		DiskResizable:    true,
		Tags:             true,
		HostKeys:         keys,
		ProvisionTimeout: provisionTimeout,
	}
}

// Close gives up the connections.
func (d *driver) Close() error {
	d.close()
	return nil
}

// instanceID is an instance's name with its zone, by which it is addressed.
func instanceID(zone, name string) string { return zone + "/" + name }

// parseID reports whether an ID can be one of an instance.
func parseID(id string) (zone, name string, ok bool) {
	zone, name, ok = strings.Cut(id, "/")
	return zone, name, ok && zoneForm.MatchString(zone) && nameForm.MatchString(name)
}

// Describe reports the named machines, each by a call of its own.
func (d *driver) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
	found := make([]gputrain.Instance, len(ids))
	var g errgroup.Group
	g.SetLimit(d.cfg.ThreadPoolSize)
	for i, id := range ids {
		g.Go(func() (err error) {
			found[i], err = d.describe(ctx, id)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fail("describe", err)
	}
	return found, nil
}

func (d *driver) describe(ctx context.Context, id string) (gputrain.Instance, error) {
	zone, name, ok := parseID(id)
	if !ok {
		return gputrain.Instance{ID: id, State: gputrain.InstanceTerminated, StateReason: "no instance has such an ID"}, nil
	}
	in, err := d.api.instance(ctx, zone, name)
	if isGone(err) {
		return d.missing(ctx, zone, name)
	}
	if err != nil {
		return gputrain.Instance{}, err
	}
	t := tagIn(in)
	known := d.note(id, func(n *node) {
		n.seen, n.op = true, nil
		if t.Type != "" {
			n.offer = t.offer(zone)
		}
	})
	now := gputrain.Instance{ID: id, Name: name, Rank: t.Rank, Offer: known.offer, Labels: map[string]string{"gcp.zone": zone}}
	if now.Offer.Provider == "" {
		now.Offer = t.offer(zone)
	}
	now.State, now.StateReason = stateOf(in.GetStatus(), in.GetStatusMessage())
	now.PrivateAddr, now.PublicAddr = addresses(in)
	switch {
	case now.State == gputrain.InstanceRunning:
		return d.reachable(ctx, zone, now)
	case now.State == gputrain.InstanceStopped && now.Offer.Spot && (known.gone || !known.ended):
		switch taken := d.preempted(ctx, zone, name); {
		case taken != "" && known.gone:
			now.State, now.StateReason = gputrain.InstanceTerminated, cloud.NothingToEnd(taken)
		case taken != "":
			now.State, now.StateReason = gputrain.InstancePreempted, taken
		}
	}
	return now, nil
}

// note changes what is remembered of an instance, and returns it.
func (d *driver) note(id string, change func(*node)) node {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[id]
	if n == nil {
		n = &node{}
		d.nodes[id] = n
	}
	change(n)
	return *n
}

// missing describes an instance that the API does not know.
func (d *driver) missing(ctx context.Context, zone, name string) (gputrain.Instance, error) {
	id := instanceID(zone, name)
	known := d.note(id, func(*node) {})
	gone := gputrain.Instance{ID: id, Name: name, Offer: known.offer, State: gputrain.InstanceTerminated, StateReason: "it does not exist any more"}
	if known.op != nil && !known.ended {
		op, err := d.api.poll(ctx, known.op)
		switch {
		case isGone(err): // time will tell
		case err != nil:
			return gputrain.Instance{}, err
		case op.GetStatus() != computepb.Operation_DONE:
			gone.State, gone.StateReason = gputrain.InstancePending, "being made"
			return gone, nil
		case failed(op) != nil:
			gone.StateReason = failed(op).Error()
			return gone, nil
		default: // it was made after it was looked for, or is gone since
			d.note(id, func(n *node) { n.op, n.seen = nil, true })
			return d.describe(ctx, id)
		}
	}
	switch {
	case known.ended:
	case !known.seen && !known.at.IsZero() && time.Since(known.at) < createLag():
		gone.State, gone.StateReason = gputrain.InstancePending, "the API does not know it yet"
	case known.offer.Spot:
		if taken := d.preempted(ctx, zone, name); taken != "" {
			d.note(id, func(n *node) { n.seen = true }) // by Google, if not here
			gone.State, gone.StateReason = gputrain.InstancePreempted, taken
		}
	}
	return gone, nil
}

// preempted returns how Google has taken an instance back, or "" where it has not, or
// does not tell: it is gone all the same.
func (d *driver) preempted(ctx context.Context, zone, name string) string {
	all, err := d.api.preemptions(ctx, zone)
	if err != nil {
		return ""
	}
	for _, op := range all {
		if strings.HasSuffix(op.GetTargetLink(), "/zones/"+zone+"/instances/"+name) {
			return "preempted: operation " + op.GetName()
		}
	}
	return ""
}

// reachable adds to an instance that runs how its SSH server is reached. Until all of that
// is known it is on its way up.
func (d *driver) reachable(ctx context.Context, zone string, in gputrain.Instance) (gputrain.Instance, error) {
	host := in.PublicAddr
	if d.cfg.PrivateIP {
		host = in.PrivateAddr
	}
	if host == "" {
		in.State, in.StateReason = gputrain.InstancePending, "it has no address yet"
		return in, nil
	}
	keys, err := d.hostKeys(ctx, zone, in.Name)
	if err != nil {
		return gputrain.Instance{}, err
	}
	if len(keys) == 0 && !d.cfg.TrustFirstContact {
		in.State, in.StateReason = gputrain.InstancePending, "its host key is not published yet; an image whose agent never does that needs Config.TrustFirstContact"
		return in, nil
	}
	in.SSH = gputrain.Endpoint{Addr: net.JoinHostPort(host, strconv.Itoa(d.cfg.SSHPort)), User: d.cfg.SSHUser, HostKeys: keys}
	return in, nil
}

// hostKeys returns what the guest agent has published, in authorized_keys form.
func (d *driver) hostKeys(ctx context.Context, zone, name string) ([]string, error) {
	id := instanceID(zone, name)
	if d.cfg.TrustFirstContact {
		return nil, nil
	}
	if known := d.note(id, func(*node) {}).hostKeys; known != nil {
		return known, nil
	}
	published, err := d.api.hostKeys(ctx, zone, name)
	if kind := kindOf(err); kind == gputrain.ErrAuth || kind == gputrain.ErrUnsupported || kind == gputrain.ErrInvalid {
		return nil, &gputrain.Error{Kind: kind, Err: err, Hint: "allow compute.instances.getGuestAttributes, by which host keys are known, or set Config.TrustFirstContact"}
	} else if err != nil {
		return nil, err
	}
	var keys []string
	for _, kind := range []string{"ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"} {
		key := kind + " " + strings.TrimSpace(published[kind])
		if sshkey.CheckPublic(key) == nil {
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 && strings.HasPrefix(keys[0], "ssh-ed25519 ") { // the others are there by then, too
		d.note(id, func(n *node) { n.hostKeys = keys })
	}
	return keys, nil
}

// stateOf is the table of the API's states. What is stopped exists, and its disk is
// billed; what is being deleted does not cease to exist before it is gone.
func stateOf(status, message string) (gputrain.InstanceState, string) {
	why := status
	if message != "" {
		why += ": " + message
	}
	switch status {
	case "PENDING", "PROVISIONING", "STAGING", "REPAIRING":
		return gputrain.InstancePending, why
	case "RUNNING":
		return gputrain.InstanceRunning, why
	case "PENDING_STOP", "STOPPING", "SUSPENDING", "SUSPENDED", "STOPPED", "TERMINATED", "DEPROVISIONING":
		return gputrain.InstanceStopped, why
	}
	return gputrain.InstanceUnknown, why
}

func addresses(in *computepb.Instance) (private, public string) {
	cards := in.GetNetworkInterfaces()
	if len(cards) == 0 {
		return "", ""
	}
	for _, a := range cards[0].GetAccessConfigs() { // the other cards are for GPUs
		public = a.GetNatIP()
	}
	return cards[0].GetNetworkIP(), public
}

// tagIn reads the tag of an instance. It is empty where the instance is not gputrain's.
func tagIn(in *computepb.Instance) tag {
	for _, item := range in.GetMetadata().GetItems() {
		if item.GetKey() != tagKey {
			continue
		}
		if t, ok := parseTag(item.GetValue()); ok && t.Pool == in.GetLabels()[labelPool] {
			return t
		}
	}
	if pool := in.GetLabels()[labelPool]; in.GetLabels()[labelManaged] != "" && poolForm.MatchString(pool) {
		return tag{Pool: pool} // somebody has edited the rest
	}
	return tag{}
}

// Terminate deletes the instances, with their disks: one that is only stopped goes on
// being billed for its disk.
func (d *driver) Terminate(ctx context.Context, ids ...string) error {
	var g errgroup.Group
	g.SetLimit(d.cfg.ThreadPoolSize)
	errs := make([]error, len(ids))
	for i, id := range ids {
		zone, name, ok := parseID(id)
		if !ok {
			continue // it cannot be there
		}
		g.Go(func() error {
			err := d.api.delete(ctx, zone, name)
			if err != nil && !isGone(err) {
				errs[i] = fail("terminate", fmt.Errorf("%s: %w", id, err))
				return nil
			}
			// What was asked for here and never seen may still come.
			d.note(id, func(n *node) {
				n.ended = n.ended || err == nil || n.seen || n.at.IsZero()
				n.gone = n.gone || err != nil
			})
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs, all of them
	return errors.Join(errs...)
}
