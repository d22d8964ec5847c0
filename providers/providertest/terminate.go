package providertest

import "slices"

func terminateChecks() []check {
	all := []check{
		{"terminate while pending", []string{"Stall"}, terminatePending},
		{"terminate twice, and what is gone", nil, terminateTwice},
		{"terminate only what is named", []string{"Account"}, terminateNamed},
	}
	for _, f := range []Fault{{Kind: Failed}, {Kind: Failed, After: true}, {Kind: Cut}, {Kind: Cut, After: true}, {Kind: HTML}, {Kind: Astray}, {Kind: RateLimited}} {
		all = append(all, check{"terminate: " + f.String(), []string{"Account", "Fault"}, func(c *trial) { terminateUnder(c, f) }})
	}
	return append(all, check{"terminate that never goes through", []string{"Account", "Fault"}, func(c *trial) { terminateUnder(c, Fault{Kind: Failed, Times: -1}) }})
}

func terminatePending(c *trial) {
	p := c.prepared()
	c.h.Stall()
	got := ids(p.launch(1))
	if err := p.Terminate(c.Context(), got...); err != nil {
		c.Errorf("Driver.Terminate of a pending machine: %v", err)
	}
	p.gone(got...)
	if c.h.Account != nil {
		p.holds("a machine that is pending may be billed already", []string{}...)
	}
}

func terminateTwice(c *trial) {
	p := c.prepared()
	got := ids(p.running(p.launch(2)))
	for range 2 {
		if err := p.Terminate(c.Context(), got...); err != nil {
			c.Errorf("Driver.Terminate is idempotent, and a machine that is gone already is a success; it returned %v", err)
		}
	}
	p.gone(got...)
	if err := c.open().Terminate(c.Context(), got...); err != nil {
		c.Errorf("Driver.Terminate by another program, after the machines are gone: %v", err)
	}
}

func terminateNamed(c *trial) {
	p := c.prepared()
	got := ids(p.launch(2))
	if err := p.Terminate(c.Context()); err != nil {
		c.Errorf("Driver.Terminate of nothing: %v", err)
	}
	p.holds("Terminate of nothing ends nothing", got...)
	if err := p.Terminate(c.Context(), got[0]); err != nil {
		c.Errorf("Driver.Terminate: %v", err)
	}
	p.holds("Terminate ends the named machines", got[1:]...)
}

// An error that reports a machine as gone must be right.
func terminateUnder(c *trial, f Fault) {
	p := c.prepared()
	got := ids(p.launch(1))
	remove := c.fault(OpTerminate, f)
	err := p.Terminate(c.Context(), got...)
	switch {
	case err == nil:
		p.holds("Terminate has said that the machine is gone", []string{}...)
	case slices.Contains(p.machines(), got[0]) || f.After:
		c.failure("Driver.Terminate that failed", err, kindsOf(f.Kind)...)
	default:
		c.Errorf("Driver.Terminate says %v, and the machine is gone", err)
	}
	remove()
	if err := p.Terminate(c.Context(), got...); err != nil {
		c.Errorf("Driver.Terminate again: %v", err)
	}
	p.holds("Terminate ends machines", []string{}...)
}
