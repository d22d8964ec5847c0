package gputrain

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/cutoff"
	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/internal/guardian"
	"github.com/gputrain/gputrain/internal/inventory"
	"github.com/gputrain/gputrain/internal/letgo"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/program"
	"github.com/gputrain/gputrain/internal/reach"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/uploads"
)

// A pool is the nodes, the tasks, and everything that was made for them.
type pool struct {
	identity
	lifetime
	reports
	work
	account inventory.Account
	spec    Spec         //secretvet:ignore users hold a pool by a pointer in Compute, which fmt does not follow
	given   givenSecrets //secretvet:ignore as spec
	opts    options      //secretvet:ignore as spec

	inventory  *inventory.Inventory // what is made and billed
	spending   *inventory.Spending
	market     *market.Market
	fleet      *fleet.Fleet // the nodes, and their tasks
	journal    recorder     // records tasks, and nothing until there is a ledger
	resumption *resumption  // what Attach resumes; nil otherwise
	attempts   attempt.Runner
	programs   *program.Programs
	use        use

	mu      sync.Mutex // guards the fleet's members, the scheduler's queues, and uploads
	uploads uploads.List
}

// An identity identifies a pool, and counts the programs that have owned it.
type identity struct {
	id         string
	keys       ssh.KeyPair // what the pool logs in with; the private half is also in a file beside the ledger
	expires    time.Time   // by its TTL; zero if it has none
	generation int         // counts the programs that have had it
}

// work counts and holds the requests to a pool.
type work struct {
	taskSeq   atomic.Int64
	jobs      scheduler.Jobs[*Job]
	trainings trainings
}

// reports carry a pool's events, its output and its results, and keep secrets out of them.
type reports struct {
	events  *events
	lines   *lines
	out     *output.Printer
	results *output.Results
	secrets *output.Redactor
}

// withoutSecrets returns an error whose text has no secret of any task, and which wraps err.
func (r *reports) withoutSecrets(err error) error { return r.secrets.Error(err) }

// newPoolID returns a name that no other pool has: "digits-k3v9x2mq".
func newPoolID(name string) string {
	suffix := strings.ToLower(rand.Text()[:8])
	if name == "" {
		return "pool-" + suffix
	}
	name = strings.Trim(strings.ToLower(name), "-")
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		name = "p-" + name
	}
	return name + "-" + suffix
}

// A lifetime is how long a pool lives: until it is closed, its TTL is over, or the context that was
// given to Open ends.
type lifetime struct {
	ctx      context.Context // ends with the pool
	cancel   context.CancelCauseFunc
	tasksCtx context.Context         // ends with the tasks: with ctx, or before
	endWork  context.CancelCauseFunc // ends the tasks
	outer    context.Context         // the one given to Open, with the TTL
	finish   context.CancelCauseFunc // ends the pool, as the end of outer does
	expire   func()                  // stops the TTL's clock
	watch    func() bool             // stops watching for the end of outer
	guardian *guardian.Guardian      // nil if there is none
	access   *reach.Access           // the ways into the nodes beside tasks

	unopened   atomic.Pointer[error] // why Open has failed
	attaching  atomic.Bool           // if set, the end of outer does not end the pool
	warned     atomic.Bool           // Detach has refused once; the next call detaches
	detached   atomic.Bool           // this program has left the pool
	lives      sync.WaitGroup        // the nodes' goroutines, the launch, and the opening
	running    sync.WaitGroup        // attempts, and waits between them
	background letgo.Rest            // jobs, and what callers have begun that have given up

	closeOnce sync.Once
	closed    chan struct{}
	closeErr  error
}

// begin makes the contexts. The pool expires at that time, unless it is zero.
func (l *lifetime) begin(ctx context.Context, expires time.Time, ttl time.Duration) {
	l.outer, l.finish = context.WithCancelCause(ctx)
	l.expire = func() {}
	if !expires.IsZero() {
		// The nodes have the TTL too, from a little later: this is the orderly end.
		l.outer, l.expire = context.WithDeadlineCause(l.outer, expires, &Error{Op: "pool", Kind: ErrExpired, Err: fmt.Errorf("its TTL was %v", ttl)})
	}
	l.ctx, l.cancel = context.WithCancelCause(l.outer)
	l.tasksCtx, l.endWork = context.WithCancelCause(l.ctx)
	l.lives.Add(1) // for the opening: a close waits for what the opening makes
}

