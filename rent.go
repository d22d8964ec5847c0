package gputrain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// avoidFor is how long an offer whose machine failed comes after all others.
const avoidFor = 10 * time.Minute

// A place is what machines of one offer have in common.
type place struct {
	member                   int
	region, instanceType, id string
	spot                     bool
}

func placeOf(o Offer) place { return place{o.member, o.Region, o.InstanceType, o.ID, o.Spot} }

// An avoidance is an offer whose machine failed.
type avoidance struct {
	at      time.Time
	certain error // not nil: the machine is always the same one, and would fail in this way again
}

// avoid puts the offer behind all others for a while.
func (p *pool) avoid(o Offer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.avoidLocked(o, nil)
}

// avoidLocked is avoid. With a certain error the offer is not taken at all meanwhile.
func (p *pool) avoidLocked(o Offer, certain error) {
	if p.avoided == nil {
		p.avoided = map[place]avoidance{}
	}
	p.avoided[placeOf(o)] = avoidance{now(), certain}
}

// avoids returns what failed of an offer's machine lately, and whether any did.
func (p *pool) avoids(o Offer) (certain error, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, failed := p.avoided[placeOf(o)]
	if !failed || now().Sub(a.at) >= avoidFor {
		return nil, false
	}
	return a.certain, true
}

// candidates returns the offers that satisfy the spec, the best first.
func (p *pool) candidates(ctx context.Context) ([]Offer, error) {
	var good []Offer
	var rejected []rejectedOffer
	var out groupError
	failed := map[place]bool{}
	for offer, err := range p.driver.Offers(ctx, p.spec) {
		if some, ok := errors.AsType[groupError](err); ok {
			out = some
			continue
		}
		if err != nil {
			return nil, p.interrupted(err)
		}
		if why := reject(offer, p.spec, p.capsOf(offer)); why.reasons != nil {
			rejected = append(rejected, rejectedOffer{offer, why})
			continue
		}
		certain, again := p.avoids(offer)
		if certain != nil {
			rejected = append(rejected, rejectedOffer{offer, rejection{reasons: []string{certain.Error()}}})
			continue
		}
		failed[placeOf(offer)] = again
		good = append(good, offer)
	}
	for _, m := range out {
		p.events.emit(Event{Kind: EventPool, State: "member", Err: m.err})
	}
	if good == nil {
		return nil, p.noOffers(p.rejections(rejected), out)
	}
	slices.SortStableFunc(good, func(a, b Offer) int {
		return cmp.Or(before(!failed[placeOf(a)], !failed[placeOf(b)]), p.compare(p.spec, a, b))
	})
	return good, nil
}

// noOffers is why there is no candidate. Where a group's member may answer a little
// later it is not said that there are no offers.
func (p *pool) noOffers(rejected string, out groupError) error {
	e := &Error{Provider: p.provider, Op: "offers", Kind: ErrNoOffers, Err: errors.New(rejected)}
	var later []error
	for _, m := range out {
		if isTransient(m.err) {
			later = append(later, m.err)
		}
	}
	switch {
	case later != nil:
		e.Kind, e.Err = ErrUnavailable, fmt.Errorf("%s; %w", rejected, errors.Join(later...))
	case out != nil:
		e.Err = fmt.Errorf("%s; %w", rejected, out)
	}
	return e
}

// before orders what is true first.
func before(a, b bool) int {
	switch {
	case a && !b:
		return -1
	case b && !a:
		return 1
	}
	return 0
}

// stillWanted leaves out nodes that were given up before they were launched.
func (p *pool) stillWanted(nodes []*poolNode) []*poolNode {
	p.mu.Lock()
	defer p.mu.Unlock()
	var wanted []*poolNode
	for _, n := range nodes {
		if !n.state.over() {
			wanted = append(wanted, n)
		}
	}
	return wanted
}

