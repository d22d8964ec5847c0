package gputrain

import (
	"context"
	"maps"
	"slices"
	"time"
)

const (
	// auditAfter is how long after a launch the provider is asked what it really
	// holds, and auditEvery how often without one.
	auditAfter, auditEvery = 30 * time.Second, 10 * time.Minute
)

// audit compares what the provider holds for the pool with what the pool wants,
// now and then, and ends the rest: a second machine of one name, one that came to
// light after its launch was given up, one that was said to be gone and is not.
func (p *pool) audit() {
	if p.caps.Adopts {
		return
	}
	timer := time.NewTimer(auditEvery)
	defer timer.Stop()
	soon := func() time.Duration { return max(auditAfter, p.wholeFrom().Sub(now())) }
	due := now().Add(auditEvery)
	wait := func(d time.Duration) {
		due = now().Add(d)
		timer.Reset(d)
	}
	again := false // there was another reason while one was waited for
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.launched:
			if again = due.Sub(now()) <= soon(); !again {
				wait(soon())
			}
		case <-timer.C:
			err := p.endStrays(p.ctx)
			if err != nil && p.ctx.Err() == nil {
				p.events.emit(Event{Kind: EventPool, State: "audit", Err: err})
			}
			if err != nil || again {
				wait(soon())
			} else {
				wait(auditEvery)
			}
			again = false
		}
	}
}

// auditSoon has the provider asked soon what it really holds.
func (p *pool) auditSoon() {
	select {
	case p.launched <- struct{}{}:
	default:
	}
}

// endStrays ends the machines that no node has.
func (p *pool) endStrays(ctx context.Context) error {
	listed, err := p.listMachines(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	for id, r := range listed {
		m := p.machines[id]
		if _, comes := p.inFlight[r.Name]; m == nil && comes || m != nil && !m.unwanted {
			delete(listed, id)
			continue
		}
		switch {
		case r.State == InstanceTerminated:
		case m == nil:
			p.strayLocked(r)
		case !m.to.IsZero():
			m.to, m.unbilled = time.Time{}, time.Time{} // that was a lie
		}
	}
	for id, m := range p.machines {
		switch {
		case m.awaited:
			delete(listed, id)
		case m.unwanted && m.to.IsZero():
			listed[id] = m.resource()
		}
	}
	p.mu.Unlock()
	if len(listed) == 0 {
		return nil
	}
	asked := slices.Collect(maps.Keys(listed))
	left, err := p.endMachines(ctx, listed)
	p.mu.Lock()
	for _, id := range asked {
		if _, remains := left[id]; !remains && p.strays[id] != nil && p.strays[id].to.IsZero() {
			p.strays[id].to = now()
		}
	}
	p.mu.Unlock()
	if err == nil && len(left) > 0 {
		err = &LeakError{Resources: sortedResources(left), Err: errNotYet}
	}
	return err
}

// strayLocked has a machine counted that the pool never knew of: it costs as much as
// the others. It is not among them, since the ledger may know its name as another's.
func (p *pool) strayLocked(r Resource) {
	if p.strays[r.ID] != nil {
		return
	}
	if p.strays == nil {
		p.strays = map[string]*machine{}
	}
	m := &machine{from: r.Created, unwanted: true, inst: Instance{
		ID: r.ID, Name: r.Name, Rank: -1, Offer: Offer{Provider: r.Provider, Region: r.Region, HourlyUSD: r.HourlyUSD},
	}}
	if m.from.IsZero() {
		m.from = now()
	}
	for _, other := range p.bought {
		if other.inst.Name == r.Name { // it was launched with this one
			m.inst.Offer, m.inst.Rank = other.inst.Offer, other.inst.Rank
		}
	}
	p.strays[r.ID] = m
	p.bought = append(p.bought, m)
}
