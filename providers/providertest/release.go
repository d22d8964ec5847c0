package providertest

import (
	"errors"
	"slices"

	"github.com/gputrain/gputrain/providers/driver"
)

func releaseChecks() []check {
	all := []check{
		{"prepare records before it makes", []string{"Account"}, prepareRecords},
		{"prepare makes nothing that is not recorded", []string{"Account"}, prepareUnrecorded},
		{"prepare twice makes once", []string{"Account"}, prepareTwice},
		{"prepare makes again what was removed", []string{"Account"}, prepareAgain},
		{"release removes exactly what prepare made", []string{"Account", "Foreign"}, releaseExactly},
		{"release twice, and without prepare", nil, releaseTwice},
	}
	for _, f := range []Fault{{Kind: Failed}, {Kind: Failed, After: true}, {Kind: Cut, After: true}, {Kind: HTML, After: true}} {
		all = append(all,
			check{"prepare: " + f.String(), []string{"Account", "Fault"}, func(c *trial) { prepareUnder(c, f) }},
			check{"release: " + f.String(), []string{"Account", "Fault"}, func(c *trial) { releaseUnder(c, f) }})
	}
	return all
}

// newIn returns the things in the account that were not there before.
func (c *trial) newIn(before []string) []driver.Resource {
	return slices.DeleteFunc(slices.Clone(c.h.Account()), func(r driver.Resource) bool { return slices.Contains(before, r.ID) })
}

// share makes what the pool's machines share. A driver made of members prepares a member only
// when a machine is launched there, so one is launched, and ended.
func (p *pool) share(info driver.PoolInfo) error {
	p.Helper()
	if err := p.Prepare(p.Context(), info); err != nil || len(p.h.Members) == 0 {
		return err
	}
	req := p.request()
	req.Pool = info
	got, err := p.Launch(p.Context(), req)
	if err := p.Terminate(p.Context(), ids(got)...); err != nil {
		p.Errorf("Driver.Terminate: %v", err)
	}
	p.holds("its only machine was ended")
	return err
}

// sharing returns a new pool whose shared things exist.
func (c *trial) sharing() *pool {
	c.Helper()
	p := c.newPool()
	if err := p.share(p.now()); err != nil {
		c.Fatalf("Driver.Prepare: %v", err)
	}
	return p
}

func prepareRecords(c *trial) {
	before := resourceIDs(c.h.Account())
	p := c.newPool()
	recorded := map[string]driver.Resource{}
	info := p.info.WithRecord(func(r driver.Resource) error {
		key := r.Kind + " " + r.Name
		if r.Kind == "" || r.Name == "" {
			c.Errorf("PoolInfo.Record of %+v: it needs a Kind and a Name", r)
		}
		if _, again := recorded[key]; !again {
			for _, made := range c.newIn(before) {
				if made.Kind == r.Kind && (made.Name == r.Name || made.ID == r.ID) {
					c.Errorf("%s exists already when it is recorded: PoolInfo.Record comes before the call that makes it", key)
				}
			}
		}
		recorded[key] = r
		return p.record(r)
	})
	if err := p.share(info); err != nil {
		c.Fatalf("Driver.Prepare: %v", err)
	}
	for _, made := range c.newIn(before) {
		if !slices.ContainsFunc(p.made, func(r driver.Resource) bool { return r.Kind == made.Kind && r.ID == made.ID }) {
			c.Errorf("Driver.Prepare made %s %s, and PoolInfo.Record was not called with its ID", made.Kind, made.ID)
		}
	}
}

func prepareUnrecorded(c *trial) {
	before := resourceIDs(c.h.Account())
	full := errors.New("the ledger's disk is full")
	p := c.newPool()
	asked := false
	err := p.share(p.info.WithRecord(func(driver.Resource) error { asked = true; return full }))
	if asked && !errors.Is(err, full) {
		c.Errorf("Driver.Prepare returned %v, and PoolInfo.Record returned %v", err, full)
	}
	if made := c.newIn(before); len(made) > 0 {
		c.Errorf("Driver.Prepare made %+v: after an error of PoolInfo.Record nothing may be made", made)
	}
}

func prepareTwice(c *trial) {
	before := resourceIDs(c.h.Account())
	p := c.sharing()
	once := resourceIDs(c.newIn(before))
	other := c.poolOf(p.info)
	other.ranks = p.ranks + 1
	for _, q := range []*pool{p, other} {
		if err := q.share(p.now()); err != nil {
			c.Errorf("Driver.Prepare is idempotent; the second call returned %v", err)
		}
		if again := resourceIDs(c.newIn(before)); len(again) != len(once) {
			c.Errorf("Driver.Prepare is idempotent: one call made %q, and after another one there are %q", once, again)
		}
	}
}

