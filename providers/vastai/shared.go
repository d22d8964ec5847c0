package vastai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
)

// Prepare registers the pool's SSH key with the account: the API puts it into all
// containers that are made from then on. Its comment is the pool's tag, by which List and
// Release tell it from the user's own keys.
func (d *driver) Prepare(ctx context.Context, pool gputrain.PoolInfo) error {
	return fail("prepare", d.prepare(ctx, pool))
}

func (d *driver) prepare(ctx context.Context, pool gputrain.PoolInfo) error {
	if err := checkPool(pool.ID); err != nil {
		return err
	}
	fields := strings.Fields(pool.AuthorizedKey)
	if len(fields) < 2 || strings.ContainsAny(strings.TrimSpace(pool.AuthorizedKey), "\n\r\x00") {
		return fmt.Errorf("%w: the pool's public key is not one line in authorized_keys form", gputrain.ErrInvalid)
	}
	key := fields[0] + " " + fields[1]
	there, err := d.findKey(ctx, key)
	if err != nil {
		return err
	}
	r := gputrain.Resource{Kind: "key", Name: keyName(pool.ID), HourlyUSD: gputrain.USD(0)}
	made := there == nil
	if made {
		if err := pool.Record(r); err != nil {
			return err
		}
		// What the answer says does not settle it: it may be lost, or call a key a
		// duplicate that another attempt has made. Whether the key is there decides.
		addErr := d.api.addKey(ctx, key+" "+tagOf(pool, time.Now()).String())
		if there, err = d.findKey(ctx, key); err != nil {
			return errors.Join(addErr, err)
		}
		if there == nil {
			return cmp.Or(addErr, errors.New("the API has taken the pool's SSH key, and does not list it"))
		}
	}
	if t, ok := keyTag(*there); !made && (!ok || t.pool != pool.ID) {
		return nil // it was there before: it is the user's
	}
	r.ID = strconv.FormatInt(there.ID, 10)
	return pool.Record(r)
}

func keyName(poolID string) string { return "gputrain-" + poolID }

// findKey returns the account's key of that type and body, or nil. Comments do not count.
func (d *driver) findKey(ctx context.Context, key string) (*sshKey, error) {
	keys, err := d.api.keys(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if fields := strings.Fields(k.text()); len(fields) >= 2 && fields[0]+" "+fields[1] == key {
			return &k, nil
		}
	}
	return nil, nil
}

func (k sshKey) text() string { return cmp.Or(k.PublicKey, k.Key) }

// keyTag reads the comment of a key.
func keyTag(k sshKey) (tag, bool) {
	fields := strings.Fields(k.text())
	if len(fields) < 3 {
		return tag{}, false
	}
	return parseTag(fields[2])
}

// listShared reports what is not machines.
func (d *driver) listShared(ctx context.Context, poolID string) ([]gputrain.Resource, error) {
	keys, err := d.api.keys(ctx)
	if err != nil {
		return nil, err
	}
	var resources []gputrain.Resource
	for _, k := range keys {
		if t, ok := keyTag(k); ok && (poolID == "" || t.pool == poolID) {
			r := t.resource("key", strconv.FormatInt(k.ID, 10))
			r.Name = keyName(t.pool)
			resources = append(resources, r)
		}
	}
	if poolID != "" && !d.mayHaveNetwork(poolID) {
		return resources, nil
	}
	networks, err := d.api.overlays(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range networks {
		pool, ours := strings.CutPrefix(o.Name, networkPrefix)
		if ours && poolName.MatchString(pool) && (poolID == "" || pool == poolID) {
			d.hasNetwork(pool)
			resources = append(resources, gputrain.Resource{
				Provider: providerName, Kind: "network", ID: strconv.FormatInt(o.ID, 10), Name: o.Name, Pool: pool, HourlyUSD: gputrain.USD(0),
			})
		}
	}
	return resources, nil
}

// Release removes the pool's key, and its network where it has one.
func (d *driver) Release(ctx context.Context, pool gputrain.PoolInfo) error {
	if err := checkPool(pool.ID); err != nil {
		return fail("release", err)
	}
	made := func(kind, id string) bool {
		return slices.ContainsFunc(pool.Made, func(r gputrain.Resource) bool { return r.Kind == kind && (id == "" || r.ID == id) })
	}
	var errs []error
	keys, err := d.api.keys(ctx)
	errs = append(errs, err)
	for _, k := range keys {
		id := strconv.FormatInt(k.ID, 10)
		if t, ok := keyTag(k); !(ok && t.pool == pool.ID) && !made("key", id) {
			continue
		}
		if err := d.api.deleteKey(ctx, id); err != nil && !isGone(err) {
			errs = append(errs, fmt.Errorf("SSH key %s: %w", id, err))
		}
	}
	if d.mayHaveNetwork(pool.ID) || made("network", "") {
		errs = append(errs, d.removeNetwork(ctx, networkName(pool.ID)))
	}
	return fail("release", errors.Join(errs...))
}
