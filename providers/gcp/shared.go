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

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const (
	kindFirewall = "firewall"
	kindVolume   = "volume"
	// releaseTime bounds the removal of a rule or a disk.
	releaseTime = 2 * time.Minute
)

// sharedThings are what pools hold beside machines: firewall rules, and disks that outlived
// their machines.
type sharedThings struct {
	cfg Config //secretvet:ignore complete, without credentials
	api *client
}

// networkTag returns the network tag that applies the rules to a pool's nodes.
func networkTag(poolID string) string { return pooltag.SharedName(poolID) }

// rules returns the pool's firewall rules: one for addresses that may reach SSH, one for the
// nodes among each other.
func (s *sharedThings) rules(pool driver.PoolInfo) []*computepb.Firewall {
	nodes := networkTag(pool.ID)
	rule := func(name string, allowed *computepb.Allowed) *computepb.Firewall {
		network := s.cfg.Network
		if !strings.Contains(network, "/") {
			network = "projects/" + s.cfg.ProjectID + "/global/networks/" + network
		}
		return &computepb.Firewall{
			Name: &name, Network: &network, Description: proto.String(tagOf(pooltag.Of(pool, time.Now())).String()),
			Direction: proto.String("INGRESS"), TargetTags: []string{nodes}, Allowed: []*computepb.Allowed{allowed},
		}
	}
	ssh := rule("gputrain-ssh-"+pool.ID, &computepb.Allowed{IPProtocol: proto.String("tcp"), Ports: []string{strconv.Itoa(s.cfg.SSHPort)}})
	ssh.SourceRanges = s.cfg.SourceRanges
	within := rule("gputrain-in-"+pool.ID, &computepb.Allowed{IPProtocol: proto.String("all")})
	within.SourceTags = []string{nodes}
	return []*computepb.Firewall{ssh, within}
}

// prepare makes the pool's firewall rules.
func (s *sharedThings) prepare(ctx context.Context, pool driver.PoolInfo) error {
	if err := checkPool(pool.ID); err != nil {
		return err
	}
	if err := checkTags(pool.Tags); err != nil {
		return err
	}
	if s.cfg.NoFirewall {
		return nil
	}
	for _, rule := range s.rules(pool) {
		if err := s.makeRule(ctx, pool, rule); err != nil {
			return fmt.Errorf("firewall rule %s: %w", rule.GetName(), err)
		}
	}
	return nil
}

// makeRule makes a rule unless it exists. A rule's name is its ID: it is recorded once, before
// the rule is made.
func (s *sharedThings) makeRule(ctx context.Context, pool driver.PoolInfo, rule *computepb.Firewall) error {
	name := rule.GetName()
	there, err := s.api.firewall(ctx, name)
	if err != nil && !isGone(err) {
		return err
	}
	if err == nil {
		return ourRule(there, pool.ID)
	}
	if err := pool.Record(driver.Resource{Kind: kindFirewall, ID: name, Name: name, HourlyUSD: driver.USD(0)}); err != nil {
		return err
	}
	op, err := s.api.insertFirewall(ctx, rule)
	if err == nil {
		err = s.api.await(ctx, op)
	}
	if err == nil || ctx.Err() != nil || !exists(err) && !isOpen(err) {
		return err
	}
	// Only the rule's existence counts, as an answer can be lost. If the rule is missing, the
	// call may still take effect.
	there, getErr := s.api.firewall(ctx, name)
	switch {
	case getErr == nil:
		return ourRule(there, pool.ID)
	case isGone(getErr):
		getErr = errors.New("and it does not exist, or not yet")
	}
	return &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("%w; %w", err, getErr), Hint: "prepare it again: a rule that exists by then is kept"}
}

func ourRule(rule *computepb.Firewall, poolID string) error {
	if t, ok := parseTag(rule.GetDescription()); !ok || t.Pool != poolID {
		return fmt.Errorf("%w: it exists already and is not this pool's", driver.ErrInvalid)
	}
	return nil
}

// list lists rules, and disks that outlived their machines.
func (s *sharedThings) list(ctx context.Context, poolID string) ([]driver.Resource, error) {
	var rules []*computepb.Firewall
	var err error
	if !s.cfg.NoFirewall { // the credentials may not be allowed to list other people's
		if rules, err = s.api.listFirewalls(ctx); err != nil {
			return nil, err
		}
	}
	var found []driver.Resource
	for _, rule := range rules {
		t, ok := parseTag(rule.GetDescription())
		if ok && strings.HasPrefix(rule.GetName(), "gputrain-") && strings.HasSuffix(rule.GetName(), "-"+t.Pool) && (poolID == "" || t.Pool == poolID) {
			found = append(found, t.resource(kindFirewall, rule.GetName(), rule.GetName(), ""))
		}
	}
	scopes, err := s.api.listDisks(ctx, poolID)
	if err != nil {
		return nil, err
	}
	for _, in := range scopes {
		for _, disk := range in.items {
			t := fromLabels(disk.GetLabels())
			if len(disk.GetUsers()) > 0 || disk.GetStatus() == "DELETING" || !zoneForm.MatchString(in.name) || t.Pool == "" || poolID != "" && t.Pool != poolID {
				continue
			}
			r := t.Resource(providerName, kindVolume, instanceID(in.name, disk.GetName()))
			r.Name, r.Region, r.Created = disk.GetName(), in.name, created(disk.GetCreationTimestamp())
			found = append(found, r)
		}
	}
	return found, nil
}

// created parses a time of the API.
func created(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// release removes the pool's rules, and the disks that its machines have left behind.
func (s *sharedThings) release(ctx context.Context, pool driver.PoolInfo) error {
	if err := checkPool(pool.ID); err != nil {
		return err
	}
	held, err := s.list(ctx, pool.ID)
	errs := []error{err}
	for _, made := range pool.Made {
		if made.Kind == kindFirewall && !slices.ContainsFunc(held, func(r driver.Resource) bool { return r.Kind == made.Kind && r.Name == made.Name }) {
			made.ID = made.Name
			held = append(held, made)
		}
	}
	for _, r := range held {
		if err := s.remove(ctx, r, pool.ID); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", r.Kind, r.ID, err))
		}
	}
	return errors.Join(errs...)
}

// remove removes a rule or a disk, and waits until it is gone.
func (s *sharedThings) remove(ctx context.Context, r driver.Resource, poolID string) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	var op *computepb.Operation
	var err error
	switch r.Kind {
	case kindFirewall:
		var rule *computepb.Firewall
		if rule, err = s.api.firewall(ctx, r.ID); err == nil {
			if ourRule(rule, poolID) != nil {
				return nil // another user's, under a name that was recorded and never made
			}
			op, err = s.api.deleteFirewall(ctx, r.ID)
		}
	case kindVolume:
		zone, name, _ := parseID(r.ID)
		op, err = s.api.deleteDisk(ctx, zone, name)
	}
	if err == nil {
		err = s.api.await(ctx, op)
	}
	if isGone(err) {
		return nil
	}
	return err
}
