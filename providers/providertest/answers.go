package providertest

import (
	"fmt"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

func answerChecks() []check {
	var all []check
	for _, kind := range []Kind{Failed, Unavailable, Cut, RateLimited, Garbage, HTML, Empty, Huge, Astray} {
		all = append(all, check{"read that is never answered well: " + kind.String(), []string{"Fault"}, func(c *trial) { readsFail(c, kind) }})
	}
	for _, kind := range []Kind{Failed, Unavailable, RateLimited, Cut} {
		all = append(all, check{"read that is answered well the second time: " + kind.String(), []string{"Calls", "Fault"}, func(c *trial) { readsRepeat(c, Fault{Kind: kind}) }})
	}
	return append(all, check{"read that waits for Retry-After", []string{"Calls", "Fault"}, retryAfter})
}

// kindsOf returns the kinds of errors that a fault may become, or nil for any kind.
func kindsOf(k Kind) []error {
	switch k {
	case Failed, Unavailable, Cut:
		return []error{driver.ErrUnavailable}
	case RateLimited:
		return []error{driver.ErrRateLimited}
	}
	return nil
}

// reads returns the calls that may be repeated. Each returns an error unless it was answered well.
func (p *pool) reads(id string) map[Op]func() error {
	return map[Op]func() error{
		OpOffers: func() error {
			n := 0
			for _, err := range p.Offers(p.Context(), p.h.Spec.Query()) {
				if err != nil {
					return err
				}
				n++
			}
			if n == 0 {
				return fmt.Errorf("no offers")
			}
			return nil
		},
		OpDescribe: func() error {
			got, err := p.Describe(p.Context(), id)
			if err == nil && (len(got) != 1 || got[0].ID != id || got[0].State >= driver.InstancePreempted) {
				return fmt.Errorf("%s is described as %+v", id, got)
			}
			return err
		},
		OpList: func() error {
			got, err := p.List(p.Context(), p.info.ID)
			if err != nil {
				return err
			}
			return has(id)(got)
		},
	}
}

// A read without an answer is an error, never an empty answer.
func readsFail(c *trial, kind Kind) {
	p := c.prepared()
	id := p.running(p.launch(1))[0].ID
	c.listed(p, p.info.ID, has(id))
	for op := range p.reads(id) {
		remove := c.fault(op, Fault{Kind: kind, Times: -1})
		var err error
		switch op {
		case OpOffers:
			for _, e := range p.Offers(c.Context(), c.h.Spec.Query()) {
				err = e
			}
		case OpDescribe:
			_, err = p.Describe(c.Context(), id)
		case OpList:
			var got []driver.Resource
			if got, err = p.List(c.Context(), p.info.ID); err != nil && len(got) > 0 {
				c.Errorf("Driver.List returns %d things and %v", len(got), err)
			}
		}
		c.failure(fmt.Sprintf("an answer that is %v to Driver.%s: an odd or failed answer is an error, never nothing, and it", kind, op), err, kindsOf(kind)...)
		remove()
	}
}

// A read is safe to repeat, so one failure of the API must not fail it.
func readsRepeat(c *trial, f Fault) {
	p := c.prepared()
	id := p.running(p.launch(1))[0].ID
	c.listed(p, p.info.ID, has(id))
	for op, read := range p.reads(id) {
		remove := c.fault(op, f)
		before := c.h.Calls(op)
		if err := read(); err != nil {
			c.Errorf("Driver.%s under one call that is %v: %v: a read is safe to repeat", op, f, err)
		}
		if n := c.h.Calls(op) - before; n < 2 {
			c.Errorf("Driver.%s made %d calls, none of which met the fault", op, n)
		}
		remove()
	}
}

func retryAfter(c *trial) {
	p := c.prepared()
	id := ids(p.launch(1))[0]
	c.listed(p, p.info.ID, has(id))
	const wait = time.Second
	c.fault(OpList, Fault{Kind: RateLimited, RetryAfter: wait})
	start := time.Now()
	if err := p.reads(id)[OpList](); err != nil {
		c.Errorf("Driver.List after a 429 with Retry-After: %v", err)
	}
	if waited := time.Since(start); waited < wait {
		c.Errorf("Driver.List asked again after %v; Retry-After said %v", waited, wait)
	}
}
