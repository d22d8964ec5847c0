package providertest

import (
	"errors"
	"fmt"

	"github.com/gputrain/gputrain"
)

func silenceChecks() []check {
	return []check{{"terminate and release leave silence", nil, leaveSilence}}
}

// leaveSilence believes nothing that the driver says: machines answer before they are
// terminated and not after it, and there are as many as before.
func leaveSilence(c *trial) {
	before := c.live()
	p := c.prepared()
	got := p.running(p.launch(2))
	for _, in := range got {
		if err := p.eventually(max(p.caps.ProvisionTimeout, patience), func() error { return p.reach(in) }); err != nil {
			c.Errorf("Driver.Describe says that %s runs, at %q, and no SSH server answers there: %v", in.ID, in.SSH.Addr, err)
		}
	}
	if p.caps.Adopts {
		before = c.live() // they were there, and stay
	} else if now := c.live(); now != before+len(got) {
		c.Errorf("Driver.Launch returned %d machines, and by Harness.Live there are %d more", len(got), now-before)
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

// live counts the machines by what the harness has.
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

// wantLive waits until there are so many machines.
func (c *trial) wantLive(when string, want int) {
	c.Helper()
	if err := c.eventually(patience, func() error {
		if now := c.live(); now != want {
			return fmt.Errorf("there are %d machines, want %d", now, want)
		}
		return nil
	}); err != nil {
		c.Errorf("%s, by Harness.Live, %v", when, err)
	}
}

// wantSilence waits until no SSH server answers where a machine was.
func (p *pool) wantSilence(in gputrain.Instance) {
	p.Helper()
	if err := p.eventually(patience, func() error {
		if p.reach(in) == nil {
			return errors.New("its SSH server answers")
		}
		return nil
	}); err != nil {
		p.Errorf("Driver.Terminate has ended %s, and at %q %v", in.ID, in.SSH.Addr, err)
	}
}
