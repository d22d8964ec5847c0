package tensordock

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

// Without a token Plan shows the public list. With a wrong one it says so.
func TestPlanWithoutAToken(t *testing.T) {
	t.Setenv("TENSORDOCK_API_TOKEN", "")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	f := startFake(t)
	cfg := f.config()
	spec := gputrain.Spec{Accelerator: accelerators.H100()}
	cfg.APIToken = ""
	plan, err := gputrain.Plan(t.Context(), cfg, spec)
	if err != nil || len(plan) == 0 || plan[0].Rejected != "" || !strings.Contains(strings.Join(plan[0].Warnings, "; "), "public price list: a credential is missing") {
		t.Errorf("%+v, %v", plan, err)
	}
	cfg.APIToken = "wrong"
	if plan, err := gputrain.Plan(t.Context(), cfg, spec); !errors.Is(err, gputrain.ErrAuth) {
		t.Errorf("with a wrong token: %+v, %v", plan, err)
	}
}
