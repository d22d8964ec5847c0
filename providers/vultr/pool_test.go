package vultr

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// dialed returns a provider whose machines are reached by fakecloud.Dial, as the API knows no
// port but 22.
func dialed(cfg Config) driver.Provider { return cloudtest.Dialed(cfg) }

// A pool whose calls fail in many ways still opens and closes, and makes nothing twice.
func TestPoolUnderFaults(t *testing.T) {
	f := startFake(t)
	for _, fault := range []fakecloud.Fault{
		{Op: opAccount, Answer: fakecloud.Failure(503, "", "")},
		{Op: opPlans, Cut: true},
		{Op: opStock, Answer: fakecloud.Failure(502, "", "")},
		{Op: opCreate, After: true, Cut: true},
		{Op: opCreate, After: true, Answer: failure(500, "Internal error")},
		{Op: opList, Lag: fakecloud.Lag{Calls: 3}, Times: 2},
		{Op: opMetalList, Answer: fakecloud.Failure(503, "", "")},
		{Op: opShow, Answer: fakecloud.Garbage()},
		{Op: opChange, Answer: failure(500, "Internal error")},
		{Op: opEnd, Answer: failure(429, "Rate limit exceeded")},
		{Op: opEnd, After: true, Cut: true},
	} {
		f.Inject(fault)
	}
	cloudtest.Broadcast(t, dialed(f.config()), l40s(), func(*gputrain.Compute) {
		if live := f.account(); len(live) != 2 {
			t.Errorf("%v", live)
		}
	})
	if live := f.account(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
	if n := len(f.Records(opCreate)); n != 2 {
		t.Errorf("%d creates of two nodes", n)
	}
}

// If a region's stock is gone at the launch, the next region is used.
func TestPoolInTheNextRegion(t *testing.T) {
	f := startFake(t)
	cfg := f.config()
	cfg.Region = Anywhere
	f.Inject(fakecloud.Fault{Op: opCreate, Answer: failure(400, "Server add failed: The plan is out of stock in the selected region")})
	cloudtest.Broadcast(t, dialed(cfg), l40s(), func(pool *gputrain.Compute) {
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
