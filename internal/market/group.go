package market

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
	return g.open(func(p driver.Provider) (driver.Driver, error) { return p.Open(ctx) })
}

// OpenPublic opens the members, and those that lack a credential without one.
func (g group) OpenPublic(ctx context.Context) (driver.Driver, error) {
	return g.open(func(p driver.Provider) (driver.Driver, error) {
		return OpenToAsk(ctx, p)
	})
}

// OpenToAsk opens a provider only to ask for its offers: without a credential, if that is missing and the provider's
// offers are public.
func OpenToAsk(ctx context.Context, p driver.Provider) (driver.Driver, error) {
	d, err := p.Open(ctx)
	public, ok := p.(driver.PublicProvider)
	if !ok || !errors.Is(err, driver.ErrAuth) {
		return d, err
	}
	open, failed := public.OpenPublic(ctx)
	if failed != nil {
		return nil, err // that a credential is missing is the better reason
	}
	if _, several := p.(group); several {
		return open, nil // its members say so
	}
	return withoutKey{open}, nil
}

// A withoutKey driver was opened without a credential. Its offers say so.
type withoutKey struct{ driver.Driver }

func (d withoutKey) Offers(ctx context.Context, q driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		for o, err := range d.Driver.Offers(ctx, q) {
			o.Warnings = append(slices.Clip(o.Warnings), "it is from the public price list: a credential is missing")
			if !yield(o, err) {
				return
			}
		}
	}
}

func (g group) open(open func(driver.Provider) (driver.Driver, error)) (driver.Driver, error) {
	all, err := g.flat()
	if err != nil {
		return nil, err
	}
	drivers, errs := make([]driver.Driver, len(all)), make([]error, len(all))
	var opening sync.WaitGroup
	for i, p := range all {
		opening.Go(func() { drivers[i], errs[i] = open(p.Provider) })
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
