package providertest

import (
	"errors"
	"fmt"

	"github.com/gputrain/gputrain/providers/driver"
)

func silenceChecks() []check {
	return []check{{"terminate and release leave silence", nil, leaveSilence}}
}

// leaveSilence does not trust the driver: machines answer before they are terminated and not
// after it, and their number is as before.
func leaveSilence(c *trial) {
	before := c.live()
	p := c.prepared()
	got := p.running(p.launch(2))
	for _, in := range got {
		if err := p.eventually(max(p.caps.ProvisionTimeout, eventTimeout), func() error { return p.reach(in) }); err != nil {
			c.Errorf("Driver.Describe reports that %s runs, at %q, but no SSH server answers there: %v", in.ID, in.SSH.Addr, err)
		}
	}
	if p.caps.Adopts {
		before = c.live() // they existed before, and stay
	} else if now := c.live(); now != before+len(got) {
		c.Errorf("Driver.Launch returned %d machines, but by Harness.Live there are %d more", len(got), now-before)
	}
	if err := p.Terminate(c.Context(), ids(got)...); err != nil {
		c.Errorf("Driver.Terminate: %v", err)
	}
	if err := p.Release(c.Context(), p.now()); err != nil {
		c.Errorf("Driver.Release: %v", err)
	}
	c.wantLive("after Driver.Terminate and Driver.Release", before)
	if p.caps.Adopts {
		return
	}
	for _, in := range got {
		p.wantSilence(in)
	}
}

// live counts the machines by the harness's own means.
func (c *trial) live() int {
	if c.h.Live != nil {
		return c.h.Live()
	}
	n := 0
	for _, r := range c.h.Account() {
		if r.Kind == "machine" {
			n++
		}
	}
	return n
}

// wantLive waits until there are that many machines.
func (c *trial) wantLive(when string, want int) {
	c.Helper()
	if err := c.eventually(eventTimeout, func() error {
		if now := c.live(); now != want {
			return fmt.Errorf("there are %d machines, want %d", now, want)
		}
		return nil
	}); err != nil {
		c.Errorf("%s, by Harness.Live, %v", when, err)
	}
}

// wantSilence waits until no SSH server answers at a machine's address.
func (p *pool) wantSilence(in driver.Instance) {
	p.Helper()
	if err := p.eventually(eventTimeout, func() error {
		if p.reach(in) == nil {
			return errors.New("its SSH server answers")
		}
		return nil
	}); err != nil {
		p.Errorf("Driver.Terminate ended %s, but at %q %v", in.ID, in.SSH.Addr, err)
	}
}
