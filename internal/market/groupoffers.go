package market

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A member of several has offersTimeout for all of its offers. The others do not wait for it any longer.
const offersTimeout = 30 * time.Second

// patience returns the context of a question to a member. One that is a group itself bounds its own members.
func (m *member) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, group := m.driver.(*Group); group {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, offersTimeout, fmt.Errorf("it has not answered within %v, and the others are not to wait for it", offersTimeout))
}

// askOffers returns the offers of a member, as the group's.
func (m *member) askOffers(caller context.Context, query driver.Query) (found []driver.Offer, err error) {
	ctx, stop := m.patience(caller)
	defer stop()
	for o, err := range m.driver.Offers(ctx, query) {
		switch {
		case err != nil && ctx.Err() != nil && caller.Err() == nil:
			return found, &driver.Error{Provider: m.provider, Op: "offers", Kind: driver.ErrUnavailable, Err: context.Cause(ctx)}
		case err != nil:
			return found, err
		}
		found = append(found, m.groupOffer(o))
	}
	return found, nil
}

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
				found[i], failed[i] = m.askOffers(ctx, query)
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
