package providertest

import (
	"fmt"
	"slices"

	"github.com/gputrain/gputrain/providers/driver"
)

func listChecks() []check {
	return []check{
		{"list shows only ours", []string{"Foreign"}, listOnlyOurs},
		{"list of one pool shows no other", nil, listOnePool},
		{"list shows everything that was made", []string{"Account"}, listEverything},
		{"list forgets what is gone", nil, listForgets},
	}
}

func resourceIDs(list []driver.Resource) (all []string) {
	for _, r := range list {
		all = append(all, r.ID)
	}
	return all
}

// has returns a condition for listed: that these IDs are in the list.
func has(want ...string) func([]driver.Resource) error {
	return func(list []driver.Resource) error {
		if missing := except(want, resourceIDs(list)); len(missing) > 0 {
			return fmt.Errorf("%q are not in it: List reports everything that the provider holds for a pool", missing)
		}
		return nil
	}
}

func listOnlyOurs(c *trial) {
	p := c.prepared()
	got := ids(p.launch(1))
	foreign := c.h.Foreign()
	for _, poolID := range []string{p.info.ID, "", "pt-that-never-was"} {
		want := got
		if poolID == "pt-that-never-was" {
			want = nil
		}
		for _, r := range c.listed(p, poolID, has(want...)) {
			if slices.Contains(foreign, r.ID) {
				c.Errorf("Driver.List of %q has %s %s, which is another user's: Reap would end it", poolID, r.Kind, r.ID)
			}
			if r.Pool == "" || poolID != "" && r.Pool != poolID {
				c.Errorf("Driver.List of %q has %s %s of pool %q", poolID, r.Kind, r.ID, r.Pool)
			}
		}
	}
}

func listOnePool(c *trial) {
	p := c.prepared()
	info := c.newInfo()
	info.ID = p.info.ID + "x" // an ID that begins with the other pool's ID
	q := c.poolOf(info)
	if err := q.Prepare(c.Context(), q.now()); err != nil {
		c.Fatalf("Driver.Prepare: %v", err)
	}
	mine, theirs := ids(p.launch(1)), ids(q.launch(1))
	for _, r := range c.listed(p, p.info.ID, has(mine...)) {
		if r.Pool != p.info.ID || slices.Contains(theirs, r.ID) {
			c.Errorf("Driver.List of %s has %s %s of %q", p.info.ID, r.Kind, r.ID, r.Pool)
		}
	}
	c.listed(p, "", has(slices.Concat(mine, theirs)...))
}

func listEverything(c *trial) {
	before := resourceIDs(c.h.Account())
	p := c.prepared()
	p.launch(2)
	made := except(resourceIDs(c.h.Account()), before)
	for _, r := range c.listed(c.open(), p.info.ID, has(made...)) {
		if r.Kind == "" || r.ID == "" || !c.names(r.Provider) {
			c.Errorf("Driver.List has %+v, without Provider, Kind or ID", r)
		}
		if r.Kind != "machine" && r.State != driver.InstanceUnknown {
			c.Errorf("State of a %s is %v; only machines have one", r.Kind, r.State)
		}
	}
}

func listForgets(c *trial) {
	p := c.prepared()
	got := ids(p.launch(1))
	c.listed(p, p.info.ID, has(got...))
	if err := p.Terminate(c.Context(), got...); err != nil {
		c.Fatalf("Driver.Terminate: %v", err)
	}
	c.listed(p, p.info.ID, func(list []driver.Resource) error {
		for _, r := range list {
			if r.Kind == "machine" && r.State != driver.InstanceTerminated {
				return fmt.Errorf("%s is listed as %v after Terminate", r.ID, r.State)
			}
		}
		return nil
	})
}
