package providertest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gputrain/gputrain/providers/driver"
)

// After each of these faults the outcome of a launch is unknown: it may have been
// executed, or the driver cannot know that it was not.
var ambiguous = []Fault{
	{Kind: Failed}, {Kind: Failed, After: true},
	{Kind: Unavailable}, {Kind: Unavailable, After: true},
	{Kind: Cut}, {Kind: Cut, After: true},
	{Kind: Garbage, After: true}, {Kind: HTML, After: true}, {Kind: Empty, After: true},
}

func ambiguousChecks() []check {
	needs := []string{"Account", "Fault"}
	var all []check
	for _, f := range ambiguous {
		all = append(all, check{"ambiguous launch: " + f.String(), needs, func(c *trial) { launchUnder(c, f) }})
	}
	return append(all,
		check{"ambiguous launch: cut after it was done, and a list that fails", needs, func(c *trial) {
			c.fault(OpList, Fault{Kind: Failed})
			launchUnder(c, Fault{Kind: Cut, After: true})
		}},
		check{"launch that is rate limited", needs, func(c *trial) { launchUnder(c, Fault{Kind: RateLimited}) }})
}

func launchUnder(c *trial, f Fault) {
	p := c.prepared()
	reqs := p.requests(2)
	wanted, _ := nodes(reqs)
	c.fault(OpLaunch, f)
	got, err := p.launchAll(reqs)
	for _, name := range p.doubles() {
		c.Errorf("%s was made twice: an ambiguous answer is settled by listing and adopting, never by creating again (Driver.Launch)", name)
	}
	exist := p.machines()
	if lost := except(exist, ids(got)); len(lost) > 0 {
		c.Errorf("Driver.Launch returned %q and not %q, which exist too: an ambiguous answer is settled by listing and adopting; the error is %v", ids(got), lost, err)
	}
	if invented := except(ids(got), exist); len(invented) > 0 {
		c.Errorf("Driver.Launch returned %q, which do not exist", invented)
	}
	switch {
	case f.After && len(got) == 0:
		c.Errorf("Driver.Launch made machines and returned none; the error is %v", err)
	case len(got) < len(wanted) && f.Kind == RateLimited:
		c.failure("Driver.Launch that was rate limited", err, driver.ErrRateLimited)
	case len(got) < len(wanted):
		// For other kinds the pool assumes that nothing was made.
		c.failure(fmt.Sprintf("Driver.Launch of %d that returns %d", len(wanted), len(got)), err, driver.ErrUnavailable)
		p.answered(f, err)
	case err != nil:
		c.Logf("all machines exist, and Driver.Launch returned %v", err)
	}
	for _, in := range got {
		if !slices.ContainsFunc(wanted, func(n driver.NodeRequest) bool { return n.Name == in.Name && n.Rank == in.Rank }) {
			c.Errorf("Driver.Launch returns Name %q and Rank %d, which no NodeRequest has", in.Name, in.Rank)
		}
	}
}

// answered compares an error's gputrain.CallError with the fault: an internal error is
// an answer, a cut connection is not. A driver whose calls never take effect late need
// not report this.
func (p *pool) answered(f Fault, err error) {
	var call driver.CallError
	says := errors.As(err, &call)
	switch {
	case f.Kind == Cut && says && call.Answered():
		p.Errorf("Driver.Launch got no answer, but its error reports one: %v (gputrain.CallError)", err)
	case f.Kind == Failed && p.caps.LateEffect > 0 && !p.caps.Free && !(says && call.Answered()):
		p.Errorf("Driver.Launch was answered with an internal error, but its error reports no answer: %v (gputrain.CallError)", err)
	}
}

// doubles returns the names that two of the pool's machines have.
func (p *pool) doubles() []string {
	seen := map[string]int{}
	var twice []string
	for _, r := range p.h.Account() {
		if r.Kind == "machine" && slices.Contains(p.machines(), r.ID) {
			if seen[r.Name]++; seen[r.Name] == 2 {
				twice = append(twice, r.Name)
			}
		}
	}
	return twice
}
