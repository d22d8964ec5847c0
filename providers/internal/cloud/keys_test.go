package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const otherKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOtherOtherOtherOtherOtherOtherOtherOthe"

var errNoKey = errors.New("no such key")

// keyring holds an account's keys.
type keyring struct {
	all     []cloud.Key
	made    int
	listErr error
	addErr  error // returned although the key is added
	endErr  error
	lose    bool // added keys are lost
}

func (r *keyring) keys() cloud.Keys {
	return cloud.Keys{
		List: func(context.Context) ([]cloud.Key, error) { return slices.Clone(r.all), r.listErr },
		Add: func(_ context.Context, name, line string) error {
			if r.made++; !r.lose {
				r.all = append(r.all, cloud.Key{ID: fmt.Sprint("new", r.made), Name: name, Line: line + " added"})
			}
			return r.addErr
		},
		Delete: func(_ context.Context, id string) error {
			at := slices.IndexFunc(r.all, func(k cloud.Key) bool { return k.ID == id })
			if at < 0 {
				return errNoKey
			}
			if r.endErr == nil {
				r.all = slices.Delete(r.all, at, at+1)
			}
			return r.endErr
		},
		Gone: func(err error) bool { return errors.Is(err, errNoKey) },
	}
}

// recorded returns a pool that appends its records to all.
func recorded(pool driver.PoolInfo, all *[]driver.Resource) driver.PoolInfo {
	return pool.WithRecord(func(r driver.Resource) error {
		*all = append(*all, r)
		return nil
	})
}

func TestKeysArePreparedAndReleased(t *testing.T) {
	ring := &keyring{all: []cloud.Key{{ID: "2", Name: "gputrain-p2", Line: otherKey}, {ID: "3", Name: "laptop", Line: otherKey}}}
	var made []driver.Resource
	pool := recorded(cloudtest.Info("p1"), &made)
	for range 2 {
		key, err := ring.keys().Prepare(t.Context(), pool)
		if err != nil || key.ID != "new1" || key.Name != "gputrain-p1" || ring.made != 1 {
			t.Fatalf("%+v, %v; %d made", key, err, ring.made)
		}
	}
	if len(made) < 2 || made[0].ID != "" || made[0].Name != "gputrain-p1" || made[1].ID != "new1" || made[1].Kind != "key" {
		t.Errorf("recorded: %+v", made)
	}
	found, err := ring.keys().Resources(t.Context(), "p1")
	if err != nil || len(found) != 1 || found[0].ID != "new1" || found[0].Pool != "p1" {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := ring.keys().Resources(t.Context(), ""); err != nil || len(found) != 2 {
		t.Errorf("of all pools: %+v, %v", found, err)
	}
	for range 2 {
		if err := ring.keys().Release(t.Context(), pool); err != nil {
			t.Error(err)
		}
	}
	if len(ring.all) != 2 || ring.all[0].ID != "2" || ring.all[1].ID != "3" {
		t.Errorf("left: %+v", ring.all)
	}
}

// A key that lost its name is found by its recorded ID. A key with a tag is listed with
// the tag's fields.
func TestKeyWithoutItsName(t *testing.T) {
	ring := &keyring{}
	keys := ring.keys()
	keys.Add = func(_ context.Context, _, line string) error {
		ring.all = append(ring.all, cloud.Key{ID: "bare", Line: line})
		return nil
	}
	var made []driver.Resource
	pool := recorded(cloudtest.Info("p1"), &made)
	if _, err := keys.Prepare(t.Context(), pool); err != nil || len(made) != 2 || made[1].ID != "bare" {
		t.Fatalf("recorded: %+v, %v", made, err)
	}
	ring.all = append(ring.all, cloud.Key{ID: "other", Line: otherKey})
	pool.Made = made
	if err := keys.Release(t.Context(), pool); err != nil || len(ring.all) != 1 || ring.all[0].ID != "other" {
		t.Errorf("left: %+v, %v", ring.all, err)
	}
	at := time.Unix(1790000000, 0)
	ring.all = []cloud.Key{{ID: "1", Name: "gputrain-p1", Tag: pooltag.Tag{Pool: "p1", Owner: "me", Created: at}}}
	found, err := keys.Resources(t.Context(), "p1")
	if err != nil || len(found) != 1 || found[0].Name != "gputrain-p1" || found[0].Owner != "me" || found[0].Created != at || found[0].HourlyUSD != driver.USD(0) {
		t.Errorf("%+v, %v", found, err)
	}
}

// A key that the user registered under another name is used, and is not removed.
func TestKeyOfTheUserStays(t *testing.T) {
	ring := &keyring{all: []cloud.Key{{ID: "7", Name: "laptop", Line: cloudtest.PoolKey + " me@home"}}}
	var made []driver.Resource
	pool := recorded(cloudtest.Info("p1"), &made)
	key, err := ring.keys().Prepare(t.Context(), pool)
	if err != nil || key.ID != "7" || ring.made != 0 || len(made) != 0 {
		t.Errorf("%+v, %v; %d made, %v recorded", key, err, ring.made, made)
	}
	pool.Made = []driver.Resource{{Kind: "key", ID: "7", Name: "gputrain-p1"}} // recorded in another account, where the pool's key had this ID
	if err := ring.keys().Release(t.Context(), pool); err != nil || len(ring.all) != 1 {
		t.Errorf("%v; left: %v", err, ring.all)
	}
}

func TestKeysWhereAnswersFail(t *testing.T) {
	pool := cloudtest.Info("p1")
	odd := errors.New("odd")

	ring := &keyring{addErr: odd}
	if key, err := ring.keys().Prepare(t.Context(), pool); err != nil || key.ID != "new1" {
		t.Errorf("the answer is lost, and the key is there: %+v, %v", key, err)
	}
	ring = &keyring{addErr: odd, lose: true}
	if _, err := ring.keys().Prepare(t.Context(), pool); !errors.Is(err, odd) {
		t.Errorf("refused: %v", err)
	}
	ring = &keyring{lose: true}
	if _, err := ring.keys().Prepare(t.Context(), pool); err == nil {
		t.Error("accepted and not listed, without an error")
	}
	full := errors.New("the ledger's disk is full")
	if _, err := ring.keys().Prepare(t.Context(), pool.WithRecord(func(driver.Resource) error { return full })); !errors.Is(err, full) || ring.made != 1 {
		t.Errorf("made without a record: %v, %d made", err, ring.made)
	}
	ring = &keyring{listErr: odd}
	for name, err := range map[string]error{
		"prepare": second(ring.keys().Prepare(t.Context(), pool)), "resources": second(ring.keys().Resources(t.Context(), "")),
		"release": ring.keys().Release(t.Context(), pool),
	} {
		if !errors.Is(err, odd) || ring.made != 0 {
			t.Errorf("%s, if the list fails: %v, %d made", name, err, ring.made)
		}
	}
	ring = &keyring{all: []cloud.Key{{ID: "1", Name: "gputrain-p1"}}, endErr: odd}
	if err := ring.keys().Release(t.Context(), pool); !errors.Is(err, odd) {
		t.Errorf("release: %v", err)
	}
	ring.endErr = errNoKey
	if err := ring.keys().Release(t.Context(), pool); err != nil {
		t.Errorf("release of what is gone: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
