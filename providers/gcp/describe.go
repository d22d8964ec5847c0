package gcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain/internal/sshkey"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// instances are the machines that the API describes, with what this driver remembers of them.
type instances struct {
	cfg Config //secretvet:ignore complete, without credentials
	api *client

	mu    sync.Mutex
	nodes map[string]*node // by instance ID
}

// A node has the facts that the driver remembers of an instance.
type node struct {
	offer    driver.Offer
	launched time.Time            // when it was about to be launched; zero if another driver did that
	sight    cloud.Sight          // made once the API has answered that
	op       *computepb.Operation // the operation that makes it; nil once it is known to be done
	refused  bool                 // that operation has failed: it was never made
	gone     bool                 // the API did not know it when asked to delete it
	hostKeys []string
}

// instanceID returns the ID of an instance: its zone and its name, which address it.
func instanceID(zone, name string) string { return zone + "/" + name }

// parseID splits an ID. ok is false if it cannot be an instance's.
func parseID(id string) (zone, name string, ok bool) {
	zone, name, ok = strings.Cut(id, "/")
	return zone, name, ok && zoneForm.MatchString(zone) && nameForm.MatchString(name)
}

// describe reports the named machines, each by a call of its own.
func (i *instances) describe(ctx context.Context, ids []string) ([]driver.Instance, error) {
	found := make([]driver.Instance, len(ids))
	var g errgroup.Group
	g.SetLimit(i.cfg.ThreadPoolSize)
	for n, id := range ids {
		g.Go(func() (err error) {
			found[n], err = i.one(ctx, id)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return found, nil
}

// one describes one machine.
func (i *instances) one(ctx context.Context, id string) (driver.Instance, error) {
	zone, name, ok := parseID(id)
	if !ok {
		return driver.Instance{ID: id, State: driver.InstanceTerminated, StateReason: "no instance has such an ID"}, nil
	}
	in, err := i.api.instance(ctx, zone, name)
	if isGone(err) {
		return i.missing(ctx, zone, name)
	}
	if err != nil {
		return driver.Instance{}, err
	}
	t := tagIn(in)
	known := i.note(id, func(n *node) {
		n.op = nil
		if o := t.offer(zone); t.Type != "" && (n.offer.ID != o.ID || n.offer.HourlyUSD != o.HourlyUSD) {
			n.offer = o // the tag has less than an offer of this driver, but is certainly the machine's
		}
	})
	now := driver.Instance{ID: id, Name: name, Rank: t.Rank, Offer: known.offer, Labels: map[string]string{"gcp.zone": zone}}
	if now.Offer.Provider == "" {
		now.Offer = t.offer(zone)
	}
	now.State, now.StateReason = stateOf(in.GetStatus(), in.GetStatusMessage())
	i.note(id, func(n *node) { n.sight.Seen(now.State) })
	now.PrivateAddr, now.PublicAddr = addresses(in)
	switch {
	case now.State == driver.InstanceRunning:
		return i.reachable(ctx, zone, now)
	case now.State == driver.InstanceStopped && now.Offer.Spot && (known.gone || !known.sight.Accepted()):
		switch taken := i.preempted(ctx, zone, name); {
		case taken != "" && known.gone:
			now.State, now.StateReason = driver.InstanceTerminated, cloud.NothingToEnd(taken)
		case taken != "":
			now.State, now.StateReason = driver.InstancePreempted, taken
		}
	}
	return now, nil
}

// note changes what is remembered of an instance, and returns it.
func (i *instances) note(id string, change func(*node)) node {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := i.nodes[id]
	if n == nil {
		n = &node{}
		i.nodes[id] = n
	}
	change(n)
	return *n
}

// missing describes an instance that the API does not know.
func (i *instances) missing(ctx context.Context, zone, name string) (driver.Instance, error) {
	id := instanceID(zone, name)
	known := i.note(id, func(*node) {})
	gone := driver.Instance{ID: id, Name: name, Offer: known.offer, State: driver.InstanceTerminated, StateReason: "it no longer exists"}
	if known.op != nil && !known.sight.Accepted() {
		op, err := i.api.poll(ctx, known.op)
		switch {
		case isGone(err): // a later call decides
		case err != nil:
			return driver.Instance{}, err
		case op.GetStatus() != computepb.Operation_DONE:
			gone.State, gone.StateReason = driver.InstancePending, "being made"
			return gone, nil
		case failed(op) != nil:
			gone.StateReason = failed(op).Error()
			return gone, nil
		default: // made after the first look, or gone since
			i.note(id, func(n *node) { n.op = nil })
			return i.one(ctx, id)
		}
	}
	over := false
	known = i.note(id, func(n *node) { over = n.refused || n.sight.IsGone(sighting(), n.launched) })
	if over && (known.sight.Accepted() || known.gone || known.refused) {
		return gone, nil
	}
	taken := ""
	if known.offer.Spot {
		taken = i.preempted(ctx, zone, name)
	}
	switch {
	case taken != "" && known.gone:
		gone.StateReason = cloud.NothingToEnd(taken)
	case taken != "":
		gone.State, gone.StateReason = driver.InstancePreempted, taken
	case !over:
		gone.State, gone.StateReason = driver.InstancePending, "the API does not know it yet"
	}
	return gone, nil
}

// preempted returns how Google has preempted an instance. It returns "" if Google has not, or
// does not show it; the instance is gone in either case.
func (i *instances) preempted(ctx context.Context, zone, name string) string {
	all, err := i.api.preemptions(ctx, zone)
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

// reachable adds the endpoint of its SSH server to a running instance. Until all of that is
// known, the instance is pending.
func (i *instances) reachable(ctx context.Context, zone string, in driver.Instance) (driver.Instance, error) {
	host := in.PublicAddr
	if i.cfg.PrivateIP {
		host = in.PrivateAddr
	}
	if host == "" {
		in.State, in.StateReason = driver.InstancePending, "it has no address yet"
		return in, nil
	}
	keys, err := i.hostKeys(ctx, zone, in.Name)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(keys) == 0 && !i.cfg.TrustFirstContact {
		in.State, in.StateReason = driver.InstancePending, "its host key is not published yet; an image without Google's agent needs Config.TrustFirstContact"
		return in, nil
	}
	in.SSH = driver.Endpoint{Addr: net.JoinHostPort(host, strconv.Itoa(i.cfg.SSHPort)), User: i.cfg.SSHUser, HostKeys: keys}
	return in, nil
}

// hostKeys returns the keys that the guest agent has published, in authorized_keys form.
func (i *instances) hostKeys(ctx context.Context, zone, name string) ([]string, error) {
	id := instanceID(zone, name)
	if i.cfg.TrustFirstContact {
		return nil, nil
	}
	if known := i.note(id, func(*node) {}).hostKeys; known != nil {
		return known, nil
	}
	published, err := i.api.hostKeys(ctx, zone, name)
	if kind := kindOf(err); kind == driver.ErrAuth || kind == driver.ErrUnsupported || kind == driver.ErrInvalid {
		return nil, &driver.Error{Kind: kind, Err: err, Hint: "allow compute.instances.getGuestAttributes, which reads host keys, or set Config.TrustFirstContact"}
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
	if len(keys) > 0 && strings.HasPrefix(keys[0], "ssh-ed25519 ") { // by then the others are published, too
		i.note(id, func(n *node) { n.hostKeys = keys })
	}
	return keys, nil
}

// stateOf translates the API's states. A stopped instance exists, and its disk is billed. An
// instance that is being deleted exists until it is gone.
func stateOf(status, message string) (driver.InstanceState, string) {
	why := status
	if message != "" {
		why += ": " + message
	}
	switch status {
	case "PENDING", "PROVISIONING", "STAGING", "REPAIRING":
		return driver.InstancePending, why
	case "RUNNING":
		return driver.InstanceRunning, why
	case "PENDING_STOP", "STOPPING", "SUSPENDING", "SUSPENDED", "STOPPED", "TERMINATED", "DEPROVISIONING":
		return driver.InstanceStopped, why
	}
	return driver.InstanceUnknown, why
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

// tagIn reads the tag of an instance. It is empty if gputrain did not make the instance.
func tagIn(in *computepb.Instance) tag {
	for _, item := range in.GetMetadata().GetItems() {
		if item.GetKey() != tagKey {
			continue
		}
		if t, ok := parseTag(item.GetValue()); ok && t.Pool == in.GetLabels()[labelPool] {
			return t
		}
	}
	return tag{Pool: fromLabels(in.GetLabels()).Pool} // "" if both the metadata and the labels were edited
}

// terminate deletes the instances with their disks: the disk of a stopped instance is still
// billed.
func (i *instances) terminate(ctx context.Context, ids []string) error {
	var g errgroup.Group
	g.SetLimit(i.cfg.ThreadPoolSize)
	errs := make([]error, len(ids))
	for n, id := range ids {
		zone, name, ok := parseID(id)
		if !ok {
			continue // no such instance can exist
		}
		g.Go(func() error {
			err := i.api.delete(ctx, zone, name)
			if err != nil && !isGone(err) {
				errs[n] = fail("terminate", fmt.Errorf("%s: %w", id, err))
				return nil
			}
			i.note(id, func(known *node) {
				known.sight.Ended(err == nil)
				known.gone = known.gone || err != nil
			})
			return nil
		})
	}
	_ = g.Wait() // errs has all errors
	return errors.Join(errs...)
}
