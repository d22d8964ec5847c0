package gputrain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/printable"
)

const (
	// endTimeout bounds the end of a pool's machines, whatever became of its context.
	endTimeout = 3 * time.Minute
	// leaveTimeout bounds the tidying up of one adopted machine.
	leaveTimeout = 30 * time.Second
)

// A LeakError names what the provider has not confirmed to be gone. It may
// still cost money: end it by hand.
type LeakError struct {
	// Resources are what is left, as far as it is known.
	Resources []Resource
	// Err is why.
	Err error
}

// Error names each resource by provider, kind, id, region and price.
func (e *LeakError) Error() string {
	var names []string
	for _, r := range e.Resources {
		s := fmt.Sprintf("%s %s %s", r.Provider, r.Kind, r.ID)
		if r.Region != "" {
			s += " in " + r.Region
		}
		if usd, known := r.HourlyUSD.USD(); !known || usd > 0 {
			s += " at " + r.HourlyUSD.String() + " an hour"
		}
		names = append(names, s)
	}
	return printable.Text(fmt.Sprintf("not confirmed gone: %s: %v", strings.Join(names, "; "), e.Err))
}

// Unwrap returns why.
func (e *LeakError) Unwrap() error { return e.Err }

// close ends the pool, once. Everybody who calls it gets the same answer when
// all is over.
func (p *pool) close() error { return p.closeBy(p.end) }

func (p *pool) closeBy(end func() error) error {
	first := false
	p.closeOnce.Do(func() { first, p.closed = true, make(chan struct{}) })
	if first {
		p.closeErr = end()
		close(p.closed)
	}
	<-p.closed // not in the Once: virtual time does not go on while one waits for that
	return p.closeErr
}

func (p *pool) end() error {
	p.events.emit(Event{Kind: EventPool, State: "closing"})
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	p.watch()
	p.cancel(ErrClosed)
	p.expire()
	p.finish(ErrClosed)

	ctx := context.WithoutCancel(p.ctx)
	p.lives.Wait() // a launch in flight ends with its context, and what it returned is known then
	fenced := p.fenced()
	var left error
	if fenced == nil {
		left = p.leave(ctx)
	}
	p.disconnect() // which also ends the attempts that still wait for an answer
	p.running.Wait()
	p.background.Wait()
	p.journal.close()
	err := cmp.Or(fenced, p.fenced())
	if err == nil && p.ledger != nil { // or nothing was ever made
		p.noteClosing()
		err = errors.Join(left, p.endRented(ctx, endTimeout))
	}
	err = errors.Join(err, p.closeLedger(err == nil), p.driver.Close())
	p.events.emit(Event{Kind: EventPool, State: "closed", Err: err})
	p.events.close()
	return err
}

// endRented ends every machine, within a time, and removes what they shared, within another:
// a machine that is slow to go leaves nothing else behind.
func (p *pool) endRented(ctx context.Context, limit time.Duration) error {
	machines, stop := context.WithTimeout(ctx, limit)
	defer stop()
	err := p.terminate(machines)
	if errors.Is(err, ErrFenced) {
		return err
	}
	shared, stop := context.WithTimeout(ctx, sharedTimeout)
	defer stop()
	return errors.Join(err, p.release(shared))
}

// disconnect closes the connections to all nodes.
func (p *pool) disconnect() {
	for _, n := range p.everyNode() {
		n.disconnect()
	}
}

// everyNode returns the nodes, and those whose place another one has taken.
func (p *pool) everyNode() []*poolNode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append(slices.Clone(p.nodes), p.former...)
}

// leave tidies up on machines that go on without the pool, and names those on
// which that was not possible. Their lease ends later what is left there.
func (p *pool) leave(ctx context.Context) error {
	nodes := slices.DeleteFunc(p.everyNode(), func(n *poolNode) bool { return !n.caps().Adopts })
	ctx, stop := context.WithTimeout(ctx, leaveTimeout)
	defer stop()
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { errs[i] = n.leave(ctx) })
	}
	all.Wait()
	var leak LeakError
	for i, n := range nodes {
		if errs[i] != nil {
			leak.Resources = append(leak.Resources, Resource{
				Provider: n.provider(), Kind: "files and processes of the pool on", ID: n.inst.ID, Name: n.name, HourlyUSD: USD(0),
			})
		}
	}
	if leak.Resources == nil {
		return nil
	}
	leak.Err = fmt.Errorf("%w; the node's lease of %v ends them", joinOnce(slices.DeleteFunc(errs, func(e error) bool { return e == nil })), p.spec.lease())
	return &leak
}

