package gputrain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/internal/inventory"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/owner"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/uploads"
	"github.com/gputrain/gputrain/providers/driver"
)

// Attach resumes a pool whose program is dead, or has left it by [Compute.Detach], by the pool's
// name or ID: the same nodes with the same host keys, its tasks and their results. It reads the
// ledger on this computer and asks the provider, which must be configured as it was.
//
// Each task whose result the dead program did not get is one of [Compute.Jobs]: tasks that have
// ended have their results, tasks that run go on, with their output from its start, and tasks that
// waited are run. A task that is started, or started again, finds its Task.Secrets in
// [WithSecrets], or fails. Tasks outlive their program for the length of the lease; a task that was
// lost with its node runs again. Functions with streams are not resumed.
//
// Attach returns [ErrInUse] if the pool's program is alive, unless [WithTakeover] is given. If an
// older program comes back, it is fenced off: its tasks fail with [ErrFenced], and it ends nothing.
// For a pool that was being closed Attach returns [ErrClosed]: Reap ends it. If ctx ends before Attach
// returns, it gives up, and leaves the pool as it is.
func Attach(ctx context.Context, provider Provider, pool string, opts ...Option) (*Compute, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if provider == nil || pool == "" {
		return nil, &Error{Op: "attach", Kind: ErrInvalid, Err: errors.New("it takes the provider and the pool's name or ID")}
	}
	if err := errors.Join(invalid.NoContext("attach", ctx), o.validate(), programReady("attach")); err != nil {
		return nil, err
	}
	dir, err := o.stateDir.open()
	if err != nil {
		return nil, err
	}
	id, err := findPool(dir, pool, provider.Name())
	if err != nil {
		return nil, err
	}
	if o.secrets, err = resolveSecrets(ctx, o.secrets, map[Secret]Secret{}); err != nil {
		return nil, err
	}
	driver, err := provider.Open(ctx)
	if err != nil {
		return nil, err
	}
	p, state, err := takeUp(ctx, dir, id, provider.Name(), driver, o)
	if err != nil {
		return nil, errors.Join(err, driver.Close())
	}
	_ = p.guard(provider) // the machines are there: the event says why there is none
	giveUp := context.AfterFunc(ctx, func() { p.closeBy(func() error { return p.leave(context.Cause(ctx)) }) })
	if err = p.attach(state); err != nil {
		err = p.notOpened(ctx, "attach", err)
	}
	p.events.opened()
	p.lives.Done()
	if !giveUp() && err == nil {
		err = &Error{Provider: provider.Name(), Op: "attach", Err: context.Cause(ctx)}
	}
	if err != nil {
		return nil, errors.Join(err, p.closeBy(func() error { return p.leave(err) }))
	}
	p.attached(ctx, p.close)
	return &Compute{p: p, ctx: p.ctx}, nil
}

// WithTakeover lets Attach take over a pool whose program is alive, or seems to be: it hangs, or
// runs on a computer that cannot be reached. That program is fenced off.
func WithTakeover() Option { return func(o *options) { o.takeover = true } }

// WithSecrets gives Attach the values of Spec.Secrets and Task.Secrets, by name, and that of
// Image.DockerPassword under this name: a pool's journal does not keep them. Attach looks up references
// among them. Without the value of a secret of a task, that task fails if it had not begun, or is tried
// again. Without one of Spec.Secrets, this holds for every task, new ones are refused, and so is every
// new node, as [ErrInvalid] before it is rented. What runs goes on.
func WithSecrets(secrets map[string]Secret) Option {
	return func(o *options) { o.secrets = secrets }
}

// findPool returns the ID of the pool with this name or ID.
func findPool(dir *ledger.Dir, pool, provider string) (string, error) {
	ids, err := dir.Pools()
	if err != nil {
		return "", inventory.LedgerError("list the ledgers", err)
	}
	var named, free []string
	for _, id := range ids {
		snap, err := dir.Read(id)
		switch {
		case id == pool:
			return id, nil
		case err != nil || snap.Name != pool || snap.Provider != provider:
			continue
		}
		named = append(named, id)
		if !snap.InUse && !snap.Closing {
			free = append(free, id)
		}
	}
	switch {
	case len(free) == 1:
		return free[0], nil
	case len(named) == 1:
		return named[0], nil
	case named == nil:
		return "", &Error{Provider: provider, Op: "attach", Err: fmt.Errorf("%w: %q", errNoLedger, pool)}
	}
	return "", &Error{Provider: provider, Op: "attach", Kind: ErrInvalid, Err: fmt.Errorf("%d pools have the name %q: %s", len(named), pool, strings.Join(named, ", ")), Hint: "give the ID of one"}
}

