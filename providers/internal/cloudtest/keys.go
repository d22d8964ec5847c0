package cloudtest

import (
	"errors"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/fakecloud"
)

// UsersKey launches where the account has the pool's key already, under a name of the
// user's: used tells by which names launches have named their key. Of the operations that
// add and remove keys none may be called.
func UsersKey(t *testing.T, api *fakecloud.Server, p gputrain.Provider, spec gputrain.Spec, name string, used func() []string, changes ...string) {
	t.Helper()
	d := Prepared(t, p)
	MustLaunch(t, d, spec, 0)
	if got := used(); len(got) != 1 || got[0] != name {
		t.Errorf("launched with %q, want %q", got, name)
	}
	if err := d.Release(t.Context(), Info("p1")); err != nil || len(api.Records(changes...)) != 0 {
		t.Errorf("%v; keys were added or removed", err)
	}
}

// NoKey launches where nobody has prepared the pool: without its key nobody could log in,
// so nothing may be rented.
func NoKey(t *testing.T, api *fakecloud.Server, p gputrain.Provider, spec gputrain.Spec, launch string) {
	t.Helper()
	_, err := Launch(t, Open(t, p), spec, 0)
	if !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("without the key: %v", err)
	}
	if n := len(api.Records(launch)); n != 0 {
		t.Errorf("%d launches", n)
	}
}
