package hyperstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// A site has the things that a pool's machines in one region share.
type site struct {
	environment environment
	key         string // the name of the pool's key pair in the environment
	subnet      string
	images      []image
}

// environmentName returns the name of a pool's environment in a region, and of its key pair.
func environmentName(poolID, region string) string {
	return pooltag.SharedName(poolID) + "-" + strings.ToLower(region)
}

// poolOf reads the name of an environment.
func poolOf(e environment) (poolID string, ok bool) {
	name, ok := strings.CutSuffix(e.Name, "-"+strings.ToLower(e.Region))
	if !ok || e.Region == "" {
		return "", false
	}
	return pooltag.PoolOf(name)
}

// site returns the pool's site in a region. If there is none, it makes one; nodes that are
// created at the same time wait for the first.
func (p *provider) site(ctx context.Context, pool driver.PoolInfo, region string) (site, error) {
	select {
	case p.making <- struct{}{}:
		defer func() { <-p.making }()
	case <-ctx.Done():
		return site{}, context.Cause(ctx)
	}
	name := environmentName(pool.ID, region)
	if len(name) > maxName {
		return site{}, fmt.Errorf("%w: the name %s is longer than %d characters", driver.ErrInvalid, name, maxName)
	}
	s, made := p.sites[name]
	if made && s.subnet != "" {
		return s, nil
	}
	if err := p.make(ctx, &s, pool, name, region); err != nil {
		return site{}, err
	}
	p.sites[name] = s
	return s, nil
}

// make completes a site.
func (p *provider) make(ctx context.Context, s *site, pool driver.PoolInfo, name, region string) (err error) {
	if s.images == nil { // this checks the region before anything is made
		if s.images, err = p.api.images(ctx, region); err != nil {
			return err
		}
	}
	if s.environment.ID == 0 {
		if s.environment, err = p.environment(ctx, pool, name, region); err != nil {
			return err
		}
	}
	if p.cfg.NetworkOptimised && !s.environment.Features.NetworkOptimised {
		return &driver.Error{Kind: driver.ErrUnsupported, Err: fmt.Errorf("environment %s has no optimised network", name),
			Hint: "leave " + region + " out of NetworkOptimisedRegions"}
	}
	if s.key == "" {
		key, err := p.keys(s.environment).Prepare(ctx, pool)
		if err != nil {
			return err
		}
		s.key = key.Name
	}
	s.subnet, err = p.api.subnet(ctx, s.environment.ID)
	return err
}

// environment returns the pool's environment of a name. It makes a missing one.
func (p *provider) environment(ctx context.Context, pool driver.PoolInfo, name, region string) (environment, error) {
	e, err := p.find(ctx, name)
	if err != nil {
		return e, err
	}
	r := driver.Resource{Kind: "environment", Name: name, Region: region, HourlyUSD: driver.USD(0)}
	if e.ID == 0 {
		if err := pool.Record(r); err != nil {
			return e, err
		}
		// Only the environment's existence counts: the answer may be lost, or call a duplicate
		// what another attempt has made.
		makeErr := p.api.createEnvironment(ctx, name, region)
		if e, err = p.find(ctx, name); err != nil {
			return e, errors.Join(makeErr, err)
		}
		if e.ID == 0 {
			return e, cmp.Or(makeErr, fmt.Errorf("environment %s was made but is not listed", name))
		}
	}
	r.ID = strconv.Itoa(e.ID)
	return e, pool.Record(r)
}

func (p *provider) find(ctx context.Context, name string) (environment, error) {
	all, err := p.api.environments(ctx, name)
	for _, e := range all {
		if e.Name == name {
			return e, nil
		}
	}
	return environment{}, err
}

// keys returns the key pairs of an environment. The pool's has its name.
func (p *provider) keys(e environment) cloud.Keys {
	return cloud.Keys{
		List: func(ctx context.Context) (all []cloud.Key, err error) {
			pairs, err := p.api.keypairs(ctx)
			for _, k := range pairs {
				if k.Environment.ID == e.ID {
					all = append(all, cloud.Key{ID: strconv.Itoa(k.ID), Name: k.Name, Line: k.PublicKey})
				}
			}
			return all, err
		},
		Add:  func(ctx context.Context, name, line string) error { return p.api.addKeypair(ctx, e.Name, name, line) },
		Name: func(string) string { return e.Name },
	}
}

// Shared returns environments and key pairs by their names.
func (p *provider) Shared(ctx context.Context, poolID string) ([]driver.Resource, error) {
	environments, err := p.api.environments(ctx, pooltag.Prefix)
	if err != nil {
		return nil, err
	}
	pairs, err := p.api.keypairs(ctx)
	if err != nil {
		return nil, err
	}
	var all []driver.Resource
	add := func(kind string, id int, e environment) {
		if pool, ours := poolOf(e); ours && (poolID == "" || pool == poolID) {
			all = append(all, driver.Resource{Kind: kind, ID: strconv.Itoa(id), Name: e.Name, Region: e.Region, Pool: pool, HourlyUSD: driver.USD(0)})
		}
	}
	for _, e := range environments {
		add("environment", e.ID, e)
	}
	for _, k := range pairs {
		if k.Name == k.Environment.Name {
			add("key", k.ID, k.Environment)
		}
	}
	unfinished, err := p.bakery().Unfinished(ctx, poolID)
	if poolID == "" && errors.Is(err, driver.ErrAuth) {
		err = nil // a key that may not list snapshots has made none
	}
	return append(all, unfinished...), err
}

// Release removes the pool's images that are not finished, and its environments, which is refused while they have machines, even ones
// that are being deleted. Their key pairs end with them, or are removed.
func (p *provider) Release(ctx context.Context, pool driver.PoolInfo) error {
	errs := []error{p.bakery().DeleteUnfinished(ctx, pool.ID)}
	all, err := p.Shared(ctx, pool.ID)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Kind == "environment" {
			errs = append(errs, p.removeEnvironment(ctx, r, len(pool.Remaining) == 0))
		}
	}
	if err := errors.Join(errs...); err != nil || len(all) == 0 {
		return err
	}
	if all, err = p.Shared(ctx, pool.ID); err != nil {
		return err
	}
	for _, r := range all {
		if r.Kind != "key" {
			continue
		}
		if err := p.api.deleteKeypair(ctx, r.ID); err != nil && !isGone(err) {
			errs = append(errs, fmt.Errorf("key pair %s: %w", r.ID, err))
		}
	}
	return errors.Join(errs...)
}

// removeEnvironment removes an environment. If wait is set, it waits for machines that are
// being deleted.
func (p *provider) removeEnvironment(ctx context.Context, r driver.Resource, wait bool) error {
	id, err := strconv.Atoi(r.ID)
	if err != nil {
		return err
	}
	for until := time.Now().Add(p.cfg.TeardownTimeout); ; {
		err := p.api.deleteEnvironment(ctx, id)
		switch {
		case err == nil, isGone(err):
			p.making <- struct{}{}
			delete(p.sites, r.Name)
			<-p.making
			return nil
		case !isInUse(err):
			return fmt.Errorf("environment %s (%s): %w", r.Name, r.ID, err)
		case !wait, time.Now().After(until), !retry.Sleep(ctx, p.cfg.TeardownPollInterval):
			return &driver.Error{Kind: driver.ErrUnavailable, Err: errors.Join(context.Cause(ctx), fmt.Errorf("environment %s (%s): %w", r.Name, r.ID, err)),
				Hint: "it still has machines; gputrain.Reap removes it once they are gone"}
		}
	}
}
