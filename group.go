package gputrain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Cheapest is a provider made of others: a pool of it takes the cheapest machines that
// any of them has and that satisfy the spec, and the next cheapest where those cannot
// be had: for want of capacity, quota, or at that price. So its nodes may be at
// several providers, and then have no private network in common. One provider may be
// named several times, configured differently.
//
// A member that cannot be asked, for want of a key or because it does not answer, is
// left out as long as another one has something: an [EventPool] of state "member"
// says so, and [Plan] does. What a member's machines can do, they can do here too.
// IDs of machines begin with the member's name.
//
// Members that are Cheapest are taken apart. One that is FirstOf is [ErrInvalid]
// from Open.
func Cheapest(providers ...Provider) Provider {
	return group{Kind: "cheapest", Providers: slices.Clone(providers)}
}

// FirstOf is a provider made of others: a pool of it takes the machines of the first
// that has any that satisfy the spec, and what cannot be had there from the next. Of
// one member's machines it takes the cheapest. For the rest it is as [Cheapest],
// which its members may be.
func FirstOf(providers ...Provider) Provider {
	return group{Kind: "firstof", Ordered: true, Providers: slices.Clone(providers)}
}

// A group is a provider made of others. Its fields are exported for package fmt, which
// asks no value of an unexported one how it wants to be printed.
type group struct {
	Kind      string
	Ordered   bool // the members' offers come in the order of the members
	Providers []Provider
}

func (g group) Name() string { return g.Kind }

// A place of a provider in a group: offers of a lower tier come first.
type tiered struct {
	Provider
	tier int
}

// flat returns the providers that are no groups.
func (g group) flat() (all []tiered, err error) {
	invalid := func(format string, args ...any) error {
		return &Error{Provider: g.Kind, Op: "open", Kind: ErrInvalid, Err: fmt.Errorf(format, args...)}
	}
	tier := 0
	for i, p := range g.Providers {
		inner, ok := p.(group)
		switch {
		case p == nil:
			return nil, invalid("provider %d is nil", i+1)
		case !ok:
			all = append(all, tiered{p, tier})
		case inner.Ordered && !g.Ordered:
			return nil, invalid("provider %d is %s, whose order means nothing among prices", i+1, inner.Kind)
		default:
			members, err := inner.flat()
			if err != nil {
				return nil, err
			}
			for _, m := range members {
				all = append(all, tiered{m.Provider, tier + m.tier})
			}
			tier = all[len(all)-1].tier
		}
		if g.Ordered {
			tier++
		}
	}
	if all == nil {
		return nil, invalid("it is made of no provider")
	}
	return all, nil
}

// Open opens the members, all at once. It fails where all of them do.
func (g group) Open(ctx context.Context) (Driver, error) {
	all, err := g.flat()
	if err != nil {
		return nil, err
	}
	drivers, errs := make([]Driver, len(all)), make([]error, len(all))
	var opening sync.WaitGroup
	for i, p := range all {
		opening.Go(func() { drivers[i], errs[i] = p.Open(ctx) })
	}
	opening.Wait()
	d := &groupDriver{name: g.Kind}
	for i, p := range all {
		if errs[i] != nil {
			d.out = append(d.out, memberError{p.Name(), errs[i]})
			continue
		}
		d.add(p.Name(), p.tier, drivers[i])
	}
	if d.members == nil {
		return nil, errors.Join(errs...)
	}
	d.caps = d.common()
	return d, nil
}

// A memberError is why a member of a group is left out.
type memberError struct {
	provider string
	err      error
}

// A groupError is that members of a group could not be asked for offers. The others
// were.
type groupError []memberError

func (e groupError) Error() string { return errors.Join(e.Unwrap()...).Error() }

func (e groupError) Unwrap() []error {
	var errs []error
	for _, m := range e {
		errs = append(errs, m.err)
	}
	return errs
}
