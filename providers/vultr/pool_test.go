package vultr

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// If a region's stock is gone at the launch, the next region is used.
func TestPoolInTheNextRegion(t *testing.T) {
	standard.With(l40s(), in(Cloud)).Pool(t, cloudtest.Pool[*fake]{
		Faults: []fakecloud.Fault{{Op: opCreate, Answer: failure(400, "Server add failed: The plan is out of stock in the selected region")}},
		Open: func(t *testing.T, _ *fake, pool *gputrain.Compute) {
			if all := pool.Nodes(); all[0].Region != "ord" && all[1].Region != "ord" {
				t.Errorf("%+v", all)
			}
		},
	})
}
