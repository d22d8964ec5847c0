package gputrain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/owner"
)

// Open makes a pool: it finds the cheapest offer that satisfies the spec,
// launches the nodes, and returns once Spec.MinReady of them are ready.
//
// The pool lives until Close, or until ctx ends: that ends the pool as Close
// does. An error leaves nothing behind, or says in a *LeakError what it left.
//
// If ctx ends before the pool is open, the error says what was waited for: which nodes, in
// which phase, and what went wrong last. It is what ended ctx, by errors.Is. Times of the
// pool's own, and of its provider, are never context.DeadlineExceeded.
func Open(ctx context.Context, provider Provider, spec Spec, opts ...Option) (*Compute, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if provider == nil {
		return nil, &Error{Op: "open", Kind: ErrInvalid, Err: errors.New("the provider is nil; local.Config{} is the simplest")}
	}
	if err := errors.Join(spec.Validate(), o.validate(), programReady("open")); err != nil {
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
		return nil, cutOff(ctx, &Error{Provider: provider.Name(), Op: "open"}, "opening the provider", err)
	}
	keys, err := newKeys()
	if err != nil {
		return nil, errors.Join(err, driver.Close())
	}
	who := identity{id: newPoolID(o.name), keys: keys, generation: 1}
	if spec.TTL > 0 {
		who.expires = now().Add(spec.TTL)
	}
	p := newPool(ctx, provider.Name(), driver, spec, o, who)
	if err = p.open(); err != nil {
		err = p.notOpened(ctx, "open", err)
	}
	p.lives.Done()
	if err != nil {
		return nil, errors.Join(err, notDeadline(p.close()))
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
	p.events.progress.begin("asking for offers")
	var offers []Offer
	err := patiently(p.ctx, func() (err error) {
		offers, err = p.candidates(p.ctx)
		return err
	})
	if err != nil {
		return err
	}
	if err := p.enough(offers, p.spec.minReady()); err != nil {
		return err
	}
	if err := p.affordableAll(offers, p.spec.nodes()); err != nil {
		return err
	}
	if err := p.record(); err != nil {
		return err
	}
	p.events.progress.begin("making what the machines share")
	if err := p.prepareAll(); err != nil {
		return p.interrupted(err)
	}
	p.mu.Lock()
	var nodes []*poolNode
	for range p.spec.nodes() {
		nodes = append(nodes, p.addNodeLocked())
	}
	p.mu.Unlock()
	p.lives.Go(func() { p.rent(nodes, offers) })
	p.keepUp()
	if err := p.awaitReady(p.spec.minReady()); err != nil {
		return err
	}
	p.events.emit(Event{Kind: EventPool, State: "ready"})
	p.events.opened()
	return nil
}

// keepUp starts what looks after the pool until it ends.
func (p *pool) keepUp() {
	p.lives.Go(p.scale)
	p.lives.Go(p.audit)
	if p.caps.Spot {
		p.lives.Go(p.watchNotices)
	}
	if p.spec.BudgetUSD > 0 {
		p.lives.Go(p.budget)
	}
	for _, m := range accounts(p.members) {
		if marker, ok := m.driver.(LeaseMarker); ok {
			p.lives.Go(func() { p.markLease(m, marker) })
		}
	}
}

// awaitReady waits until so many nodes are ready, or can no longer become so.
func (p *pool) awaitReady(want int) error {
	defer p.wakeAtEnd(p.ctx)()
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
	return &interruptedError{cause, err}
}

// An interruptedError is the end of a context, with the error that followed from it.
type interruptedError struct{ cause, err error }

func (e *interruptedError) Error() string { return fmt.Sprintf("%v (%v)", e.cause, e.err) }

func (e *interruptedError) Unwrap() error { return e.cause }

// enough reports whether the offers together have room for so many nodes, as far as
// that is known.
func (p *pool) enough(offers []Offer, nodes int) error {
	room := 0
	for _, o := range offers {
		if o.Available == 0 {
			return nil
		}
		room += o.Available
	}
	if room >= nodes {
		return nil
	}
	if p.caps.Adopts {
		return &Error{
			Provider: p.provider, Op: "offers", Kind: ErrNoCapacity,
			Err:  fmt.Errorf("%d machines are there to adopt, and the spec asks for %d", room, nodes),
			Hint: "name more in the provider's Config (of providers/ssh a host that is listed twice carries two nodes), or ask for fewer nodes",
		}
	}
	return &Error{Provider: p.provider, Op: "offers", Kind: ErrNoCapacity, Err: fmt.Errorf("%d machines can be had now, and the spec asks for %d", room, nodes)}
}

// An identity is what a pool is, whichever program has it.
type identity struct {
	id         string
	keys       keys
	expires    time.Time // by its TTL; zero where it has none
	generation int       // counts the programs that have had it
	attaching  bool      // it is only being taken up: the end of the context leaves it as it is
}

// newPool makes a pool that has nothing yet.
func newPool(ctx context.Context, provider string, driver Driver, spec Spec, o options, who identity) *pool {
	p := &pool{
		id: who.id, generation: who.generation, keys: who.keys, provider: provider, driver: driver, caps: driver.Capabilities(), spec: spec, opts: o,
		machines: map[string]*machine{}, inFlight: map[string]time.Time{}, prepared: map[*member]time.Time{}, secrets: &redactor{},
		rescaled: make(chan struct{}, 1), launched: make(chan struct{}, 1), paying: make(chan struct{}, 1), preparing: make(chan struct{}, 1),
		least: spec.nodes(), most: spec.maxNodes(), attaching: who.attaching,
	}
	p.members = driversOf(provider, driver)
	p.changed = sync.NewCond(&p.mu)
	p.info = PoolInfo{ID: p.id, Name: o.name, Owner: owner.Self().String(), Lease: spec.lease(), AuthorizedKey: who.keys.public, Expires: who.expires}
	ctx, p.finish = context.WithCancelCause(ctx)
	p.expire = func() {}
	if !who.expires.IsZero() {
		// The nodes count too, from a little later: this is the orderly end.
		ctx, p.expire = context.WithDeadlineCause(ctx, who.expires, &Error{Op: "pool", Kind: ErrExpired, Err: fmt.Errorf("its TTL was %v", spec.TTL)})
	}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.tasksCtx, p.endWork = context.WithCancelCause(p.ctx)
	p.events = newEvents(p.id, o.events, o.logger)
	p.events.progress = &openProgress{ctx: p.ctx, doing: "it was begun"}
	p.out = newOutput(o, p.secrets)
	p.results = newResultsDir(p.id, o.resultsDir, o.stateDir, o.limits)
	p.lives.Add(1) // the opening: an end that comes meanwhile waits for what it makes
	p.watch = context.AfterFunc(ctx, func() {
		p.cancel(context.Cause(ctx)) // which may be heard of here first
		p.mu.Lock()
		leave := p.attaching
		p.mu.Unlock()
		if !leave {
			p.close()
		}
	})
	return p
}
