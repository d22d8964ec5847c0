package market

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/gputrain/gputrain/providers/driver"
)

// Offers asks all members at once and yields their offers in the order of the members. A
// [*driver.PartialError] comes last if some members, but not all, failed.
func (g *Group) Offers(ctx context.Context, query driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		found := make([][]driver.Offer, len(g.members))
		failed := make([]error, len(g.members))
		done := make([]chan struct{}, len(g.members))
		var asking sync.WaitGroup
		defer asking.Wait()
		defer stop()
		for i, m := range g.members {
			done[i] = make(chan struct{})
			asking.Go(func() {
				defer close(done[i])
				for o, err := range m.driver.Offers(ctx, query) {
					if failed[i] = err; err != nil {
						return
					}
					found[i] = append(found[i], m.groupOffer(o))
				}
			})
		}
		for i := range g.members {
			<-done[i]
			for _, o := range found[i] {
				if !yield(o, nil) {
					return
				}
			}
		}
		if err := g.leftOut(failed); err != nil {
			yield(driver.Offer{}, err)
		}
	}
}

// leftOut makes one error of those of the members.
func (g *Group) leftOut(failed []error) error {
	out, asked := &driver.PartialError{Sources: slices.Clone(g.out)}, false
	for i, m := range g.members {
		some, partly := errors.AsType[*driver.PartialError](failed[i])
		switch {
		case failed[i] == nil:
			asked = true
		case partly: // the member is made of others itself
			asked = true
			out.Sources = append(out.Sources, some.Sources...)
		default:
			out.Sources = append(out.Sources, driver.SourceError{Provider: m.provider, Err: failed[i]})
		}
	}
	switch {
	case out.Sources == nil:
		return nil
	case asked:
		return out
	}
	return errors.Join(out.Unwrap()...)
}
