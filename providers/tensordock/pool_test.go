package tensordock

import (
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestPool(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cloudtest.Broadcast(t, f.config(), rtx4090, nil)
	if left := f.everything(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A pool whose calls fail in many ways still opens and closes, and makes nothing twice.
func TestPoolUnderFaults(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.thinList = true
	for _, fault := range []fakecloud.Fault{
		{Op: opLocations, Answer: failure(502, "Bad gateway")},
		{Op: opAuth, Cut: true},
		{Op: opCreate, After: true, Cut: true},
		{Op: opCreate, Answer: refusal(400, "Hostnode unavailable")},
		{Op: opList, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opList, Answer: fakecloud.Reply(500, "oops")},
		{Op: opGet, Answer: fakecloud.Reply(429, row{"message": "slow down"})},
		{Op: opDelete, Answer: refusal(500, "try again")},
		{Op: opDelete, After: true, Cut: true},
	} {
		f.Inject(fault)
	}
	cloudtest.Broadcast(t, f.config(), rtx4090, nil)
	if left := f.everything(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
