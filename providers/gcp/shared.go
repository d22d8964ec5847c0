package gcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/gputrain/gputrain"
)

const (
	kindFirewall = "firewall"
	kindVolume   = "volume"
	// releaseTime is how long the removal of a rule or a disk may take.
	releaseTime = 2 * time.Minute
)

// networkTag is what rules find the nodes of a pool by.
func networkTag(poolID string) string { return "gputrain-" + poolID }

// rules are the pool's firewall rules: who may reach SSH, and that nodes reach each other.
func (d *driver) rules(pool gputrain.PoolInfo) []*computepb.Firewall {
	nodes := networkTag(pool.ID)
	rule := func(name string, allowed *computepb.Allowed) *computepb.Firewall {
		network := d.cfg.Network
		if !strings.Contains(network, "/") {
			network = "projects/" + d.cfg.ProjectID + "/global/networks/" + network
		}
		return &computepb.Firewall{
			Name: &name, Network: &network, Description: proto.String(tagOf(pool, time.Now()).String()),
			Direction: proto.String("INGRESS"), TargetTags: []string{nodes}, Allowed: []*computepb.Allowed{allowed},
		}
	}
	ssh := rule("gputrain-ssh-"+pool.ID, &computepb.Allowed{IPProtocol: proto.String("tcp"), Ports: []string{strconv.Itoa(d.cfg.SSHPort)}})
	ssh.SourceRanges = d.cfg.SourceRanges
	within := rule("gputrain-in-"+pool.ID, &computepb.Allowed{IPProtocol: proto.String("all")})
	within.SourceTags = []string{nodes}
	return []*computepb.Firewall{ssh, within}
}

// Prepare makes the pool's firewall rules.
func (d *driver) Prepare(ctx context.Context, pool gputrain.PoolInfo) error {
	if err := checkPool(pool.ID); err != nil {
		return fail("prepare", err)
	}
	if d.cfg.NoFirewall {
		return nil
	}
	for _, rule := range d.rules(pool) {
		if err := d.makeRule(ctx, pool, rule); err != nil {
			return fail("prepare", fmt.Errorf("firewall rule %s: %w", rule.GetName(), err))
		}
	}
	return nil
}

// makeRule makes a rule unless it is there. A rule's name is its ID, so that what is put
// down before it is made is all there is to put down.
func (d *driver) makeRule(ctx context.Context, pool gputrain.PoolInfo, rule *computepb.Firewall) error {
	name := rule.GetName()
	there, err := d.api.firewall(ctx, name)
	if err != nil && !isGone(err) {
		return err
	}
	if err == nil {
		return ourRule(there, pool.ID)
	}
	if err := pool.Record(gputrain.Resource{Kind: kindFirewall, ID: name, Name: name, HourlyUSD: gputrain.USD(0)}); err != nil {
		return err
	}
	op, err := d.api.insertFirewall(ctx, rule)
	if err == nil {
		err = d.api.await(ctx, op)
	}
	if err == nil || ctx.Err() != nil || !exists(err) && !isOpen(err) {
		return err
	}
	// Whether it is there decides, not an answer that is lost. That it is not there says nothing
	// of a call that may still be on its way.
	there, getErr := d.api.firewall(ctx, name)
	switch {
	case getErr == nil:
		return ourRule(there, pool.ID)
	case isGone(getErr):
		getErr = errors.New("and it is not there, or not yet")
	}
	return &gputrain.Error{Kind: gputrain.ErrUnavailable, Err: fmt.Errorf("%w; %w", err, getErr), Hint: "prepare it again: what is there by then is taken as it is"}
}

func ourRule(rule *computepb.Firewall, poolID string) error {
	if t, ok := parseTag(rule.GetDescription()); !ok || t.Pool != poolID {
		return fmt.Errorf("%w: it is there already, and not this pool's", gputrain.ErrInvalid)
	}
	return nil
}

// listShared reports what is not machines: rules, and disks that have outlived theirs.
func (d *driver) listShared(ctx context.Context, poolID string) ([]gputrain.Resource, error) {
	var rules []*computepb.Firewall
	var err error
	if !d.cfg.NoFirewall { // where those are somebody else's it may not even be allowed to look
		if rules, err = d.api.listFirewalls(ctx); err != nil {
			return nil, err
		}
	}
	var found []gputrain.Resource
	for _, rule := range rules {
		t, ok := parseTag(rule.GetDescription())
		if ok && strings.HasPrefix(rule.GetName(), "gputrain-") && strings.HasSuffix(rule.GetName(), "-"+t.Pool) && (poolID == "" || t.Pool == poolID) {
			found = append(found, t.resource(kindFirewall, rule.GetName(), rule.GetName(), ""))
		}
	}
	scopes, err := d.api.listDisks(ctx, poolID)
	if err != nil {
		return nil, err
	}
	for _, in := range scopes {
		for _, disk := range in.items {
			pool := disk.GetLabels()[labelPool]
			if len(disk.GetUsers()) > 0 || disk.GetStatus() == "DELETING" || !zoneForm.MatchString(in.name) ||
				disk.GetLabels()[labelManaged] == "" || !poolForm.MatchString(pool) || poolID != "" && pool != poolID {
				continue
			}
			lease, _ := strconv.ParseInt(disk.GetLabels()[labelLease], 10, 32) // seconds, or nothing
			r := tag{Pool: pool, Lease: lease}.resource(kindVolume, instanceID(in.name, disk.GetName()), disk.GetName(), in.name)
			r.HourlyUSD, r.Expires = gputrain.Price{}, labelTime(disk.GetLabels(), labelExpires)
			r.Created = created(disk.GetCreationTimestamp())
			found = append(found, r)
		}
	}
	return found, nil
}

// created reads a time of the API.
func created(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// Release removes the pool's rules, and disks that its machines have left behind.
func (d *driver) Release(ctx context.Context, pool gputrain.PoolInfo) error {
	if err := checkPool(pool.ID); err != nil {
		return fail("release", err)
	}
	held, err := d.listShared(ctx, pool.ID)
	errs := []error{err}
	for _, made := range pool.Made {
		if made.Kind == kindFirewall && !slices.ContainsFunc(held, func(r gputrain.Resource) bool { return r.Kind == made.Kind && r.Name == made.Name }) {
			made.ID = made.Name
			held = append(held, made)
		}
	}
	for _, r := range held {
		if err := d.remove(ctx, r, pool.ID); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", r.Kind, r.ID, err))
		}
	}
	return fail("release", errors.Join(errs...))
}

// remove removes what is not a machine, and waits until it is gone.
func (d *driver) remove(ctx context.Context, r gputrain.Resource, poolID string) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	var op *computepb.Operation
	var err error
	switch r.Kind {
	case kindFirewall:
		var rule *computepb.Firewall
		if rule, err = d.api.firewall(ctx, r.ID); err == nil {
			if ourRule(rule, poolID) != nil {
				return nil // somebody else's, under a name that was put down and never made
			}
			op, err = d.api.deleteFirewall(ctx, r.ID)
		}
	case kindVolume:
		zone, name, _ := parseID(r.ID)
		op, err = d.api.deleteDisk(ctx, zone, name)
	}
	if err == nil {
		err = d.api.await(ctx, op)
	}
	if isGone(err) {
		return nil
	}
	return err
}