// takeUp makes this program the pool's owner, and reads what the ledger and the journal keep.
func takeUp(ctx context.Context, dir *ledger.Dir, id, provider string, d driver.Driver, o options) (_ *pool, _ *journal.State, err error) {
	snap, err := dir.Read(id)
	if err != nil {
		return nil, nil, inventory.LedgerError("attach", err)
	}
	switch account := d.Capabilities().Account; {
	case snap.Provider != provider || len(snap.Members) == 0 && snap.Account != account:
		return nil, nil, &Error{Provider: provider, Op: "attach", Kind: ErrInvalid, Err: fmt.Errorf("pool %s is of %s in %q, not of %s in %q", id, snap.Provider, snap.Account, provider, account)}
	case snap.Closing:
		return nil, nil, &Error{Provider: provider, Op: "attach", Kind: ErrClosed, Err: fmt.Errorf("pool %s was being closed", id), Hint: "Reap ends what is left of it"}
	case !snap.Expires.IsZero() && time.Now().After(snap.Expires):
		return nil, nil, &Error{Provider: provider, Op: "attach", Kind: ErrExpired, Err: fmt.Errorf("pool %s had a TTL, until %v", id, snap.Expires), Hint: "Reap ends what is left of it"}
	}
	if err := inventory.AccountsThere(ctx, provider, d, snap); err != nil {
		return nil, nil, err
	}
	l, snap, err := dir.Take(id, owner.Self().String(), ledger.TakeOptions{Force: o.takeover})
	if err != nil {
		return nil, nil, inventory.LedgerError("attach", err)
	}
	defer func() {
		if err != nil {
			l.Close(false)
		}
	}()
	key, err := l.Key()
	if err != nil {
		return nil, nil, inventory.LedgerError("attach", err)
	}
	signer, err := ssh.ParseKey(key)
	if err != nil {
		return nil, nil, inventory.LedgerError("attach", fmt.Errorf("the pool's key: %w", err))
	}
	var p *pool
	var form specForm
	j, state, err := journal.Open(l.TasksPath(), &form, func(err error) { p.journalFailed(err) })
	if err != nil {
		return nil, nil, &Error{Provider: provider, Op: "attach", Kind: ErrLedger, Err: fmt.Errorf("what pool %s keeps of its tasks: %w", id, err), Hint: "Reap ends the pool"}
	}
	if o.resultsDir == "" {
		o.resultsDir = output.KeptPath(id, state.ResultsDir)
	}
	o.name = snap.Name
	// The end of ctx gives up the Attach. It would end tasks, if it ended the pool's context.
	p = newPool(context.WithoutCancel(ctx), provider, d, form.Spec, given(form.SecretNames, o.secrets), o, identity{
		id: id, keys: ssh.KeyPair{Signer: signer, Private: key, Public: snap.AuthorizedKey}, expires: snap.Expires, generation: l.Generation(),
	})
	p.attaching.Store(true)
	p.closeAtEnd(p.close)
	p.inventory.Resume(l)
	p.journal = recorder{j}
	p.taskSeq.Store(state.LastTask + 1)
	for _, up := range state.Uploads {
		p.uploads.Add(uploads.Upload(up))
	}
	return p, state, nil
}

// leave releases a pool as it is, as if this program died now: for another Attach, or for Reap. The
// connections are cut first, so that nothing that ends here ends anything on the nodes, and the
// journal is closed before tasks end here.
func (p *pool) leave(why error) error {
	p.mu.Lock()
	p.fleet.Close()
	p.mu.Unlock()
	p.events.close() // what ends here from now on ends nowhere else
	p.fleet.Sever()
	p.journal.Close()
	p.stop(why)
	p.access.Close()
	p.fleet.Disconnect()
	p.lives.Wait()
	p.inventory.Wait()
	p.fleet.Disconnect() // from nodes that a launch in flight has made
	p.running.Wait()
	p.resumption.dropRest(p)
	p.background.Wait()
	defer p.guardian.Released()
	return errors.Join(p.inventory.Close(false), p.account.Driver.Close())
}

