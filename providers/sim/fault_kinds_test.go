package sim_test

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver/fault"
	"github.com/gputrain/gputrain/providers/sim"
)

func TestFaultOf(t *testing.T) {
	for _, tt := range []struct {
		op   sim.Op
		f    fault.Fault
		want sim.Fault
		ok   bool
	}{
		{sim.OpLaunch, fault.Fault{Kind: fault.Cut}, sim.Fault{Kind: sim.Refused, Nth: 1}, true},
		{sim.OpLaunch, fault.Fault{Kind: fault.Cut, After: true, Times: 2}, sim.Fault{Kind: sim.Lost, Nth: 1, Count: 2}, true},
		{sim.OpList, fault.Fault{Kind: fault.RateLimited, RetryAfter: time.Second, Times: -1}, sim.Fault{Kind: sim.RateLimited, Count: -1, For: time.Second}, true},
		{sim.OpList, fault.Fault{Kind: fault.HTML}, sim.Fault{Kind: sim.Garbage, Nth: 1}, true},
		{sim.OpTerminate, fault.Fault{Kind: fault.HTML}, sim.Fault{}, false},
		{sim.OpTerminate, fault.Fault{Kind: fault.HTML, After: true}, sim.Fault{Kind: sim.Garbage, Nth: 1}, true},
		{sim.OpLaunch, fault.Fault{Kind: fault.Huge}, sim.Fault{}, false},
		{sim.OpLaunch, fault.Fault{Kind: fault.RateLimited, After: true}, sim.Fault{}, false},
	} {
		got, ok := sim.FaultOf(tt.op, tt.f)
		same := got.Kind == tt.want.Kind && got.Nth == tt.want.Nth && got.Count == tt.want.Count && got.For == tt.want.For
		if ok != tt.ok || ok && (!same || got.Op != tt.op) {
			t.Errorf("%s, %v: %+v, %v; want %+v, %v", tt.op, tt.f, got, ok, tt.want, tt.ok)
		}
	}
}
