package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// The checks of clouds with odd answers: a success without effect, a machine that the
// end call does not find, and a page or nothing under a good status.

const (
	terminateEnded = "terminate that does not find what has ended"
	terminateRuns  = "terminate that does not find what runs"

	// tooOften is how often, in a short run, a driver may ask for an end that finds nothing until it is interrupted.
	tooOften = 20
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

// A machine whose end was answered but not executed is still billed. The call is repeated
// as long as Describe shows the machine, or by a driver that waits for the end itself.
func terminateNotDone(c *trial, kind Kind) {
	const times = 2
	p := c.prepared()
	id := p.running(p.launch(1))[0].ID
	before := c.h.Calls(OpTerminate)
	c.fault(OpTerminate, Fault{Kind: kind, Times: times})
	err := p.eventually(eventTimeout, func() error {
		ctx, cancel := context.WithTimeout(c.Context(), eventTimeout)
		defer cancel()
		if err := p.Terminate(ctx, id); err != nil && kind == Undone {
			return fmt.Errorf("it was answered with success, and Driver.Terminate returned %w", err)
		}
		now := p.describe(id)[0]
		if now.State != driver.InstanceTerminated {
			return fmt.Errorf("it is %v", now.State)
		}
		if slices.Contains(p.machines(), id) {
			c.Errorf("Driver.Describe reports %s as terminated, but the account has it: the answer to its end does not prove that it ended", id)
		}
		return nil
	})
	if calls := c.h.Calls(OpTerminate) - before; err != nil || calls <= times {
		c.Errorf("the end of a machine was answered %d times without effect, and Driver.Terminate made %d calls (%v): the call must be repeated while the machine exists", times, calls, err)
	}
	p.holds("it is asked for until it is done", []string{}...)
}

// A machine that cannot come back, and that the cloud does not find when asked to end it, is
// gone, though reads still show it. Otherwise it would count as a leak for ever.
func terminateMissing(c *trial) {
	p := c.prepared()
	tried := 0
	for _, s := range c.h.States() {
		if s.Want != driver.InstancePreempted && s.Want != driver.InstanceFailed {
			continue
		}
		tried++
		id := p.running(p.launch(1))[0].ID
		s.Set(id)
		remove := c.fault(OpTerminate, Fault{Kind: Missing, Times: -1})
		err := p.eventually(p.caps.ListLag+eventTimeout, func() error {
			if err := p.Terminate(c.Context(), id); err != nil {
				return fmt.Errorf("Driver.Terminate: %w: a machine that is gone already is a success", err)
			}
			if now := p.describe(id)[0]; now.State != driver.InstanceTerminated {
				return fmt.Errorf("Driver.Describe reports it as %v", now.State)
			}
			listed, err := p.List(c.Context(), p.info.ID)
			if slices.ContainsFunc(listed, func(r driver.Resource) bool { return r.ID == id && r.State != driver.InstanceTerminated }) {
				return errors.New("Driver.List has it")
			}
			return err
		})
		if err != nil {
			c.Errorf("a machine that is %v (%q) and that the cloud does not find when asked to end it must count as gone: %v", s.Want, s.Vendor, err)
		}
		remove()
		if err := p.Terminate(c.Context(), id); err != nil {
			c.Errorf("Driver.Terminate: %v", err)
		}
	}
	if tried == 0 {
		c.Errorf("Harness.States has no machine that was preempted or has failed: add one, or give the reason in Harness.Without[%q]", c.check)
	}
}

// "No such machine" as the answer to the end of a running machine proves nothing: it still runs.
func terminateFindsNothing(c *trial) {
	p := c.prepared()
	id := p.running(p.launch(1))[0].ID
	c.fault(OpTerminate, Fault{Kind: Missing, Times: -1})
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	if c.h.Calls != nil && testing.Short() { // a driver that asks again until it gives up is not waited for
		asked := c.h.Calls(OpTerminate)
		go func() {
			for ctx.Err() == nil && c.h.Calls(OpTerminate) < asked+tooOften {
				time.Sleep(10 * time.Millisecond)
			}
			cancel()
		}()
	}
	if err := p.Terminate(ctx, id); err != nil {
		c.failure("Driver.Terminate of what is not found", err)
	}
	if now := p.describe(id)[0]; now.State >= driver.InstancePreempted {
		c.Errorf("a machine runs, and the cloud does not find it when asked to end it: Driver.Describe reports it as %v", now.State)
	}
}

// One odd answer is not the fault of the account or the key: Open tries again.
func openRepeats(c *trial, kind Kind) {
	remove := c.fault(AnyOp, Fault{Kind: kind})
	d, err := c.h.Provider.Open(c.Context())
	if err != nil {
		c.Errorf("Provider.Open after one answer that is %v: %v: the call must be tried again", kind, err)
		return
	}
	defer d.Close()
	if _, err := d.List(c.Context(), ""); err != nil {
		c.Errorf("Driver.List after Provider.Open with one answer that is %v: %v: the call must be tried again", kind, err)
	}
	if n := c.h.Calls(AnyOp); n < 2 {
		c.Errorf("Provider.Open and Driver.List made %d calls, none of which met the fault", n)
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
	c.failure(fmt.Sprintf("answers that are all %v, by Provider.Open and then Driver.List,", kind), err, driver.ErrUnavailable)
}
