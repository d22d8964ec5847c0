package recovery

import (
	"errors"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/sim"
)

// ReapPool refuses a pool that is in use, that is not known, or that is another provider's, and ends nothing then.
func TestReapPoolRefuses(t *testing.T) {
	dir, provider := t.TempDir(), local.Config{Dir: t.TempDir()}
	state := gputrain.StateDir(dir)
	pool, err := gputrain.Open(t.Context(), provider, gputrain.Spec{}, gputrain.WithStateDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what, id string, kind error, from ...gputrain.Provider) {
		t.Helper()
		if ended, err := state.ReapPool(t.Context(), id, from...); !errors.Is(err, kind) || len(ended) > 0 {
			t.Errorf("%s: %v, %v", what, ended, err)
		}
	}
	refused("a living program's pool", pool.ID(), gputrain.ErrInUse, provider)
	if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
		t.Errorf("it works no more: %v", err)
	}
	id, err := pool.Detach()
	if err != nil {
		t.Fatal(err)
	}
	cloud := sim.New(sim.Options{})
	defer cloud.Close()
	refused("an unknown pool", "pool-none", gputrain.ErrNotFound, provider)
	refused("a malformed ID", "../pool", gputrain.ErrNotFound, provider)
	refused("no ID", "", gputrain.ErrNotFound, provider)
	refused("no provider", id, gputrain.ErrInvalid)
	refused("another provider's", id, gputrain.ErrInvalid, sim.Config{Cloud: cloud})
	if left, err := state.Pools(); len(left) != 1 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
	if ended, err := state.ReapPool(t.Context(), id, provider); len(ended) == 0 || err != nil {
		t.Errorf("%v, %v", ended, err)
	}
	if left, err := state.Pools(); len(left) != 0 || err != nil {
		t.Errorf("left are %v, %v", left, err)
	}
}
