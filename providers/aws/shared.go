package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// The kinds of things that a pool holds.
const (
	kindMachine   = "machine"
	kindGroup     = "security-group"
	kindKey       = "key"
	kindPlacement = "placement-group"
	kindTemplate  = "launch-template"
	kindVolume    = "volume"
	kindProfile   = "instance-profile"
	kindSnapshot  = "snapshot"
)

// listsAtOnce bounds the kinds of things that are listed at the same time.
const listsAtOnce = 4

// releaseTimeout bounds how long a removal is repeated while a thing is in use, mostly by the
// network interfaces of machines that are shutting down.
func releaseTimeout() time.Duration { return 90 * second }

// A sharedKind is one kind of thing that a pool holds beside its machines.
type sharedKind struct {
	name           string
	usedByMachines bool // a machine that could not be ended may still need it
	namesSuffice   bool // a record without an ID may name an existing thing
	list           lister
	delete         func(ctx context.Context, r driver.Resource) error
}

// A lister lists one kind of thing, of a pool or of all.
type lister func(ctx context.Context, poolID string) ([]driver.Resource, error)

// listOf lists several kinds of things.
func listOf(ctx context.Context, poolID string, listers []lister) ([]driver.Resource, error) {
	var mu sync.Mutex
	all := []driver.Resource{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(listsAtOnce)
	for _, list := range listers {
		g.Go(func() error {
			some, err := list(ctx, poolID)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, some...)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// An ignored filter must not make other users' things a pool's.
	all = slices.DeleteFunc(all, func(r driver.Resource) bool { return r.Pool == "" || poolID != "" && r.Pool != poolID })
	return all, nil
}

// release removes what a pool holds beside machines.
func release(ctx context.Context, pool driver.PoolInfo, kinds []sharedKind) error {
	held, err := listOf(ctx, pool.ID, cloud.Each(kinds, func(k sharedKind) lister { return k.list }))
	if err != nil {
		return err
	}
	var errs []error
	for _, kind := range kinds {
		if kind.usedByMachines && len(pool.Remaining) > 0 {
			continue
		}
		for _, r := range kind.heldBy(pool, held) {
			if err := kind.remove(ctx, r); err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", r.Kind, r.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// heldBy returns the things of a kind that a pool holds: those listed, and those that the
// pool's records name and that lists may still lack.
func (k sharedKind) heldBy(pool driver.PoolInfo, listed []driver.Resource) []driver.Resource {
	held := slices.DeleteFunc(slices.Clone(listed), func(r driver.Resource) bool { return r.Kind != k.name })
	for _, made := range pool.Made {
		if made.Kind != k.name || made.ID == "" && !k.namesSuffice {
			continue
		}
		if !slices.ContainsFunc(held, func(r driver.Resource) bool { return r.ID == made.ID || k.namesSuffice && r.Name == made.Name }) {
			held = append(held, made)
		}
	}
	return held
}

// remove removes a thing as soon as nothing uses it.
func (k sharedKind) remove(ctx context.Context, r driver.Resource) error {
	for until := time.Now().Add(releaseTimeout()); ; {
		asked := time.Now()
		err := k.delete(ctx, r)
		switch {
		case err == nil, isGone(err):
			return nil
		case !isCode(err, "DependencyViolation", "InvalidPlacementGroup.InUse", "DeleteConflict", "VolumeInUse"), asked.After(until), !retry.Sleep(ctx, 3*second):
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// A namedThing is shared by a pool, which has at most one of it, under the pool's name.
type namedThing struct {
	kind, region string
	// find returns its ID and its pool, or "" if lists do not have it.
	find   func() (id, owner string, err error)
	create func() error
}

// prepare makes the thing once and records it. Only the list proves that it exists: the
// create's answer may be lost, or call the thing a duplicate of what another attempt has made.
func (t namedThing) prepare(ctx context.Context, pool driver.PoolInfo) error {
	id, owner, err := t.find()
	if err != nil {
		return err
	}
	r := driver.Resource{Kind: t.kind, Name: pooltag.SharedName(pool.ID), Region: t.region, HourlyUSD: driver.USD(0)}
	if id == "" {
		if err := pool.Record(r); err != nil {
			return err
		}
		if id, owner, err = t.awaitListed(ctx, r.Name, t.create()); err != nil {
			return err
		}
	}
	if owner != pool.ID {
		return fmt.Errorf("%w: the %s %s is not the pool's", driver.ErrInvalid, t.kind, r.Name)
	}
	r.ID = id
	return pool.Record(r)
}

// awaitListed waits until lists have the thing, for at most the list lag. It does not wait for
// a refused create.
func (t namedThing) awaitListed(ctx context.Context, name string, createErr error) (id, owner string, err error) {
	for until := time.Now().Add(listLag()); ; {
		asked := time.Now()
		if id, owner, err = t.find(); err != nil {
			return "", "", cmp.Or(createErr, err)
		}
		switch {
		case id != "":
			return id, owner, nil
		case createErr != nil && (asked.After(until) || !isAmbiguous(createErr) && !isDuplicate(createErr)):
			return "", "", createErr
		case asked.After(until):
			return "", "", &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("AWS has made the %s %s but does not list it", t.kind, name)}
		case !retry.Sleep(ctx, second/2):
			return "", "", context.Cause(ctx)
		}
	}
}

func isDuplicate(err error) bool {
	code, _ := codeOf(err)
	return strings.HasSuffix(code, ".Duplicate") || code == "EntityAlreadyExists"
}

// onceKnown makes a call about a thing that was made just now. Parts of EC2 may not know it
// for some seconds and refuse the call with the code. Such a call had no effect and is
// repeated.
func onceKnown(ctx context.Context, code string, call func() error) error {
	for until := time.Now().Add(listLag()); ; {
		asked := time.Now()
		err := call()
		if !isCode(err, code) || asked.After(until) || !retry.Sleep(ctx, second) {
			return err
		}
	}
}

// freeResource describes a thing that costs nothing.
func freeResource(region string, tags []types.Tag, kind, id, name string, created *time.Time) driver.Resource {
	r := tagList(tags).resource(kind, id, name, region)
	r.HourlyUSD, r.Created = driver.USD(0), sdk.ToTime(created)
	return r
}
