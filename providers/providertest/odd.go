package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gputrain/gputrain"
)

// The checks of clouds whose answers are odd: a success that was none, a machine that its own
// verb does not find, and a page or nothing under a good status.

const (
	terminateEnded = "terminate that does not find what has ended"
	terminateRuns  = "terminate that does not find what runs"
)

func oddChecks() []check {
	all := []check{
		{terminateEnded, []string{"Fault", "States"}, terminateMissing},
		{terminateRuns, []string{"Fault"}, terminateFindsNothing},
	}
	for _, kind := range []Kind{Undone, Empty} {
		all = append(all, check{"terminate that is not done: " + kind.String(), []string{"Account", "Calls", "Fault"}, func(c *trial) { terminateNotDone(c, kind) }})
	}
	for _, kind := range []Kind{HTML, Empty} {
		all = append(all,
			check{"open that is answered well the second time: " + kind.String(), []string{"Calls", "Fault"}, func(c *trial) { openRepeats(c, kind) }},
			check{"open that is never answered well: " + kind.String(), []string{"Fault"}, func(c *trial) { openFails(c, kind) }},
			check{"read that is answered well the second time: " + kind.String(), []string{"Calls", "Fault"}, func(c *trial) { readsRepeat(c, Fault{Kind: kind}) }})
	}
	return all
}

// A machine whose end was answered and not done goes on being billed: it is asked for again as
// long as Describe shows it, by the driver itself if that waits for the end.
func terminateNotDone(c *trial, kind Kind) {
	const times = 2
	p := c.prepared()
	id := p.running(p.launch(1))[0].ID
	before := c.h.Calls(OpTerminate)
	c.fault(OpTerminate, Fault{Kind: kind, Times: times})
	err := p.eventually(patience, func() error {
		ctx, cancel := context.WithTimeout(c.Context(), patience)
		defer cancel()
		if err := p.Terminate(ctx, id); err != nil && kind == Undone {
			return fmt.Errorf("it was answered with success, and Driver.Terminate says %w", err)
		}
		now := p.describe(id)[0]
		if now.State != gputrain.InstanceTerminated {
			return fmt.Errorf("it is %v", now.State)
		}
		if slices.Contains(p.machines(), id) {
			c.Errorf("Driver.Describe says that %s is terminated, and the account has it: that its end was answered does not say so", id)
		}
		return nil
	})
	if calls := c.h.Calls(OpTerminate) - before; err != nil || calls <= times {
		c.Errorf("the end of a machine was answered %d times and not done, and Driver.Terminate has asked for it %d times (%v): it must be asked for again while the machine is there", times, calls, err)
	}
	p.holds("it is asked for until it is done", []string{}...)
}

// A machine that cannot come back, and that the cloud does not find when it is to be ended, is
// gone, though reads still show it. Else it counts as a leak for ever.
func terminateMissing(c *trial) {
	p := c.prepared()
	tried := 0
	for _, s := range c.h.States() {
		if s.Want != gputrain.InstancePreempted && s.Want != gputrain.InstanceFailed {
			continue
		}
		tried++
		id := p.running(p.launch(1))[0].ID
		s.Set(id)
		remove := c.fault(OpTerminate, Fault{Kind: Missing, Times: -1})
		err := p.eventually(p.caps.ListLag+patience, func() error {
			if err := p.Terminate(c.Context(), id); err != nil {
				return fmt.Errorf("Driver.Terminate: %w: a machine that is gone already is a success", err)
			}
			if now := p.describe(id)[0]; now.State != gputrain.InstanceTerminated {
				return fmt.Errorf("Driver.Describe says that it is %v", now.State)
			}
			listed, err := p.List(c.Context(), p.info.ID)
			if slices.ContainsFunc(listed, func(r gputrain.Resource) bool { return r.ID == id && r.State != gputrain.InstanceTerminated }) {
				return errors.New("Driver.List has it")
			}
			return err
		})
		if err != nil {
			c.Errorf("a machine that is %v (%q), and that the cloud does not find when it is asked to end it, must count as gone: %v", s.Want, s.Vendor, err)
		}
		remove()
		if err := p.Terminate(c.Context(), id); err != nil {
			c.Errorf("Driver.Terminate: %v", err)
		}
	}
	if tried == 0 {
		c.Errorf("Harness.States has no machine that was preempted or has failed: add one, or say why not in Harness.Without[%q]", c.check)
	}
}

// That the cloud does not find it does not say so of a machine that runs: reads show that it does.
func terminateFindsNothing(c *trial) {
	p := c.prepared()
	id := p.running(p.launch(1))[0].ID
	c.fault(OpTerminate, Fault{Kind: Missing, Times: -1})
	if err := p.Terminate(c.Context(), id); err != nil {
		c.failure("Driver.Terminate of what is not found", err)
	}
	if now := p.describe(id)[0]; now.State >= gputrain.InstancePreempted {
		c.Errorf("a machine runs, and the cloud does not find it when it is asked to end it: Driver.Describe says that it is %v", now.State)
	}
}

// One odd answer is nothing that the account or the key is to blame for: Open asks again.
func openRepeats(c *trial, kind Kind) {
	remove := c.fault(AnyOp, Fault{Kind: kind})
	d, err := c.h.Provider.Open(c.Context())
	if err != nil {
		c.Errorf("Provider.Open under one answer that is %v: %v: it must be tried again", kind, err)
		return
	}
	defer d.Close()
	if _, err := d.List(c.Context(), ""); err != nil {
		c.Errorf("Driver.List after Provider.Open under one answer that is %v: %v: it must be tried again", kind, err)
	}
	if n := c.h.Calls(AnyOp); n < 2 {
		c.Errorf("Provider.Open and Driver.List made %d calls: the fault has hit none", n)
	}
	remove()
}

func openFails(c *trial, kind Kind) {
	c.fault(AnyOp, Fault{Kind: kind, Times: -1})
	d, err := c.h.Provider.Open(c.Context())
	if err == nil {
		defer d.Close()
		_, err = d.List(c.Context(), "")
	}
	c.failure(fmt.Sprintf("answers that are all %v, by Provider.Open and then Driver.List,", kind), err, gputrain.ErrUnavailable)
}
