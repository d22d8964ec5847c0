package vultr

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// If a region's stock is gone at the launch, the next region is used.
func TestPoolInTheNextRegion(t *testing.T) {
	f := startFake(t)
	cfg := f.config()
	cfg.Region = Anywhere
	f.Inject(fakecloud.Fault{Op: opCreate, Answer: failure(400, "Server add failed: The plan is out of stock in the selected region")})
	cloudtest.Broadcast(t, standard.Reached(cfg), l40s(), func(pool *gputrain.Compute) {
		if live := f.account(); len(live) != 2 {
			t.Errorf("%v", live)
		}
		regions := map[string]bool{}
		for _, n := range pool.Nodes() {
			regions[n.Region] = true
		}
		if !regions["ord"] {
			t.Errorf("%v", regions)
		}
	})
	if live := f.account(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}
