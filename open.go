package gputrain

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gputrain/gputrain/internal/bootstrap"
)

// Open makes a pool: it finds the cheapest offer that satisfies the spec,
// launches the nodes, and returns once Spec.MinReady of them are ready.
//
// The pool lives until Close, or until ctx ends: that ends the pool as Close
// does. An error leaves nothing behind, or says in a *LeakError what it left.
func Open(ctx context.Context, provider Provider, spec Spec, opts ...Option) (*Compute, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if provider == nil {
		return nil, &Error{Op: "open", Kind: ErrInvalid, Err: errors.New("the provider is nil; local.Config{} is the simplest")}
	}
	if err := errors.Join(spec.Validate(), o.validate()); err != nil {
		return nil, err
	}
	if _, err := bootstrap.Plan(bootstrap.Image(spec.Image)); err != nil {
		return nil, &Error{Op: "image", Kind: ErrInvalid, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	driver, err := provider.Open(ctx)
	if err != nil {
		return nil, err
	}
	p, err := newPool(ctx, provider.Name(), driver, spec, o)
	if err != nil {
		return nil, errors.Join(err, driver.Close())
	}
	err = p.open()
	p.lives.Done()
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return &Compute{p: p, ctx: p.ctx}, nil
}

// With opens a pool, runs body, and closes the pool when body returns or
// panics. ctx inside body ends with the pool. The error joins body's and that of
// Close.
func With(ctx context.Context, provider Provider, spec Spec, body func(ctx context.Context, pool *Compute) error, opts ...Option) (err error) {
	c, err := Open(ctx, provider, spec, opts...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return body(c.ctx, c)
}

// open launches the nodes and waits for the first MinReady.
func (p *pool) open() error {
	p.events.emit(Event{Kind: EventPool, State: "opening"})
	offer, err := p.selectOffer()
	if err != nil {
		return err
	}
	if err := p.driver.Prepare(p.ctx, p.info); err != nil {
		return p.interrupted(err)
	}
	if err := p.launch(offer); err != nil {
		return err
	}
	if err := p.awaitReady(p.spec.minReady()); err != nil {
		return err
	}
	p.events.emit(Event{Kind: EventPool, State: "ready"})
	return nil
}

// awaitReady waits until so many nodes are ready, or can no longer become so.
func (p *pool) awaitReady(want int) error {
	stop := context.AfterFunc(p.ctx, p.changed.Broadcast)
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		ready, possible := 0, 0
		for _, n := range p.nodes {
			if n.state == NodeReady {
				ready++
			}
			if !n.state.over() {
				possible++
			}
		}
		switch {
		case ready >= want:
			return nil
		case p.ctx.Err() != nil:
			return p.interrupted(context.Cause(p.ctx))
		case possible < want:
			return p.noNodesLocked()
		}
		p.changed.Wait()
	}
}

// interrupted puts the end of the pool's context before an error that only
// follows from it.
func (p *pool) interrupted(err error) error {
	if p.ctx.Err() == nil {
		return err
	}
	cause := context.Cause(p.ctx)
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w (%v)", cause, err)
}

// launch asks for all nodes at once and gives each a goroutine that owns its life.
func (p *pool) launch(offer Offer) error {
	req := LaunchRequest{Pool: p.info, Offer: offer, Spec: p.spec, Token: p.id}
	var nodes []*poolNode
	for rank := range p.spec.nodes() {
		var hostKey HostKey
		if p.caps.HostKeys == HostKeyInjected {
			var err error
			if hostKey, err = newHostKey(); err != nil {
				return err
			}
		}
		n := newPoolNode(p, rank, hostKey)
		nodes = append(nodes, n)
		req.Nodes = append(req.Nodes, n.request())
	}
	p.mu.Lock()
	p.nodes = nodes
	p.mu.Unlock()
	for _, n := range nodes {
		n.enter(NodeLaunching, nil)
	}
	launched := make(chan struct{})
	var byName map[string]Instance
	var failure error
	p.lives.Go(func() {
		defer close(launched)
		var got []Instance
		got, failure = p.driver.Launch(p.ctx, req)
		byName = p.adopt(got)
	})
	for _, n := range nodes {
		p.lives.Go(func() {
			<-launched
			inst, ok := byName[n.name]
			if !ok {
				n.fail(p.notLaunched(failure))
				return
			}
			n.live(inst)
		})
	}
	return nil
}

func (p *pool) notLaunched(err error) error {
	if err != nil {
		return err
	}
	return &Error{Provider: p.provider, Op: "launch", Kind: ErrNoCapacity, Err: errors.New("the provider launched fewer machines than it was asked for")}
}

// adopt records what a launch returned, also where it failed.
func (p *pool) adopt(got []Instance) map[string]Instance {
	byName := make(map[string]Instance, len(got))
	p.mu.Lock()
	for _, inst := range got {
		byName[inst.Name] = inst
		p.machines[inst.ID] = inst
		p.bills = append(p.bills, &bill{id: inst.ID, price: inst.Offer.HourlyUSD, from: now()})
	}
	p.mu.Unlock()
	if len(got) > 0 {
		p.events.emit(Event{Kind: EventCost, CostUSD: p.costUSD()})
	}
	return byName
}

// selectOffer returns the cheapest offer that satisfies the spec.
func (p *pool) selectOffer() (Offer, error) {
	var best *Offer
	var rejected []string
	for offer, err := range p.driver.Offers(p.ctx, p.spec) {
		if err != nil {
			return Offer{}, p.interrupted(err)
		}
		if why := reject(offer, p.spec, p.caps); why != "" {
			rejected = append(rejected, offer.InstanceType+" in "+offer.Region+": "+why)
			continue
		}
		if best == nil || cheaper(offer.HourlyUSD, best.HourlyUSD) {
			best = &offer
		}
	}
	if best != nil {
		return *best, nil
	}
	return Offer{}, &Error{Provider: p.provider, Op: "offers", Kind: ErrNoOffers, Err: errors.New(rejections(rejected))}
}

func rejections(why []string) string {
	const shown = 5
	switch {
	case len(why) == 0:
		return "the provider offers nothing now"
	case len(why) > shown:
		return fmt.Sprintf("%s; and %d more", joinSemicolons(why[:shown]), len(why)-shown)
	}
	return joinSemicolons(why)
}

// cheaper orders prices, with unknown ones last.
func cheaper(a, b Price) bool {
	x, known := a.USD()
	y, than := b.USD()
	return known && (!than || x < y)
}

// reject says why an offer does not satisfy the spec, or "".
func reject(o Offer, s Spec, caps Capabilities) string {
	price, known := o.HourlyUSD.USD()
	switch {
	case short(o.VCPUs, s.VCPUs):
		return fmt.Sprintf("has %g vCPUs; the spec asks for %g", o.VCPUs, s.VCPUs)
	case short(o.MemoryGiB, s.MemoryGiB):
		return fmt.Sprintf("has %.1f GiB of memory; the spec asks for %g", o.MemoryGiB, s.MemoryGiB)
	case !caps.DiskResizable && short(o.DiskGiB, s.DiskGiB):
		return fmt.Sprintf("has %.1f GiB of disk; the spec asks for %g", o.DiskGiB, s.DiskGiB)
	case s.Accelerator.IsZero() || caps.Adopts || s.Accelerator.Matches(o.Accelerator):
	case o.Accelerator.IsZero():
		return fmt.Sprintf("has no accelerator; the spec asks for %v", s.Accelerator)
	default:
		return fmt.Sprintf("has accelerator %v; the spec asks for %v", o.Accelerator, s.Accelerator)
	}
	switch {
	case s.MaxHourlyUSD > 0 && !known:
		return "its price is not known, and the spec has a MaxHourlyUSD"
	case s.MaxHourlyUSD > 0 && price > s.MaxHourlyUSD:
		return fmt.Sprintf("costs $%.2f an hour; MaxHourlyUSD is $%.2f", price, s.MaxHourlyUSD)
	case o.Spot && s.Allocation == OnDemand:
		return "is spot; the spec asks for on demand"
	case !o.Spot && s.Allocation == Spot:
		return "is on demand; the spec asks for spot"
	case len(s.Mounts) > 0 && !caps.Mounts:
		return "this provider has no mounts"
	case o.Available > 0 && o.Available < s.minReady() && !caps.Adopts:
		return fmt.Sprintf("has %d free; the spec asks for %d", o.Available, s.minReady())
	}
	return ""
}

// short reports whether a known amount is less than what is asked for.
func short(has, want float64) bool { return has > 0 && has < want }

// newPool makes a pool that has nothing yet.
func newPool(ctx context.Context, provider string, driver Driver, spec Spec, o options) (*pool, error) {
	keys, err := newKeys()
	if err != nil {
		return nil, err
	}
	p := &pool{
		id: newPoolID(o.name), provider: provider, driver: driver, caps: driver.Capabilities(), spec: spec, opts: o,
		keys: keys, machines: map[string]Instance{}, secrets: &redactor{},
	}
	p.changed = sync.NewCond(&p.mu)
	p.info = PoolInfo{ID: p.id, Name: o.name, Owner: owner(), AuthorizedKey: keys.public}
	p.expire = func() {}
	if spec.TTL > 0 {
		// The nodes count too, from a little later: this is the orderly end.
		p.info.Expires = now().Add(spec.TTL)
		ctx, p.expire = context.WithDeadlineCause(ctx, p.info.Expires, &Error{Op: "pool", Kind: ErrExpired, Err: fmt.Errorf("its TTL was %v", spec.TTL)})
	}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.events = newEvents(p.id, o.events, o.logger)
	p.out = newOutput(o.stdout, o.stderr, p.secrets)
	p.results = newResultsDir(p.id, o.resultsDir)
	p.lives.Add(1) // the opening: an end that comes meanwhile waits for what it makes
	p.watch = context.AfterFunc(ctx, func() {
		p.cancel(context.Cause(ctx)) // which may be heard of here first
		p.close()
	})
	return p, nil
}
