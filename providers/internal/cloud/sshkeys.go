package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// Keys are the SSH keys of a cloud's account. The pool's key has a name of its own among them;
// no other key is ever removed.
type Keys struct {
	// List returns all keys. An incomplete answer must be an error.
	List func(ctx context.Context) ([]Key, error)
	// Add registers a key. Its answer does not count: List decides whether the key is there.
	Add func(ctx context.Context, name, line string) error
	// Delete removes a key.
	Delete func(ctx context.Context, id string) error
	// Name returns the name under which a pool's key is registered, and Pool reads it. Nil
	// means [pooltag.SharedName] and [pooltag.PoolOf].
	Name func(poolID string) string
	Pool func(name string) (poolID string, ok bool)
	// Gone reports whether an error of Delete means that there is no such key. If it is nil,
	// the status 404 means that.
	Gone func(err error) bool
}

// A Key is a key of an account.
type Key struct {
	ID, Name string
	Line     string // in authorized_keys form; comments are ignored
	// Tag has the other facts that the key records of its pool, if the cloud has room for
	// them.
	Tag pooltag.Tag
}

// Find returns the pool's key. It returns the user's instead if the user has registered that
// very key, as clouds refuse duplicates. It returns nil if there is neither.
func (k Keys) Find(ctx context.Context, pool driver.PoolInfo) (*Key, error) {
	all, err := k.List(ctx)
	if err != nil {
		return nil, err
	}
	var found *Key
	for _, key := range all {
		if pooltag.PublicKey(key.Line) != pooltag.PublicKey(pool.AuthorizedKey) {
			continue
		}
		if found == nil || key.Name == k.name(pool.ID) {
			found = &key
		}
	}
	return found, nil
}

// Named returns the key that a launch must name. If it is missing, no login would be possible,
// and the error is [driver.ErrInvalid].
func (k Keys) Named(ctx context.Context, pool driver.PoolInfo) (Key, error) {
	found, err := k.Find(ctx, pool)
	if err == nil && found == nil {
		err = &driver.Error{Kind: driver.ErrInvalid, Err: errors.New("the account does not have the pool's SSH key"),
			Hint: "it was removed from the account's keys; open another pool"}
	}
	if err != nil {
		return Key{}, err
	}
	return *found, nil
}

// Prepare registers the pool's key, unless it is there, and returns it.
func (k Keys) Prepare(ctx context.Context, pool driver.PoolInfo) (Key, error) {
	there, err := k.Find(ctx, pool)
	if err != nil {
		return Key{}, err
	}
	r := driver.Resource{Kind: "key", Name: k.name(pool.ID), HourlyUSD: driver.USD(0)}
	added := there == nil
	if added {
		if err := pool.Record(r); err != nil {
			return Key{}, err
		}
		// Only the list proves that the key exists: the answer may be lost, or call a key a
		// duplicate that another attempt has made.
		addErr := k.Add(ctx, r.Name, pooltag.PublicKey(pool.AuthorizedKey))
		if there, err = k.Find(ctx, pool); err != nil {
			return Key{}, errors.Join(addErr, err)
		}
		if there == nil {
			return Key{}, cmp.Or(addErr, errors.New("the cloud has accepted the pool's SSH key but does not list it"))
		}
	}
	if there.Name != r.Name && !(added && there.Name == "") {
		return *there, nil // it was there before, so it is the user's
	}
	r.ID = there.ID
	return *there, pool.Record(r)
}

// Release removes the pool's key.
func (k Keys) Release(ctx context.Context, pool driver.PoolInfo) error {
	all, err := k.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range all {
		recorded := slices.ContainsFunc(pool.Made, func(r driver.Resource) bool {
			return r.Kind == "key" && r.ID == key.ID && (r.Name == key.Name || key.Name == "") // the create's answer with the name may be lost
		})
		if key.Name != k.name(pool.ID) && !recorded {
			continue
		}
		if err := k.Delete(ctx, key.ID); err != nil && !k.gone(err) {
			errs = append(errs, fmt.Errorf("SSH key %s: %w", key.ID, err))
		}
	}
	return errors.Join(errs...)
}

// Resources returns the keys of a pool, or of all pools.
func (k Keys) Resources(ctx context.Context, poolID string) ([]driver.Resource, error) {
	all, err := k.List(ctx)
	if err != nil {
		return nil, err
	}
	var resources []driver.Resource
	for _, key := range all {
		if pool, ok := k.pool(key.Name); ok && (poolID == "" || pool == poolID) {
			r := key.Tag.Resource("", "key", key.ID)
			r.Name, r.Pool, r.HourlyUSD = key.Name, pool, driver.USD(0)
			resources = append(resources, r)
		}
	}
	return resources, nil
}

// OnlyKeys is the part of an [API] for clouds where a pool's machines share nothing but the
// pool's key.
type OnlyKeys struct{ Keys Keys }

// Prepare registers the pool's key.
func (o OnlyKeys) Prepare(ctx context.Context, pool driver.PoolInfo) error {
	_, err := o.Keys.Prepare(ctx, pool)
	return err
}

// Release removes the pool's key.
func (o OnlyKeys) Release(ctx context.Context, pool driver.PoolInfo) error {
	return o.Keys.Release(ctx, pool)
}

// Shared returns the pools' keys.
func (o OnlyKeys) Shared(ctx context.Context, poolID string) ([]driver.Resource, error) {
	return o.Keys.Resources(ctx, poolID)
}

func (k Keys) name(poolID string) string {
	if k.Name != nil {
		return k.Name(poolID)
	}
	return pooltag.SharedName(poolID)
}

func (k Keys) pool(name string) (string, bool) {
	if k.Pool != nil {
		return k.Pool(name)
	}
	return pooltag.PoolOf(name)
}

func (k Keys) gone(err error) bool {
	err = lastOf(err)
	if k.Gone != nil {
		return k.Gone(err)
	}
	return StatusKind(err) == driver.ErrNotFound
}
