package providertest

import (
	"fmt"
	"strings"

	"github.com/gputrain/gputrain"
)

const unknownStates = "states that the table does not have"

func stateChecks() []check {
	return []check{
		{"states of the vendor", []string{"States"}, func(c *trial) { states(c, false) }},
		{unknownStates, []string{"States"}, func(c *trial) { states(c, true) }},
		{"describe reports what is gone", nil, describeGone},
		{"describe keeps order and leaves out nothing", nil, describeMany},
	}
}

func states(c *trial, unknown bool) {
	p := c.prepared()
	tried := 0
	for _, s := range c.h.States() {
		if (s.Want == gputrain.InstanceUnknown) != unknown {
			continue
		}
		tried++
		in := p.running(p.launch(1))[0]
		s.Set(in.ID)
		var now gputrain.Instance
		err := c.eventually(patience, func() error {
			if now = p.describe(in.ID)[0]; now.State != s.Want {
				return fmt.Errorf("it is %v (%q)", now.State, now.StateReason)
			}
			return nil
		})
		if err != nil {
			c.Errorf("what the vendor calls %q must be %v by Driver.Describe: %v", s.Vendor, s.Want, err)
		}
		if unknown && !strings.Contains(now.StateReason, s.Vendor) {
			c.Errorf("StateReason of an unknown state is %q, without the vendor's word %q", now.StateReason, s.Vendor)
		}
		if err := p.Terminate(c.Context(), in.ID); err != nil {
			c.Errorf("Driver.Terminate of a machine that is %q: %v: a machine that is gone already is a success", s.Vendor, err)
		}
		p.gone(in.ID)
	}
	if tried == 0 {
		c.Errorf("Harness.States has no case for this check: add one, or say why not in Harness.Without[%q]", c.check)
	}
}

// gone waits until machines are terminated by Describe.
func (p *pool) gone(want ...string) {
	p.Helper()
	err := p.eventually(patience, func() error {
		for _, in := range p.describe(want...) {
			if in.State != gputrain.InstanceTerminated {
				return fmt.Errorf("%s is %v", in.ID, in.State)
			}
		}
		return nil
	})
	if err != nil {
		p.Errorf("after Driver.Terminate, Describe must come to report machines as terminated: %v", err)
	}
}

func describeGone(c *trial) {
	p := c.prepared()
	got := ids(p.launch(2))
	if err := p.Terminate(c.Context(), got[0]); err != nil {
		c.Fatalf("Driver.Terminate: %v", err)
	}
	p.gone(got[0])
	if rest := p.describe(got...); rest[0].State != gputrain.InstanceTerminated || rest[1].State >= gputrain.InstancePreempted {
		c.Errorf("Driver.Describe of one that is gone and one that is not reports %v and %v", rest[0].State, rest[1].State)
	}
}

func describeMany(c *trial) {
	p := c.prepared()
	got := ids(p.launch(3))
	p.describe(got...)
	p.describe(got[2], got[0])
	p.describe()
}
