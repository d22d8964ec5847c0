package market

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gputrain/gputrain/providers/driver"
)

// Cheapest returns a provider made of others whose offers are compared by price alone.
func Cheapest(providers ...driver.Provider) driver.Provider {
	return group{Kind: "cheapest", Providers: slices.Clone(providers)}
}

// FirstOf returns a provider made of others whose offers come in the order of the providers.
func FirstOf(providers ...driver.Provider) driver.Provider {
	return group{Kind: "firstof", Ordered: true, Providers: slices.Clone(providers)}
}

// Flatten returns the members of a group, or the provider alone.
func Flatten(p driver.Provider) ([]driver.Provider, error) {
	g, ok := p.(group)
	if !ok {
		return []driver.Provider{p}, nil
	}
	members, err := g.flat()
	if err != nil {
		return nil, err
	}
	all := make([]driver.Provider, len(members))
	for i, m := range members {
		all[i] = m.Provider
	}
	return all, nil
}

// A group is a provider made of others. Its fields are exported for package fmt, which does not call the formatting
// methods of values in unexported fields.
type group struct {
	Kind      string
	Ordered   bool // the members' offers come in the order of the members
	Providers []driver.Provider
}

func (g group) Name() string { return g.Kind }

// A tiered provider is a member of a group: offers of a lower tier come first.
type tiered struct {
	driver.Provider
	tier int
}

// flat returns the providers that are not groups.
func (g group) flat() (all []tiered, err error) {
	invalid := func(format string, args ...any) error {
		return &driver.Error{Provider: g.Kind, Op: "open", Kind: driver.ErrInvalid, Err: fmt.Errorf(format, args...)}
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

// Open opens the members, all at once. It fails if all of them do.
func (g group) Open(ctx context.Context) (driver.Driver, error) {
	all, err := g.flat()
	if err != nil {
		return nil, err
	}
	drivers, errs := make([]driver.Driver, len(all)), make([]error, len(all))
	var opening sync.WaitGroup
	for i, p := range all {
		opening.Go(func() { drivers[i], errs[i] = p.Open(ctx) })
	}
	opening.Wait()
	d := &Group{name: g.Kind}
	for i, p := range all {
		if errs[i] != nil {
			d.out = append(d.out, driver.SourceError{Provider: p.Name(), Err: errs[i]})
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
