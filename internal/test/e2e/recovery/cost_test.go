package recovery

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// A machine whose end was accepted costs nothing from then on, unless its cloud still reports it as running. That it
// needs its usual time to end is no error.
func TestAMachineThatIsBeingDeleted(t *testing.T) {
	for name, tt := range map[string]struct {
		says    driver.InstanceState
		ends    time.Duration
		bills   bool // after its end was accepted
		alarms  bool
		forgets time.Duration // when its end is known at the latest
	}{
		"deleting":               {driver.InstanceStopped, 2 * time.Minute, false, false, 2*time.Minute + 20*time.Second},
		"deleting for too long":  {driver.InstanceStopped, 10 * time.Minute, false, true, 12 * time.Minute},
		"running for a while":    {driver.InstanceRunning, 30 * time.Second, true, false, time.Minute},
		"running, and is billed": {driver.InstanceRunning, 10 * time.Minute, true, true, 12 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
				w := &e2etest.Wrapped{}
				slow(w, tt.says, tt.ends)
				p, err := c.OpenWrapped(t.Context(), t, w, gputrain.Spec{Nodes: 2})
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
					t.Error("the machine counts as gone, but its cloud has not said so")
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
				for _, e := range c.Events() {
					if e.Err != nil {
						alarms++
					}
				}
				if (alarms > 0) != tt.alarms {
					t.Errorf("%d events report an error", alarms)
				}
				c.CloseAndCheck(t, p)
			})
		})
	}
}