// Things that another program has removed, such as a reaper on another computer, are made
// again.
func prepareAgain(c *trial) {
	before := resourceIDs(c.h.Account())
	p := c.sharing()
	n := len(c.newIn(before))
	if err := c.open().Release(c.Context(), p.now()); err != nil {
		c.Fatalf("Driver.Release: %v", err)
	}
	if err := p.share(p.now()); err != nil {
		c.Errorf("Driver.Prepare, after its things were removed: %v", err)
	}
	if made := c.newIn(before); len(made) != n {
		c.Errorf("Driver.Prepare, after its %d things were removed: there are %q", n, resourceIDs(made))
	}
	p.running(p.launch(1))
}

func releaseExactly(c *trial) {
	foreign := c.h.Foreign()
	before := resourceIDs(c.h.Account())
	p := c.sharing()
	mine := resourceIDs(c.newIn(before))
	q := c.sharing()
	theirs := except(resourceIDs(c.newIn(before)), mine)
	if err := p.Release(c.Context(), p.now()); err != nil {
		c.Errorf("Driver.Release: %v", err)
	}
	left := resourceIDs(c.h.Account())
	if gone := except(foreign, left); len(gone) > 0 {
		c.Errorf("Driver.Release has removed %q, which are another user's: it removes exactly what Prepare made", gone)
	}
	if gone := except(theirs, left); len(gone) > 0 {
		c.Errorf("Driver.Release of one pool has removed %q of another", gone)
	}
	if still := except(mine, except(mine, left)); len(still) > 0 {
		c.Errorf("Driver.Release has left %q, which Prepare made", still)
	}
	if err := q.Release(c.Context(), q.now()); err != nil {
		c.Errorf("Driver.Release: %v", err)
	}
	if left := resourceIDs(c.newIn(before)); len(left) > 0 {
		c.Errorf("Driver.Release has left %q", left)
	}
}

func releaseTwice(c *trial) {
	p := c.sharing()
	for range 2 {
		if err := p.Release(c.Context(), p.now()); err != nil {
			c.Errorf("Driver.Release is idempotent; it returned %v", err)
		}
	}
	q := c.newPool()
	if err := q.Release(c.Context(), q.now()); err != nil {
		c.Errorf("Driver.Release of a pool that was never prepared: %v", err)
	}
	if err := c.open().Release(c.Context(), p.now()); err != nil {
		c.Errorf("Driver.Release by another program, after everything was removed: %v", err)
	}
}

func prepareUnder(c *trial, f Fault) {
	clean := resourceIDs(c.h.Account())
	usual := c.sharing()
	n := len(c.newIn(clean))
	if err := usual.Release(c.Context(), usual.now()); err != nil {
		c.Fatalf("Driver.Release: %v", err)
	}
	p := c.newPool()
	remove := c.fault(OpPrepare, f)
	if err := p.share(p.now()); err != nil {
		c.failure("Driver.Prepare that failed", err)
	}
	remove()
	p.mu.Lock()
	for _, made := range c.newIn(clean) {
		if !slices.ContainsFunc(p.made, func(r driver.Resource) bool {
			return r.Kind == made.Kind && (r.Name == made.Name || r.ID == made.ID)
		}) {
			c.Errorf("Driver.Prepare was interrupted, and %s %s exists, which PoolInfo.Record was not called with", made.Kind, made.ID)
		}
	}
	p.mu.Unlock()
	if err := p.share(p.now()); err != nil {
		c.Errorf("Driver.Prepare is idempotent; after a failure it returned %v", err)
	}
	if made := c.newIn(clean); len(made) != n {
		c.Errorf("after a failed Prepare and a successful one there are %q; a successful one alone makes %d", resourceIDs(made), n)
	}
	if err := p.Release(c.Context(), p.now()); err != nil {
		c.Errorf("Driver.Release: %v", err)
	}
	if left := c.newIn(clean); len(left) > 0 {
		c.Errorf("Driver.Release has left %q", resourceIDs(left))
	}
}

func releaseUnder(c *trial, f Fault) {
	clean := resourceIDs(c.h.Account())
	p := c.sharing()
	remove := c.fault(OpRelease, f)
	err := p.Release(c.Context(), p.now())
	if err != nil {
		c.failure("Driver.Release that failed", err)
	} else if left := c.newIn(clean); len(left) > 0 {
		c.Errorf("Driver.Release succeeded, but left %q", resourceIDs(left))
	}
	remove()
	if err := p.Release(c.Context(), p.now()); err != nil {
		c.Errorf("Driver.Release is idempotent; after a failure it returned %v", err)
	}
	if left := c.newIn(clean); len(left) > 0 {
		c.Errorf("Driver.Release has left %q", resourceIDs(left))
	}
}
