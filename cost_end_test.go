package gputrain_test

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// A machine whose end was accepted costs nothing from then on, unless its cloud goes on to say
// that it runs, and that it takes its usual time to go is no error.
func TestAMachineThatIsBeingDeleted(t *testing.T) {
	for name, tt := range map[string]struct {
		says    gputrain.InstanceState
		ends    time.Duration
		bills   bool // after its end was accepted
		alarms  bool
		forgets time.Duration // when it is known to be gone
	}{
		"deleting":               {gputrain.InstanceStopped, 2 * time.Minute, false, false, 2*time.Minute + 20*time.Second},
		"deleting for too long":  {gputrain.InstanceStopped, 10 * time.Minute, false, true, 12 * time.Minute},
		"running for a while":    {gputrain.InstanceRunning, 30 * time.Second, true, false, time.Minute},
		"running, and is billed": {gputrain.InstanceRunning, 10 * time.Minute, true, true, 12 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
				w := &wrapped{}
				slow(w, tt.says, tt.ends)
				p, err := c.openWrapped(t.Context(), t, w, gputrain.Spec{Nodes: 2})
				if err != nil {
					t.Fatal(err)
				}
				both := p.Cost().HourlyUSD
				if err := p.Resize(1); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				cost := p.Cost()
				if billed := cost.HourlyUSD > 0.9*both; billed != tt.bills {
					t.Errorf("the pool costs $%.2f an hour, and cost $%.2f with both machines", cost.HourlyUSD, both)
				}
				if !cost.Nodes[1].To.IsZero() {
					t.Error("the machine is gone, and its cloud has not said so")
				}
				before := cost.Nodes[1].USD
				time.Sleep(15 * time.Second)
				if more := p.Cost().Nodes[1].USD > before; more != tt.bills {
					t.Errorf("the machine's cost grows: %v", more)
				}
				time.Sleep(tt.forgets)
				if p.Cost().Nodes[1].To.IsZero() {
					t.Errorf("after %v it is not known that the machine is gone", tt.forgets)
				}
				alarms := 0
				for _, e := range c.events() {
					if e.Err != nil {
						alarms++
					}
				}
				if (alarms > 0) != tt.alarms {
					t.Errorf("%d events are of an error", alarms)
				}
				c.end(t, p)
			})
		})
	}
}