// Detach ends this program's part in the pool, and nothing else, and returns the pool's ID. Nodes,
// tasks and calls of functions go on for at least three quarters of Spec.Lease, and for longer while
// a task with HoldsLease runs. In this time [Attach] takes all of it up, in this program or another
// one, without [WithTakeover]. Later the nodes end themselves, as after this program's death.
//
// Here running calls and jobs end with an error that is [ErrClosed] and says so, and so do later
// ones. Close does nothing more. Functions with streams are not resumed.
//
// Detach returns [ErrUnsupported] with the reasons, and does nothing, if money might be spent
// without a bound: if [Cost].Bounded is false, unless that is only since machines cannot end
// themselves and the pool has a guardian, which does it once the lease is over (see
// [WithoutGuardian]). It does so too if machines end with this program, or if Attach could not take
// the tasks up. If it is called again all the same, it detaches.
func (c *Compute) Detach() (id string, err error) {
	p := c.p
	if !p.detached.Load() {
		if p.ctx.Err() != nil {
			return "", p.fleet.ClosedError()
		}
		if why := mustStay(p); why != nil && !p.warned.Swap(true) {
			return "", &Error{
				Provider: p.account.Provider, Op: "detach", Kind: ErrUnsupported, Err: errors.New(strings.Join(why, "; ")),
				Hint: "Close ends the pool, and a second call of Detach leaves it as it is",
			}
		}
	}
	err = p.closeBy(func() error {
		if p.ctx.Err() != nil {
			return p.end() // tasks end with it
		}
		p.detached.Store(true)
		cost := p.cost()
		p.events.emit(Event{Kind: EventPool, State: "detached", Cost: &cost})
		return p.leave(&Error{Provider: p.account.Provider, Op: "pool", Kind: ErrClosed, Err: errors.New("this program has left it by Detach"), Hint: "Attach takes it up"})
	})
	if !p.detached.Load() {
		return "", p.fleet.ClosedError()
	}
	return p.id, err
}

// mustStay returns why this program should not leave the pool, or nil.
func mustStay(p *pool) (why []string) {
	why = p.spending.Unbounded(p.guardian != nil)
	for _, n := range p.snapshot() {
		if n.ID == "" && n.State == NodeLaunching && !p.account.Caps.Free && !p.account.Caps.Adopts {
			why = append(why, fmt.Sprintf("the machine of node %d is being launched", n.Rank))
		}
	}
	if !p.journal.Keeps() {
		why = append(why, "its tasks are not recorded, so that Attach cannot take it up")
	}
	return why
}

// attach takes up the nodes and tasks of a pool.
func (p *pool) attach(state *journal.State) error {
	p.events.emit(Event{Kind: EventPool, State: "attaching", Spec: shown(p.spec)})
	nodes, err := p.takeNodes()
	if err != nil {
		return err
	}
	if err := p.resumeNodes(nodes); err != nil {
		return err
	}
	if err := p.describeNodes(nodes); err != nil {
		return err
	}
	p.resume(state)
	for _, m := range nodes {
		m.Node.PinImage(state.Environments[m.Node.Name()].Image)
	}
	p.fleet.GoOn(nodes)
	p.keepUp()
	if err := p.fleet.AwaitEach(nodes); err != nil {
		return err
	}
	p.resumption.queueRest(p)
	p.events.emit(Event{Kind: EventPool, State: "ready"})
	watchIdle(p)
	return nil
}

// takeNodes makes nodes of the pool's machines.
func (p *pool) takeNodes() ([]*fleet.Member, error) {
	recalled, err := p.inventory.Recall(p.ctx)
	if err != nil {
		return nil, p.interrupted(err)
	}
	var machines []node.Earlier
	for _, m := range recalled {
		machines = append(machines, node.Earlier{Name: m.Name, Folder: m.Root, HostKeys: m.HostKeys, Instance: m.Instance})
	}
	return p.fleet.Resume(machines), nil
}

// resumeNodes makes machines reachable that could be reached only through their program.
func (p *pool) resumeNodes(nodes []*fleet.Member) error {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.Node.Instance().ID
	}
	r, ok := p.account.Driver.(driver.Resumer)
	if !ok {
		return nil
	}
	return p.interrupted(retry.Call(p.ctx, func() error { return r.Resume(p.ctx, p.inventory.Info(), ids...) }))
}

// describeNodes asks the provider for the current state of the machines.
func (p *pool) describeNodes(nodes []*fleet.Member) error {
	if len(nodes) == 0 {
		return nil
	}
	byID := map[string]*fleet.Member{}
	var ids []string
	for _, n := range nodes {
		byID[n.Node.Instance().ID] = n
		ids = append(ids, n.Node.Instance().ID)
	}
	var found []driver.Instance
	err := retry.Call(p.ctx, func() (err error) {
		found, err = p.account.Driver.Describe(p.ctx, ids...)
		return err
	})
	if err != nil {
		return p.interrupted(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, inst := range found {
		n := byID[inst.ID]
		if n == nil {
			continue
		}
		launched := n.Node.Instance()
		offer := launched.Offer // the launch reported the price that is charged
		if _, known := inst.Offer.HourlyUSD.USD(); !known {
			offer.Capabilities = inst.Offer.Capabilities
			inst.Offer = offer
		}
		inst.Name, inst.Rank = n.Node.Name(), launched.Rank
		n.Node.SetInstance(inst)
		n.Node.Assign(inst.Offer)
	}
	return nil
}
