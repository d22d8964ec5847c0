package providertest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

const unknownStates = "states that the table does not have"

func stateChecks() []check {
	return []check{
		{"states of the vendor", []string{"States"}, func(c *trial) { states(c, false) }},
		{unknownStates, []string{"States"}, func(c *trial) { states(c, true) }},
		{"describe reports what is gone", nil, describeGone},
		{"describe keeps order and leaves out nothing", nil, describeMany},
		{"describe by another program", nil, describeElsewhere},
	}
}

func states(c *trial, unknown bool) {
	p := c.prepared()
	tried := 0
	for _, s := range c.h.States() {
		if (s.Want == driver.InstanceUnknown) != unknown {
			continue
		}
		tried++
		in := p.running(p.launch(1))[0]
		s.Set(in.ID)
		var now driver.Instance
		err := c.eventually(eventTimeout, func() error {
			if now = p.describe(in.ID)[0]; now.State != s.Want {
				return fmt.Errorf("it is %v (%q)", now.State, now.StateReason)
			}
			return nil
		})
		if err != nil {
			c.Errorf("the vendor's state %q must be %v in Driver.Describe: %v", s.Vendor, s.Want, err)
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
		c.Errorf("Harness.States has no case for this check: add one, or give the reason in Harness.Without[%q]", c.check)
	}
}

// gone waits until Describe reports machines as terminated.
func (p *pool) gone(want ...string) {
	p.Helper()
	err := p.eventually(eventTimeout, func() error {
		for _, in := range p.describe(want...) {
			if in.State != driver.InstanceTerminated {
				return fmt.Errorf("%s is %v", in.ID, in.State)
			}
		}
		return nil
	})
	if err != nil {
		p.Errorf("after Driver.Terminate, Describe must eventually report machines as terminated: %v", err)
	}
}

func describeGone(c *trial) {
	p := c.prepared()
	got := ids(p.launch(2))
	if err := p.Terminate(c.Context(), got[0]); err != nil {
		c.Fatalf("Driver.Terminate: %v", err)
	}
	p.gone(got[0])
	for i, in := range p.describe(got...) {
		if i == 0 && in.State != driver.InstanceTerminated || i > 0 && in.State >= driver.InstancePreempted {
			c.Errorf("Driver.Describe of several, of which the first is gone, reports machine %d as %v", i, in.State)
		}
	}
}

func describeMany(c *trial) {
	p := c.prepared()
	got := ids(p.launch(3))
	p.describe(got...)
	if len(got) > 1 {
		p.describe(got[len(got)-1], got[0])
	}
	p.describe()
}

// Another program knows a machine by the provider's tags. A machine that only the program that
// launched it can reach (Resumer) is known by its name and rank alone.
func describeElsewhere(c *trial) {
	p := c.prepared()
	if !p.caps.Tags {
		return
	}
	got := p.running(p.launch(2))
	now, err := c.open().Describe(c.Context(), ids(got)...)
	if err != nil || !slices.Equal(ids(now), ids(got)) {
		c.Fatalf("Driver.Describe of %q by another program reports %q and %v", ids(got), ids(now), err)
	}
	_, resumed := p.Driver.(driver.Resumer)
	for i, in := range now {
		want := got[i]
		if in.Name != want.Name || in.Rank != want.Rank {
			c.Errorf("Driver.Describe by another program reports %s with Name %q and Rank %d; here it has %q and %d", in.ID, in.Name, in.Rank, want.Name, want.Rank)
		}
		if !resumed && (in.State != want.State || in.SSH.Addr != want.SSH.Addr || in.SSH.User != want.SSH.User || !slices.Equal(in.SSH.HostKeys, want.SSH.HostKeys)) {
			c.Errorf("Driver.Describe by another program reports %s as %v, at %+v; here it is %v, at %+v", in.ID, in.State, in.SSH, want.State, want.SSH)
		}
	}
}
