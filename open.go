package gputrain

import (
	"context"
	"errors"
	"maps"
	"os"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/crossbuild"
	"github.com/gputrain/gputrain/internal/cutoff"
	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/internal/inventory"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/opening"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/owner"
	"github.com/gputrain/gputrain/internal/program"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
)

// Open makes a pool: it finds the cheapest offer that satisfies the spec,
// launches the nodes, and returns once Spec.MinReady of them are ready.
//
// The pool lives until Close, or until ctx ends, which ends the pool as Close does. If Open returns
// an error, nothing is left behind, or the error wraps a *LeakError that names what is left.
//
// If ctx ends before the pool is open, Open ends what it has rented, and returns when the provider has
// confirmed that: at once if there is nothing yet, and after six minutes at most. A machine that costs
// money is not left to a goroutine that the end of this program would end. The error wraps the cause of the end
// of ctx, and says what was waited for: which nodes, in which phase, and what went wrong last. Timeouts of the pool itself,
// and of its provider, are never context.DeadlineExceeded.
func Open(ctx context.Context, provider Provider, spec Spec, opts ...Option) (*Compute, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if provider == nil {
		return nil, &Error{Op: "open", Kind: ErrInvalid, Err: errors.New("the provider is nil; local.Config{} is the simplest")}
	}
	if err := errors.Join(invalid.NoContext("open", ctx), spec.Validate(), o.validate(), programReady("open")); err != nil {
		return nil, err
	}
	if _, err := bootstrap.Plan(bootstrap.Image(spec.Image)); err != nil {
		return nil, &Error{Op: "image", Kind: ErrInvalid, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := o.lookUpLogin(ctx, &spec.Image); err != nil {
		return nil, err
	}
	secrets, err := resolveSecrets(ctx, spec.Secrets, map[Secret]Secret{})
	if err != nil {
		return nil, err
	}
	d, err := provider.Open(ctx)
	if err != nil {
		return nil, cutoff.While(ctx, &Error{Provider: provider.Name(), Op: "open"}, "opening the provider", err)
	}
	keys, err := ssh.NewKeyPair()
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	who := identity{id: newPoolID(o.name), keys: keys, generation: 1}
	if spec.TTL > 0 {
		who.expires = time.Now().Add(spec.TTL)
	}
	p := newPool(ctx, provider.Name(), d, spec, givenSecrets{values: secrets}, o, who)
	p.closeAtEnd(p.close)
	if err = p.open(provider); err != nil {
		err = p.notOpened(ctx, "open", err)
		why := p.withoutSecrets(err)
		p.unopened.Store(&why)
	}
	if err != nil || !o.baking { // or Bake does it
		p.lives.Done()
	}
	if err != nil {
		return nil, errors.Join(err, cutoff.NotDeadline(p.close()))
	}
	return &Compute{p: p, ctx: p.ctx}, nil
}

// With opens a pool, runs body, and closes the pool when body returns or panics. The ctx of body
// ends with the pool. The error joins body's and that of Close.
func With(ctx context.Context, provider Provider, spec Spec, body func(ctx context.Context, pool *Compute) error, opts ...Option) (err error) {
	c, err := Open(ctx, provider, spec, opts...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return body(c.ctx, c)
}

// open launches the nodes and waits for the first MinReady.
func (p *pool) open(provider Provider) (err error) {
	if !p.opts.quiet && !p.events.seen() { // no other view is there
		end := p.events.progress.Show(os.Stderr, func() string {
			if c := p.cost(); c.HourlyUSD > 0 || c.Unknown > 0 {
				return c.String()
			}
			return "" // hosts are free
		})
		defer func() { end(err == nil) }()
	}
	p.events.emit(Event{Kind: EventPool, State: "opening", Spec: shown(p.spec)})
	p.events.progress.Begin("asking for offers")
	offers, err := p.fleet.Offers(p.spec.minReady())
	if err != nil {
		return err
	}
	if err := p.spending.Affordable(offers, p.spec.nodes()); err != nil {
		return err
	}
	if err := p.guard(provider); err != nil { // before there is a ledger, which is not to be left
		return err
	}
	if err := p.record(); err != nil {
		return err
	}
	p.events.progress.Begin("making what the machines share")
	if err := p.inventory.Prepare(p.ctx); err != nil {
		return p.interrupted(err)
	}
	p.fleet.Launch(offers)
	p.keepUp()
	if err := p.fleet.AwaitReady(p.spec.minReady()); err != nil {
		return err
	}
	p.events.emit(Event{Kind: EventPool, State: "ready"})
	p.events.opened()
	watchIdle(p)
	return nil
}

// keepUp starts the goroutines that look after the pool until it ends.
func (p *pool) keepUp() {
	p.fleet.Watch(p.account.Caps.Spot)
	p.lives.Go(func() { p.inventory.Audit(p.ctx) })
	if p.account.Caps.Spot {
		p.lives.Go(func() { p.spending.FollowPrices(p.ctx, reporter{p}.Billed) })
	}
	p.lives.Go(func() { p.inventory.KeepLease(p.ctx) })
	if p.spec.BudgetUSD > 0 {
		p.lives.Go(p.budget)
	}
}

// newPool makes a pool without machines.
func newPool(ctx context.Context, provider string, d driver.Driver, spec Spec, secrets givenSecrets, o options, who identity) *pool {
	p := &pool{identity: who, account: inventory.Account{Provider: provider, Driver: d, Caps: d.Capabilities()}, spec: spec, given: secrets, opts: o}
	p.begin(ctx, who.expires, spec.TTL)
	p.market = market.New(provider, d, o.wants(spec))
	p.market.Remember(func() market.History {
		page, err := o.stateDir.history().Read()
		if err != nil {
			reporter{p}.Trouble("history", err)
		}
		return page
	})
	p.market.Join(func() []driver.Offer { return inventory.Offers(p.inventory) })
	info := driver.PoolInfo{ID: p.id, Name: o.name, Owner: owner.Self().String(), Lease: spec.lease(), Tags: spec.Tags, AuthorizedKey: who.keys.Public, Expires: who.expires}
	p.inventory = inventory.New(p.account, info, reporter{p})
	p.spending = inventory.NewSpending(p.inventory, inventory.Budget{USD: spec.BudgetUSD, Collect: collectTime})
	p.secrets = &output.Redactor{}
	p.secrets.Learn(secrets.values)
	p.events, p.lines = newEvents(p.id, o.events, o.logger, o.sampled...), newLines(p.id, o.lines)
	p.events.progress = opening.New(p.ctx, "it was begun")
	p.programs = p.newPrograms()
	p.out = output.NewPrinter(o.stdout, o.stderr, o.rawOutput, p.secrets)
	p.lines.follow(p.out)
	p.results = output.NewResults(output.NewDir(p.id, o.resultsDir, o.stateDir.path), o.limits.output())
	p.access = newAccess(p)
	p.fleet = p.newFleet()
	p.attempts = attempt.Runner{Printer: p.out, Results: p.results, Secrets: p.secrets, Files: o.limits.transfer()}
	return p
}

// newPrograms returns what ships this program to the pool's nodes. A build is reported as an event.
func (p *pool) newPrograms() *program.Programs {
	return program.New(p.opts.workerBinaries, &crossbuild.Builder{
		Context: p.ctx, Go: p.running.Go, SourceDir: p.opts.sourceDir,
		Event: func(to crossbuild.Platform, done bool, elapsed time.Duration, err error) {
			ev := Event{Kind: EventPhase, Node: -1, Phase: "build for " + to.String(), State: "started", Elapsed: elapsed}
			past := p.opts.stateDir.history()
			var forgot error
			switch {
			case err != nil:
				ev.State, ev.Err = "failed", err
			case done && elapsed < time.Second: // it was built before
				ev.State = "done"
			case done:
				ev.State, forgot = "done", past.Ran(ev.Phase, elapsed)
			default:
				ev.Usual, forgot = past.Usual(ev.Phase)
			}
			p.events.emit(ev)
			if forgot != nil {
				reporter{p}.Trouble("history", forgot)
			}
		},
	})
}

// shown returns a spec for an event: without the values of secrets.
func shown(s Spec) *Spec {
	s.Image.DockerPassword = ""
	s.Secrets = maps.Clone(s.Secrets)
	for name := range s.Secrets {
		s.Secrets[name] = ""
	}
	return &s
}

// notOpened returns the error of a pool that has not opened: the end of its context, with what was
// waited for, or else err, which then does not match a deadline of the caller's.
func (p *pool) notOpened(ctx context.Context, op string, err error) error {
	if p.ctx.Err() == nil {
		return cutoff.NotDeadline(err)
	}
	if ctx.Err() == nil {
		ctx = p.ctx // the pool itself has ended
	}
	if i, ok := errors.AsType[*cutoff.Interrupted](err); ok {
		err = i.Err
	}
	return cutoff.While(ctx, &Error{Provider: p.account.Provider, Op: op}, p.events.progress.WaitedFor(p.fleet.Coming()), err)
}
