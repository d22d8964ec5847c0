package vastai

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

// Without a key Plan shows the public list. With a wrong key it says so. Nothing can be rented.
func TestPlanWithoutAKey(t *testing.T) {
	t.Setenv("VAST_API_KEY", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	f := startFake(t, nil)
	cfg := f.config()
	spec := gputrain.Spec{Accelerator: accelerators.RTX4090()}
	cfg.APIKey = ""
	plan, err := gputrain.Plan(t.Context(), cfg, spec)
	if err != nil || len(plan) == 0 || plan[0].Rejected != "" || !strings.Contains(strings.Join(plan[0].Warnings, "; "), "public price list: a credential is missing") {
		t.Errorf("%+v, %v", plan, err)
	}
	if pool, err := gputrain.Open(t.Context(), cfg, spec); !errors.Is(err, gputrain.ErrAuth) {
		pool.Close()
		t.Errorf("it can be rented: %v", err)
	}
	cfg.APIKey = "wrong"
	if plan, err := gputrain.Plan(t.Context(), cfg, spec); !errors.Is(err, gputrain.ErrAuth) {
		t.Errorf("with a wrong key: %+v, %v", plan, err)
	}
}
