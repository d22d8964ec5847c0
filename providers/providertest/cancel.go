package providertest

import (
	"context"
	"errors"
)

func cancelChecks() []check {
	var all []check
	for _, op := range []Op{OpOffers, OpPrepare, OpLaunch, OpDescribe, OpList, OpTerminate, OpRelease} {
		all = append(all, check{"cancel in the midst of " + string(op), []string{"Account", "Calls", "Fault"}, func(c *trial) { cancelIn(c, op, Fault{Kind: Hang}) }})
	}
	return append(all, check{"cancel a launch that has made machines", []string{"Account", "Calls", "Fault"}, func(c *trial) {
		cancelIn(c, OpLaunch, Fault{Kind: Hang, After: true})
	}})
}

// A call ends with its context, and the machines that it has made by then are listed.
func cancelIn(c *trial, op Op, f Fault) {
	p := c.newPool()
	several := len(c.h.Members) > 0 // a driver made of members prepares a member only when a machine is launched there
	if op != OpPrepare || several {
		if err := p.Prepare(c.Context(), p.now()); err != nil {
			c.Fatalf("Driver.Prepare: %v", err)
		}
	}
	var id string
	if several && (op == OpList || op == OpRelease) {
		p.launch(1)
	}
	if op == OpDescribe || op == OpTerminate {
		id = ids(p.launch(1))[0]
	}
	req := p.request()
	remove := c.fault(op, f)
	before := c.h.Calls(op)
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		var err error
		switch op {
		case OpOffers:
			for _, err = range p.Offers(ctx, c.h.Spec.Query()) {
				if err != nil {
					break
				}
			}
		case OpPrepare:
			if several {
				_, err = p.Launch(ctx, req)
			} else {
				err = p.Prepare(ctx, p.now())
			}
		case OpLaunch:
			_, err = p.Launch(ctx, req)
		case OpDescribe:
			_, err = p.Describe(ctx, id)
		case OpList:
			_, err = p.List(ctx, p.info.ID)
		case OpTerminate:
			err = p.Terminate(ctx, id)
		case OpRelease:
			err = p.Release(ctx, p.now())
		}
		done <- err
	}()
	if c.eventually(eventTimeout, func() error {
		if c.h.Calls(op) == before {
			return errors.New("no call")
		}
		if f.After && len(p.machines()) == 0 {
			return errors.New("no machine")
		}
		return nil
	}) != nil {
		c.Errorf("Driver.%s has made no call", op)
	}
	cancel()
	var err error
	if c.eventually(eventTimeout, func() error {
		select {
		case err = <-done:
			return nil
		default:
			return errors.New("not yet")
		}
	}) != nil {
		remove()
		<-done
		c.Fatalf("Driver.%s goes on %v after its context has ended", op, eventTimeout)
	}
	if !errors.Is(err, context.Canceled) {
		c.Errorf("Driver.%s, cancelled during a call, returned %v; want an error that is context.Canceled", op, err)
	}
	remove()
	if op != OpLaunch {
		return
	}
	c.listed(p, p.info.ID, has(p.machines()...))
	for _, name := range p.doubles() {
		c.Errorf("%s was made twice", name)
	}
}
