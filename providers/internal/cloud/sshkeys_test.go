package cloud

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

const aKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICOA76qIYROc7PnGRwv6p8T1jyHKUymIN5JXz3yFMJoB"

// A key that is listed, but is gone when it is to be removed, counts as removed.
func TestKeyThatIsGoneIsReleased(t *testing.T) {
	keys := Keys{
		List: func(context.Context) ([]Key, error) {
			return []Key{{ID: "7", Name: "gputrain-gone", Line: aKey}}, nil
		},
		Delete: func(context.Context, string) error { return &rest.Error{Status: 404} },
	}
	if err := keys.Release(t.Context(), driver.PoolInfo{ID: "gone"}); err != nil {
		t.Error(err)
	}
}

// A launch names the pool's key as the account does: it may be the user's own registration.
func TestKeyThatALaunchNames(t *testing.T) {
	all := []Key{{ID: "7", Name: "laptop", Line: aKey + " me@home"}}
	keys := Keys{List: func(context.Context) ([]Key, error) { return all, nil }}
	pool := driver.PoolInfo{ID: "p1", AuthorizedKey: aKey}
	if k, err := keys.Named(t.Context(), pool); err != nil || k.Name != "laptop" {
		t.Errorf("%+v, %v", k, err)
	}
	all = append(all, Key{ID: "8", Name: "gputrain-p1", Line: aKey})
	if k, err := keys.Named(t.Context(), pool); err != nil || k.ID != "8" {
		t.Errorf("%+v, %v", k, err)
	}
	all = nil
	if _, err := keys.Named(t.Context(), pool); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("without the key: %v", err)
	}
}

// With OnlyKeys, the pool's key is all that is shared. It comes and goes with the pool.
func TestNothingButKeysIsShared(t *testing.T) {
	all := []Key{{ID: "1", Name: "laptop", Line: "ssh-rsa AAAA"}}
	shared := OnlyKeys{Keys{
		List: func(context.Context) ([]Key, error) { return slices.Clone(all), nil },
		Add: func(_ context.Context, name, line string) error {
			all = append(all, Key{ID: "2", Name: name, Line: line})
			return nil
		},
		Delete: func(_ context.Context, id string) error {
			all = slices.DeleteFunc(all, func(k Key) bool { return k.ID == id })
			return nil
		},
	}}
	pool := driver.PoolInfo{ID: "p1", AuthorizedKey: aKey}
	if err := shared.Prepare(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if found, err := shared.Shared(t.Context(), "p1"); err != nil || len(found) != 1 || found[0].ID != "2" || found[0].Pool != "p1" {
		t.Errorf("%+v, %v", found, err)
	}
	if err := shared.Release(t.Context(), pool); err != nil || len(all) != 1 || all[0].ID != "1" {
		t.Errorf("%v; left: %+v", err, all)
	}
}
