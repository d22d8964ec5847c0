package gputrain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// releaseTimeout bounds the end of a pool, whatever became of its context.
	releaseTimeout = 3 * time.Minute
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
	return fmt.Sprintf("not confirmed gone: %s: %v", strings.Join(names, "; "), e.Err)
}

// Unwrap returns why.
func (e *LeakError) Unwrap() error { return e.Err }

// close ends the pool, once. Everybody who calls it gets the same answer when
// all is over.
func (p *pool) close() error {
	p.closeOnce.Do(func() { p.closeErr = p.end() })
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

	ctx, stop := context.WithTimeout(context.WithoutCancel(p.ctx), releaseTimeout)
	defer stop()
	p.lives.Wait() // a launch in flight ends with its context, and what it returned is known then
	var left error
	if p.caps.Adopts {
		left = p.leave(ctx)
	}
	p.disconnect() // which also ends the attempts that still wait for an answer
	p.running.Wait()
	p.background.Wait()
	terminated := p.terminate(ctx)
	released := p.release(ctx)

	err := errors.Join(left, terminated, released, p.driver.Close())
	p.events.emit(Event{Kind: EventCost, CostUSD: p.costUSD()})
	p.events.emit(Event{Kind: EventPool, State: "closed", Err: err})
	p.events.close()
	return err
}

// disconnect closes the connections to all nodes.
func (p *pool) disconnect() {
	p.mu.Lock()
	nodes := slices.Clone(p.nodes)
	p.mu.Unlock()
	for _, n := range nodes {
		n.disconnect()
	}
}

// leave tidies up on machines that go on without the pool, and names those on
// which that was not possible. Their lease ends later what is left there.
func (p *pool) leave(ctx context.Context) error {
	p.mu.Lock()
	nodes := slices.Clone(p.nodes)
	p.mu.Unlock()
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
				Provider: p.provider, Kind: "files and processes of the pool on", ID: n.inst.ID, Name: n.name, HourlyUSD: USD(0),
			})
		}
	}
	if leak.Resources == nil {
		return nil
	}
	leak.Err = fmt.Errorf("%w; the node's lease of %v ends them", joinOnce(slices.DeleteFunc(errs, func(e error) bool { return e == nil })), p.spec.lease())
	return &leak
}

// terminate ends every machine and returns when the provider confirms that.
func (p *pool) terminate(ctx context.Context) error {
	left := p.known()
	var last error
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		listed, err := p.listMachines(ctx)
		last = err
		for id, r := range listed {
			left[id] = r
		}
		if err == nil && len(left) == 0 {
			break
		}
		if err := p.driver.Terminate(ctx, slices.Sorted(maps.Keys(left))...); err != nil {
			last = err
		} else if left, err = p.unconfirmed(ctx, left); err != nil {
			last = err
		} else if len(left) == 0 && last == nil {
			break
		}
		if !sleep(ctx, wait) {
			return &LeakError{Resources: sortedResources(left), Err: errors.Join(ctx.Err(), last)}
		}
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

// known returns the machines that launches returned, as resources.
func (p *pool) known() map[string]Resource {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := map[string]Resource{}
	for id, m := range p.machines {
		left[id] = Resource{Provider: p.provider, Kind: "machine", ID: id, Name: m.Name, Region: m.Offer.Region, HourlyUSD: m.Offer.HourlyUSD}
	}
	return left
}

// listMachines returns the machines that the provider knows of, also those of
// a launch whose answer never came.
func (p *pool) listMachines(ctx context.Context) (map[string]Resource, error) {
	listed, err := p.driver.List(ctx, p.id)
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

// unconfirmed returns those machines that are not confirmed gone.
func (p *pool) unconfirmed(ctx context.Context, left map[string]Resource) (map[string]Resource, error) {
	if len(left) == 0 {
		return left, nil
	}
	found, err := p.driver.Describe(ctx, slices.Sorted(maps.Keys(left))...)
	if err != nil {
		return left, err
	}
	for _, inst := range found {
		if inst.State == InstanceTerminated {
			delete(left, inst.ID)
			p.endBill(inst.ID)
		}
	}
	return left, nil
}

// release removes what the nodes shared.
func (p *pool) release(ctx context.Context) error {
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := p.driver.Release(ctx, p.info)
		if err == nil {
			return nil
		}
		if !sleep(ctx, wait) {
			listed, listErr := p.driver.List(context.WithoutCancel(ctx), p.id)
			return &LeakError{Resources: listed, Err: errors.Join(err, listErr)}
		}
	}
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
