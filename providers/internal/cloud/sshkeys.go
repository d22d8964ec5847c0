package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gputrain/gputrain"
)

// Keys are the SSH keys that a cloud's account has. The pool's is among them under a name
// of its own, by which it is told from all others: none but that is ever removed.
type Keys struct {
	// List returns all keys, whose answer must be whole.
	List func(ctx context.Context) ([]Key, error)
	// Add registers a key. Whatever it says, it is List that tells whether the key is there.
	Add func(ctx context.Context, name, line string) error
	// Delete removes a key.
	Delete func(ctx context.Context, id string) error
	// Name is the name under which the key of a pool is registered, and Pool reads it.
	// Nil means [SharedName] and [PoolOf].
	Name func(poolID string) string
	Pool func(name string) (poolID string, ok bool)
	// Gone is whether an error of Delete says that there is no such key. Nil goes by the
	// status 404.
	Gone func(err error) bool
}

// A Key is one that an account has.
type Key struct {
	ID, Name string
	Line     string // in authorized_keys form; comments do not count
}

// Find returns the pool's key, or where the user has registered that very key too, that:
// clouds refuse one that is there already. It is nil where there is neither.
func (k Keys) Find(ctx context.Context, pool gputrain.PoolInfo) (*Key, error) {
	all, err := k.List(ctx)
	if err != nil {
		return nil, err
	}
	var found *Key
	for _, key := range all {
		if publicKey(key.Line) != publicKey(pool.AuthorizedKey) {
			continue
		}
		if found == nil || key.Name == k.name(pool.ID) {
			found = &key
		}
	}
	return found, nil
}

// Named returns the key that a launch has to name. Without one nobody could log in: that is
// [gputrain.ErrInvalid].
func (k Keys) Named(ctx context.Context, pool gputrain.PoolInfo) (Key, error) {
	found, err := k.Find(ctx, pool)
	if err == nil && found == nil {
		err = &gputrain.Error{Kind: gputrain.ErrInvalid, Err: errors.New("the account does not have the pool's SSH key"),
			Hint: "somebody has removed it from the account's keys; open another pool"}
	}
	if err != nil {
		return Key{}, err
	}
	return *found, nil
}

// Prepare registers the pool's key, unless it is there, and returns it.
func (k Keys) Prepare(ctx context.Context, pool gputrain.PoolInfo) (Key, error) {
	there, err := k.Find(ctx, pool)
	if err != nil {
		return Key{}, err
	}
	r := gputrain.Resource{Kind: "key", Name: k.name(pool.ID), HourlyUSD: gputrain.USD(0)}
	if there == nil {
		if err := pool.Record(r); err != nil {
			return Key{}, err
		}
		// What the answer says does not settle it: it may be lost, or call a key a
		// duplicate that another attempt has made. Whether the key is there decides.
		addErr := k.Add(ctx, r.Name, publicKey(pool.AuthorizedKey))
		if there, err = k.Find(ctx, pool); err != nil {
			return Key{}, errors.Join(addErr, err)
		}
		if there == nil {
			return Key{}, cmp.Or(addErr, errors.New("the cloud has taken the pool's SSH key, and does not list it"))
		}
	}
	if there.Name != r.Name {
		return *there, nil // it was there before: it is the user's
	}
	r.ID = there.ID
	return *there, pool.Record(r)
}

// Release removes the pool's key.
func (k Keys) Release(ctx context.Context, pool gputrain.PoolInfo) error {
	all, err := k.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range all {
		recorded := slices.ContainsFunc(pool.Made, func(r gputrain.Resource) bool { return r.Kind == "key" && r.ID == key.ID && r.Name == key.Name })
		if key.Name != k.name(pool.ID) && !recorded {
			continue
		}
		if err := k.Delete(ctx, key.ID); err != nil && !k.gone(err) {
			errs = append(errs, fmt.Errorf("SSH key %s: %w", key.ID, err))
		}
	}
	return errors.Join(errs...)
}

// Resources are the keys of a pool, or of all pools.
func (k Keys) Resources(ctx context.Context, poolID string) ([]gputrain.Resource, error) {
	all, err := k.List(ctx)
	if err != nil {
		return nil, err
	}
	var resources []gputrain.Resource
	for _, key := range all {
		if pool, ok := k.pool(key.Name); ok && (poolID == "" || pool == poolID) {
			resources = append(resources, gputrain.Resource{Kind: "key", ID: key.ID, Name: key.Name, Pool: pool, HourlyUSD: gputrain.USD(0)})
		}
	}
	return resources, nil
}

// OnlyKeys is the part of an [API] that is the same wherever a pool's machines share nothing
// but the pool's key.
type OnlyKeys struct{ Keys Keys }

// Prepare registers the pool's key.
func (o OnlyKeys) Prepare(ctx context.Context, pool gputrain.PoolInfo) error {
	_, err := o.Keys.Prepare(ctx, pool)
	return err
}

// Release removes the pool's key.
func (o OnlyKeys) Release(ctx context.Context, pool gputrain.PoolInfo) error {
	return o.Keys.Release(ctx, pool)
}

// Shared returns the pools' keys.
func (o OnlyKeys) Shared(ctx context.Context, poolID string) ([]gputrain.Resource, error) {
	return o.Keys.Resources(ctx, poolID)
}

func (k Keys) name(poolID string) string {
	if k.Name != nil {
		return k.Name(poolID)
	}
	return SharedName(poolID)
}

func (k Keys) pool(name string) (string, bool) {
	if k.Pool != nil {
		return k.Pool(name)
	}
	return PoolOf(name)
}

func (k Keys) gone(err error) bool {
	err = lastOf(err)
	if k.Gone != nil {
		return k.Gone(err)
	}
	return StatusKind(err) == gputrain.ErrNotFound
}
