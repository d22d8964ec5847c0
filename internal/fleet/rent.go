package fleet

import (
	"errors"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/cutoff"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// machines are where members' machines come from, and what ends them.
type machines interface {
	// candidates returns the offers that satisfy the pool's spec, the best first.
	candidates() ([]driver.Offer, error)
	// rent rents a machine for each of the members, by these offers, and has them live. It
	// returns those that got none, why, and how many offers in a row have refused.
	rent(members []*Member, offers []driver.Offer) (left []*Member, refused int, err error)
	// avoid has an offer come after others for a while, or not at all if why is not nil.
	avoid(o driver.Offer, why error)
	// discard ends a machine. What does not succeed is handed to failed, and tried again.
	discard(id string, failed func(error))
}

// A renter rents machines for members.
type renter struct {
	fleet     *Fleet
	gathering market.Gathering[*Member]
	pace      waitingPace
}

// rent rents a machine for each of the members and has them live. If there is no room, it waits
// for some as long as the fleet may. Those that get no machine fail.
func (r *renter) rent(members []*Member, offers []driver.Offer) {
	wait := r.newWait()
	for {
		left, refused, err := r.fleet.machines.rent(members, offers)
		if len(left) == 0 {
			return
		}
		for _, m := range left {
			m.refused = refused
		}
		if offers, err = wait.forOffers(left, err); err != nil {
			for _, m := range left {
				m.fail(err)
			}
			return
		}
		for _, m := range left {
			m.refused = 0 // the offers are others now
		}
		members = left
	}
}

// rentMore rents machines for members of a fleet that is open already. It waits until the provider
// has answered what it offers.
func (r *renter) rentMore(members []*Member) {
	offers, err := r.ask()
	if err != nil {
		offers, err = r.newWait().forOffers(members, err)
	}
	if err != nil {
		for _, m := range members {
			m.fail(err)
		}
		return
	}
	r.rent(members, offers)
}

// rentTogether rents for a member, and for those for which it is called at the same time.
func (r *renter) rentTogether(m *Member) {
	if members := r.gathering.Add(r.fleet.config.Context, m); members != nil {
		r.rentMore(members)
	}
}

// ask asks for candidates until there is an answer: a provider that cannot be reached is no
// reason to give up, or to do anything else.
func (r *renter) ask() ([]driver.Offer, error) {
	ctx := r.fleet.config.Context
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		offers, err := r.fleet.machines.candidates()
		switch {
		case err == nil, ctx.Err() != nil, retry.IsRefused(err) && !errors.Is(err, driver.ErrRateLimited):
			return offers, err
		}
		if !retry.Sleep(ctx, wait) {
			return nil, cutoff.By(ctx, err)
		}
	}
}

// A shop is the machines of a market, which an inventory keeps.
type shop struct{ config Config }

func (s *shop) candidates() ([]driver.Offer, error) {
	if err := s.config.Node.Given.Missing; err != nil {
		return nil, err // its machine could not be made ready
	}
	found, err := s.config.Market.Candidates(s.config.Context)
	if err != nil {
		return nil, cutoff.By(s.config.Context, err)
	}
	for _, source := range found.Out {
		s.config.Reporter.Trouble("member", source.Err)
	}
	return found.Offers, found.None
}

func (s *shop) rent(members []*Member, offers []driver.Offer) (left []*Member, refused int, err error) {
	for _, m := range members {
		refused = max(refused, m.refused)
	}
	purchase := market.NewPurchase(s.config.Market, buyer{s.config}, offers, s.config.MaxOffers, refused)
	left, err = purchase.Run(s.config.Context, members)
	return left, purchase.Refused(), err
}

func (s *shop) avoid(o driver.Offer, why error) { s.config.Market.Avoid(o, why) }

func (s *shop) discard(id string, failed func(error)) {
	s.config.Inventory.Discard(s.config.Context, id, func(err error) {
		failed(err)
		s.config.Inventory.AuditSoon()
	})
}

// A buyer launches the machines of a purchase.
type buyer struct{ config Config }

// Buy launches machines for as many of the members as the budget can pay for.
func (b buyer) Buy(o driver.Offer, members []*Member) (left []*Member, err error) {
	n, done, tooDear := b.config.Spending.Reserve(b.config.Context, o, len(members))
	defer done()
	if n == 0 {
		return members, tooDear
	}
	b.config.Reporter.Offered(o, "trying", nil)
	left, err = b.launch(o, members[:n:n])
	if err != nil {
		b.config.Reporter.Offered(o, "refused", err)
	}
	return append(left, members[n:]...), errors.Join(err, tooDear)
}

// Wanted leaves out members that were given up before they were launched.
func (b buyer) Wanted(members []*Member) (wanted []*Member) {
	b.config.Lock.Lock()
	defer b.config.Lock.Unlock()
	for _, m := range members {
		if !m.state.Over() {
			wanted = append(wanted, m)
		}
	}
	return wanted
}

func (b buyer) Refused(m *Member, err error) {
	b.config.Lock.Lock()
	defer b.config.Lock.Unlock()
	b.config.Reporter.Changed(Change{Member: m, State: Launching, Err: err})
}

func (b buyer) Progress(err error) { b.config.Reporter.Launching(err) }

// launch asks for the members' machines, all by one call, and has those that it gets live. It
// returns the others.
func (b buyer) launch(o driver.Offer, members []*Member) (left []*Member, err error) {
	ctx, inventory := b.config.Context, b.config.Inventory
	if err := inventory.PrepareAgain(ctx); err != nil {
		return members, err
	}
	req := driver.Launch{Offer: o, Query: b.config.Node.Wants.QueryOf(o), Packages: b.config.Packages}
	if b.config.ImageLogin != nil {
		req.ImageLogin = b.config.ImageLogin()
	}
	for _, m := range members {
		if err := m.Node.Prepare(o, inventory.Name(m.Rank())); err != nil {
			return members, err
		}
		req.Nodes = append(req.Nodes, m.Node.Request(m.Rank()))
	}
	phases := b.config.Node.Output.Phases("image", -1)
	req.Output = phases.Writer
	got, err := inventory.Launch(ctx, req, phases.Flush)
	taken := sync.OnceFunc(func() { b.config.Reporter.Offered(o, "taken", nil) })
	for _, m := range members {
		inst, ok := got.Machines[m.Node.Name()]
		if !ok {
			left = append(left, m)
			continue
		}
		tooMuch := b.config.Market.Overpriced(inst.Offer)
		if tooMuch != nil || got.Answer != nil && inst.State == driver.InstanceFailed {
			err = errors.Join(err, tooMuch)
			inventory.Discard(ctx, inst.ID, func(error) { inventory.AuditSoon() })
			left = append(left, m)
			continue
		}
		b.config.Lock.Lock()
		m.offer = o
		b.config.Lock.Unlock()
		taken()
		b.config.Node.Go(func() { m.live(inst, got.Answer) })
	}
	if err == nil && len(left) > 0 {
		err = b.config.Market.TooFew()
	}
	return left, err
}
