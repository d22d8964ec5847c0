package cloudtest

import (
	"errors"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
)

// UsersKey launches while the account already has the pool's key, under a name of the user's.
// used returns the names of the launches' keys. None of the operations that add and remove keys
// may be called.
func UsersKey(t *testing.T, api *fakecloud.Server, p driver.Provider, spec driver.Query, name string, used func() []string, changes ...string) {
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

// NoKey launches in a pool that was not prepared. Nothing may be rented, as no login would be
// possible without the key.
func NoKey(t *testing.T, api *fakecloud.Server, p driver.Provider, spec driver.Query, launch string) {
	t.Helper()
	_, err := Launch(t, Open(t, p), spec, 0)
	if !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("without the key: %v", err)
	}
	if n := len(api.Records(launch)); n != 0 {
		t.Errorf("%d launches", n)
	}
}
