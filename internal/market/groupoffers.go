package market

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// A member of several has offersTimeout for all of its offers, once another one has answered.
	offersTimeout = 30 * time.Second
	// A group in a group has groupTimeout more, since it has to tell what its own members have answered.
	groupTimeout = 5 * time.Second
)

var errSlow = fmt.Errorf("it has not answered within %v, and the others are not to wait for it", offersTimeout)

// askOffers returns the offers of a member, as the group's. ctx may end before the caller's.
func (m *member) askOffers(ctx, caller context.Context, query driver.Query) (found []driver.Offer, err error) {
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
		slow := make([]context.CancelCauseFunc, len(g.members))
		answered := make(chan struct{}, len(g.members))
		var asking sync.WaitGroup
		defer asking.Wait()
		defer stop()
		for i, m := range g.members {
			done[i] = make(chan struct{})
			var mine context.Context
			mine, slow[i] = context.WithCancelCause(ctx)
			asking.Go(func() {
				defer close(done[i])
				defer slow[i](nil)
				found[i], failed[i] = m.askOffers(mine, ctx, query)
				if _, partly := errors.AsType[*driver.PartialError](failed[i]); partly || failed[i] == nil {
					answered <- struct{}{}
				}
			})
		}
		asking.Go(func() { g.hurry(ctx, answered, slow) })
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

// hurry ends the questions that are open after their time, once a member has answered. As long as none has, nobody waits in vain.
func (g *Group) hurry(ctx context.Context, answered <-chan struct{}, slow []context.CancelCauseFunc) {
	if !retry.Sleep(ctx, offersTimeout) {
		return
	}
	select {
	case <-answered:
	case <-ctx.Done():
		return
	}
	for _, groups := range []bool{false, true} {
		for i, m := range g.members {
			if _, group := m.driver.(*Group); group == groups {
				slow[i](errSlow)
			}
		}
		if !groups && !retry.Sleep(ctx, groupTimeout) {
			return
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
