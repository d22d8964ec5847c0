package market

import (
	"context"
	"errors"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// queries are what the driver is asked: one query for each of the wanted accelerators.
func (w Wants) queries() []driver.Query {
	if len(w.AnyOf) == 0 {
		return []driver.Query{w.Query}
	}
	all := make([]driver.Query, len(w.AnyOf))
	for i, a := range w.AnyOf {
		all[i] = w.Query
		all[i].Accelerator = a
	}
	return all
}

// QueryOf returns the query that an offer answers: with the first of the wanted accelerators that
// the offer has.
func (w Wants) QueryOf(o driver.Offer) driver.Query {
	q := w.Query
	if len(w.AnyOf) > 0 {
		q.Accelerator = w.nearest(o.Accelerator)
	}
	return q
}

// nearest returns the one of the wanted accelerators that is the nearest to what a machine has.
func (w Wants) nearest(has accelerators.Accelerator) accelerators.Accelerator {
	if len(w.AnyOf) == 0 {
		return w.Accelerator
	}
	best := w.AnyOf[0]
	for _, a := range w.AnyOf[1:] {
		if distance(a, has) < distance(best, has) {
			best = a
		}
	}
	return best
}

// placed reports whether the spec limits where machines are.
func (w Wants) placed() bool { return len(w.Regions)+len(w.Countries) > 0 }

// elsewhereOffers returns what the provider has outside of the spec's regions and countries, for the reason why it offers
// nothing inside. An error leaves that open.
func elsewhereOffers(ctx context.Context, m *Market) (outside []driver.Offer) {
	anywhere := m.wants
	anywhere.Regions, anywhere.Countries = nil, nil
	offers, _, err := m.ask(ctx, anywhere)
	if err != nil {
		return nil
	}
	for _, o := range offers {
		if !m.wants.Allows(o.Region, o.Country) { // others were not offered for this spec
			outside = append(outside, o)
		}
	}
	return outside
}

// ask asks the driver for its offers, and returns each once, with the sources that could not be
// asked. A driver that refuses one of several queries, since it never has such an accelerator, is such a source.
func (m *Market) ask(ctx context.Context, wants Wants) (found []driver.Offer, out []driver.SourceError, err error) {
	queries, at := wants.queries(), map[offerKey]int{}
	for _, q := range queries {
		for o, err := range m.driver.Offers(ctx, q) {
			if some, ok := errors.AsType[*driver.PartialError](err); ok {
				out = append(out, some.Sources...)
				continue
			}
			if err != nil {
				if len(queries) == 1 || !retry.IsRefused(err) || errors.Is(err, driver.ErrAuth) || errors.Is(err, driver.ErrRateLimited) {
					return nil, nil, err
				}
				out = append(out, driver.SourceError{Provider: m.provider, Err: err})
				break
			}
			key := offerKeyOf(o)
			i, again := at[key]
			switch {
			case !again:
				at[key] = len(found)
				found = append(found, o)
			case found[i].Rejected != "" && o.Rejected == "": // only one of the queries rejects it
				found[i] = o
			}
		}
	}
	return found, distinctSources(out), nil
}

// distinctSources leaves out sources that another query has named with the same error.
func distinctSources(all []driver.SourceError) (out []driver.SourceError) {
	seen := map[string]bool{}
	for _, s := range all {
		key := s.Provider + "\x00" + s.Err.Error()
		if !seen[key] {
			out = append(out, s)
		}
		seen[key] = true
	}
	return out
}
