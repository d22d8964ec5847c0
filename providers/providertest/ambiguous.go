package providertest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gputrain/gputrain"
)

// After each of these nobody knows what a launch has done, or, before it is done,
// cannot know that it has done nothing.
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
		c.Errorf("Driver.Launch returns %q and not %q, which exist too: an ambiguous answer is settled by listing and adopting; it says %v", ids(got), lost, err)
	}
	if invented := except(ids(got), exist); len(invented) > 0 {
		c.Errorf("Driver.Launch returns %q, which do not exist", invented)
	}
	switch {
	case f.After && len(got) == 0:
		c.Errorf("Driver.Launch has made machines and returns none: it says %v", err)
	case len(got) < len(wanted) && f.Kind == RateLimited:
		c.failure("Driver.Launch that was rate limited", err, gputrain.ErrRateLimited)
	case len(got) < len(wanted):
		// Of other kinds the pool takes it that nothing was made.
		c.failure(fmt.Sprintf("Driver.Launch of %d that returns %d", len(wanted), len(got)), err, gputrain.ErrUnavailable)
		p.answered(f, err)
	case err != nil:
		c.Logf("all machines are there, and Driver.Launch says %v", err)
	}
	for _, in := range got {
		if !slices.ContainsFunc(wanted, func(n gputrain.NodeRequest) bool { return n.Name == in.Name && n.Rank == in.Rank }) {
			c.Errorf("Driver.Launch returns Name %q and Rank %d, which no NodeRequest has", in.Name, in.Rank)
		}
	}
}

// answered compares what an error says of a call, by gputrain.CallError, with what it had: an
// internal error is an answer, and a connection that was cut is none. A driver need not say
// so if nothing it makes comes late.
func (p *pool) answered(f Fault, err error) {
	var call gputrain.CallError
	says := errors.As(err, &call)
	switch {
	case f.Kind == Cut && says && call.Answered():
		p.Errorf("Driver.Launch, which was not answered, says that it was: %v (gputrain.CallError)", err)
	case f.Kind == Failed && p.caps.LateEffect > 0 && !p.caps.Free && !(says && call.Answered()):
		p.Errorf("Driver.Launch was answered with an internal error, and does not say that it was answered: %v (gputrain.CallError)", err)
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