// terminate ends every machine and returns when the provider confirms that. What
// a launch may have made that never was answered is waited for.
func (p *pool) terminate(ctx context.Context) error {
	beside := &earlyRelease{p: p}
	defer beside.end()
	if names := p.openIntents(); len(names) > 0 {
		_, _ = p.endMachines(ctx, p.known()) // those need not wait; they are looked after below
		if _, err := p.settle(ctx, names, p.wholeFrom(), nil); err != nil {
			p.events.emit(Event{Kind: EventPool, State: "settling", Err: err})
		}
	}
	p.sayWhole()
	left := p.known()
	var last error
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		at := now()
		listed, err := p.listMachines(ctx)
		last = err
		maps.Copy(left, listed)
		if err == nil && len(left) == 0 && !at.Before(p.wholeFrom()) {
			break
		}
		if left, err = p.endMachines(ctx, left); err != nil {
			last = err
		}
		if errors.Is(err, ErrFenced) {
			return err
		}
		if err == nil && len(left) > 0 {
			beside.begin(ctx)
		}
		// A list that was empty before says nothing of a machine that lied about its end.
		if len(left) == 0 && last == nil {
			at = now()
			if listed, err = p.listMachines(ctx); err == nil && len(listed) == 0 && !at.Before(p.wholeFrom()) {
				break
			}
			maps.Copy(left, listed)
			last = err
		}
		if !sleep(ctx, p.untilWhole(wait)) {
			return p.leaked(left, errors.Join(ctx.Err(), last))
		}
	}
	if names := p.openIntents(); len(names) > 0 {
		return p.leaked(p.intended(names), errors.New("the provider has not said whether they were ever made"))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.nodes {
		if !n.state.over() {
			n.enterLocked(NodeTerminated, nil)
		}
	}
	return nil
}

func (p *pool) leaked(left map[string]Resource, why error) error {
	if why == nil {
		why = errNotYet
	}
	return &LeakError{Resources: sortedResources(left), Err: why}
}

var errNotYet = errors.New("the provider still has them")

// endMachines asks for the end of machines, and returns those that are not
// confirmed gone. A program that was asleep while another one took the pool may not
// have heard of that: it ends nothing.
func (p *pool) endMachines(ctx context.Context, left map[string]Resource) (map[string]Resource, error) {
	if len(left) == 0 {
		return left, nil
	}
	if err := p.fenced(); errors.Is(err, ErrFenced) {
		p.finish(err)
		return left, err
	}
	ids := slices.Sorted(maps.Keys(left))
	p.noteEnding(ids)
	if err := p.driver.Terminate(ctx, ids...); err != nil {
		// Some may be gone all the same.
		left, _ = p.unconfirmed(ctx, left)
		return left, err
	}
	p.noteAccepted(ids)
	return p.unconfirmed(ctx, left)
}

// noteAccepted notes that the provider has accepted the end of machines.
func (p *pool) noteAccepted(ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if m := p.machines[id]; m != nil && m.accepted.IsZero() {
			m.accepted = now()
		}
	}
}

// known returns the machines that are not confirmed gone, as resources.
func (p *pool) known() map[string]Resource {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := map[string]Resource{}
	for id, m := range p.machines {
		if m.to.IsZero() {
			left[id] = m.resource()
		}
	}
	return left
}

// listMachines returns the machines that the provider knows of, also those of
// a launch whose answer never came.
func (p *pool) listMachines(ctx context.Context) (map[string]Resource, error) {
	listed, err := p.list(ctx)
	if err != nil {
		return nil, err
	}
	machines := map[string]Resource{}
	for _, r := range listed {
		if r.Kind == "machine" {
			machines[r.ID] = r
		}
	}
	return machines, nil
}

// list returns what the provider holds for the pool.
func (p *pool) list(ctx context.Context) ([]Resource, error) {
	listed, err := p.driver.List(ctx, p.id)
	if p.seen != nil {
		for _, r := range listed {
			p.seen[r.ID] = r
		}
	}
	return listed, err
}

// unconfirmed returns those machines that are not confirmed gone.
func (p *pool) unconfirmed(ctx context.Context, left map[string]Resource) (map[string]Resource, error) {
	found, err := p.driver.Describe(ctx, slices.Sorted(maps.Keys(left))...) // a group may know of some and not of all
	var gone []string
	cheaper := false
	p.mu.Lock()
	for _, inst := range found {
		if m := p.machines[inst.ID]; m != nil && m.told(inst.State) {
			cheaper = true
		}
		if _, asked := left[inst.ID]; asked && inst.State == InstanceTerminated {
			delete(left, inst.ID)
			gone = append(gone, inst.ID)
		}
	}
	p.mu.Unlock()
	if cheaper {
		p.events.emit(Event{Kind: EventCost, CostUSD: p.costUSD()})
	}
	p.gone(gone)
	return left, err
}

func sortedResources(m map[string]Resource) []Resource {
	return slices.SortedFunc(maps.Values(m), func(a, b Resource) int { return strings.Compare(a.ID, b.ID) })
}

// sleep waits, and reports whether ctx allows more.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