// closeAtEnd calls closing at the end of outer, unless the pool is only being attached to. It is
// called once, before the pool can be closed.
func (l *lifetime) closeAtEnd(closing func() error) {
	watched := make(chan struct{})
	defer close(watched)
	l.watch = context.AfterFunc(l.outer, func() {
		l.cancel(context.Cause(l.outer)) // this may run before ctx has ended with outer
		<-watched                        // closing uses watch, and outer may have ended already
		if !l.attaching.Load() {
			closing()
		}
	})
}

// attached makes the end of ctx, and that of outer, end the pool from now on, also if it has come already.
func (l *lifetime) attached(ctx context.Context, closing func() error) {
	l.attaching.Store(false)
	forget := context.AfterFunc(ctx, func() { l.finish(context.Cause(ctx)) })
	context.AfterFunc(l.ctx, func() { forget() })
	if l.outer.Err() != nil {
		go closing()
	}
}

// stop ends all contexts.
func (l *lifetime) stop(why error) {
	l.watch()
	l.cancel(why)
	l.expire()
	l.finish(why)
}

// closeBy calls end once. Every caller returns its error, when end is over.
func (l *lifetime) closeBy(end func() error) error {
	first := false
	l.closeOnce.Do(func() { first, l.closed = true, make(chan struct{}) })
	if first {
		l.closeErr = end()
		close(l.closed)
	}
	<-l.closed // not in the Once: virtual time does not go on while a goroutine waits for a Once
	return l.closeErr
}

// interrupted returns err, with the cause of its end if the pool's context has ended.
func (l *lifetime) interrupted(err error) error { return cutoff.By(l.ctx, err) }

// endTimeout bounds the termination of a pool's machines, which needs no context of the pool.
const endTimeout = 3 * time.Minute

// close ends the pool, once. Every caller gets the same answer when the pool has ended.
func (p *pool) close() error { return p.closeBy(p.end) }

// endReason returns why a pool ends, if not because the program wants it.
func endReason(p *pool) error {
	if why := p.unopened.Load(); why != nil {
		return *why
	}
	if why := context.Cause(p.ctx); why != nil && !errors.Is(why, ErrClosed) && !errors.Is(why, context.Canceled) {
		return p.withoutSecrets(why)
	}
	return nil
}

func (p *pool) end() error {
	p.events.emit(Event{Kind: EventPool, State: "closing", Err: endReason(p)})
	p.mu.Lock()
	p.fleet.Close()
	p.mu.Unlock()
	p.stop(ErrClosed)
	p.access.Close()
	p.mu.Lock() // see record
	fenced := p.inventory.Fenced()
	p.mu.Unlock()
	if why := context.Cause(p.ctx); fenced == nil && !errors.Is(why, ErrExpired) && !errors.Is(why, ErrBudget) {
		p.attempts.Keeping.Wait(attempt.EndPatience) // the nodes still answer
	}

	ctx := context.WithoutCancel(p.ctx)
	p.lives.Wait() // a launch in flight ends with its context, and what it returned is known then
	p.inventory.Wait()
	fenced = p.inventory.Fenced()
	var left error
	if fenced == nil {
		left = inventory.Leave(ctx, p.fleet.Guests(), p.spec.lease())
	}
	p.fleet.Disconnect() // which also ends the attempts that still wait for an answer
	p.running.Wait()
	p.background.Wait()
	p.journal.Close()
	err := cmp.Or(fenced, p.inventory.Fenced())
	if err == nil && p.inventory.Begun() {
		p.inventory.Closing()
		err = errors.Join(left, p.inventory.End(ctx, endTimeout, p.fleet.Terminated))
	}
	if err == nil || errors.Is(err, ErrFenced) {
		defer p.guardian.Closed()
	} else {
		defer p.guardian.Kept()
	}
	err = errors.Join(err, p.inventory.Close(err == nil), p.account.Driver.Close())
	cost := p.cost()
	p.events.emit(Event{Kind: EventPool, State: "closed", Cost: &cost, Err: err})
	p.lines.close()
	p.events.close()
	return err
}