// launch asks for the nodes' machines, all by one call, and has those that it gets
// live. It returns the others.
func (p *pool) launch(o Offer, nodes []*poolNode) (left []*poolNode, err error) {
	m := p.memberOf(o)
	if err := p.prepareFor(m); err != nil {
		return nodes, err
	}
	var looked search
	req := LaunchRequest{Pool: p.infoNow().WithSettling(looked.by(p)), Offer: o, Spec: p.spec, Token: newToken()}
	for _, n := range nodes {
		if err := n.prepare(m); err != nil {
			return nodes, err
		}
		req.Nodes = append(req.Nodes, n.request())
	}
	if err := p.intend(o, req); err != nil {
		return nodes, err
	}
	output := &phaseOutput{out: p.out, of: "image"}
	req.Output = output.writer
	got, err := p.driver.Launch(p.ctx, req)
	beside := err // the machines that it comes with
	output.flush()
	p.made(err)
	p.adopt(got)
	byName := map[string]Instance{}
	for _, inst := range got {
		byName[inst.Name] = inst
	}
	var missing []string
	for _, n := range nodes {
		if _, ok := byName[n.name]; !ok {
			missing = append(missing, n.name)
		}
	}
	if len(missing) > 0 {
		found, settleErr := p.settle(p.ctx, missing, looked.end(p.caps.ListLag), err)
		for _, inst := range found {
			byName[inst.Name] = inst
		}
		err = errors.Join(err, settleErr)
	}
	for _, n := range nodes {
		inst, ok := byName[n.name]
		if !ok {
			left = append(left, n)
			continue
		}
		tooMuch := p.overpriced(inst.Offer)
		if tooMuch != nil || beside != nil && inst.State == InstanceFailed {
			err = errors.Join(err, tooMuch)
			p.discard(inst.ID, func(error) { p.auditSoon() })
			left = append(left, n)
			continue
		}
		p.mu.Lock()
		n.offer = o
		p.mu.Unlock()
		p.lives.Go(func() { n.live(inst, beside) })
	}
	if err == nil && len(left) > 0 {
		err = p.notLaunched(nil)
	}
	return left, err
}

var errOverpriced = errors.New("it was ended at once")

// overpriced says what is wrong with what a machine really costs, or nil.
func (p *pool) overpriced(o Offer) error {
	why := rejectPrice(o, p.spec)
	if why == "" {
		return nil
	}
	return &Error{Provider: p.provider, Op: "launch", Kind: ErrNoOffers, Err: fmt.Errorf("%w: %s in %s, as launched, %s", errOverpriced, o.InstanceType, o.Region, why)}
}

func (p *pool) notLaunched(err error) error {
	if err != nil {
		return err
	}
	return &Error{Provider: p.provider, Op: "launch", Kind: ErrNoCapacity, Err: errors.New("the provider launched fewer machines than it was asked for")}
}

// isSettled reports whether a launch that failed so has made nothing beyond what
// it returned: the provider has said no.
func isSettled(err error) bool {
	for _, kind := range []error{ErrNoCapacity, ErrQuota, ErrAuth, ErrInvalid, ErrNoOffers, ErrUnsupported, ErrRateLimited, ErrNotFound} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// settle finds out what has become of machines that a launch was to make and did
// not return. They are in the provider's list, at the latest after the deadline, or
// count as never made: should they come after all, an audit ends them. What ctx
// leaves open stays so in the ledger.
func (p *pool) settle(ctx context.Context, names []string, deadline time.Time, why error) ([]Instance, error) {
	if isSettled(why) {
		return nil, p.neverMade(names)
	}
	waits := false
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		at := now()
		found, err := p.listed(ctx, names)
		if err == nil && (len(found) == len(names) || !at.Before(deadline)) {
			p.adopt(found)
			for _, inst := range found {
				names = slices.DeleteFunc(names, func(s string) bool { return s == inst.Name })
			}
			return found, p.neverMade(names)
		}
		if !waits && deadline.After(at) {
			waits = true
			p.settling(mayBeMade(names, why), deadline)
		}
		if !sleep(ctx, wait) {
			p.adopt(found)
			return found, err
		}
	}
}

// mayBeMade is why machines of these names are looked for.
func mayBeMade(names []string, why error) error {
	if why == nil {
		why = errors.New("the provider has not said whether it was")
	}
	return fmt.Errorf("%s may have been made: %w", strings.Join(names, ", "), why)
}

// A search is what drivers did in one launch to find what an unanswered call has made.
type search struct {
	mu    sync.Mutex
	until time.Time // of the latest; zero if there was none
}

// by returns what a driver calls when it begins to look.
func (s *search) by(p *pool) func(why error, until time.Time) {
	return func(why error, until time.Time) {
		s.mu.Lock()
		latest(&s.until, until)
		s.mu.Unlock()
		p.settling(why, until)
	}
}

// end returns when a list has whatever the launch has made, which is over: the lag of lists
// is waited for once, by the driver or after it.
func (s *search) end(lag time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.until, now().Add(lag))
}

// listed returns those of the named machines that the provider lists. Where there
// are two of one name, the first counts: an audit ends the other.
func (p *pool) listed(ctx context.Context, names []string) ([]Instance, error) {
	machines, err := p.listMachines(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	seen := map[string]bool{}
	for _, r := range sortedResources(machines) {
		if slices.Contains(names, r.Name) && !seen[r.Name] {
			seen[r.Name] = true
			ids = append(ids, r.ID)
		}
	}
	if ids == nil {
		return nil, nil
	}
	found, err := p.driver.Describe(ctx, ids...)
	return slices.DeleteFunc(found, func(i Instance) bool { return i.State == InstanceTerminated || !slices.Contains(names, i.Name) }), err
}
