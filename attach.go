package gputrain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/owner"
	"github.com/gputrain/gputrain/internal/ssh"
)

// Attach takes up a pool whose program is dead, by its name or ID: the same nodes with
// the same host keys, its tasks and their results. It goes by the ledger of this
// computer, and by the provider, which must be configured as it was.
//
// Every task that the dead program was not given the result of is one of
// [Compute.Jobs]: those that ended meanwhile have their results, those that run go on,
// with their output from its start, and those that waited are run. What needs one of
// Task.Secrets and is started, or started again, finds it in [WithSecrets], or fails. Tasks outlive
// their program for the length of the lease: what was lost with a node runs again.
// Functions with streams are not taken up.
//
// A pool whose program lives is [ErrInUse], unless [WithTakeover] is given. Should an
// older program come back, it finds itself fenced off: its tasks fail, as [ErrFenced],
// and it ends nothing. A pool that was being closed is [ErrClosed]: Reap ends it.
func Attach(ctx context.Context, provider Provider, pool string, opts ...Option) (*Compute, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if provider == nil || pool == "" {
		return nil, &Error{Op: "attach", Kind: ErrInvalid, Err: errors.New("it takes the provider and the pool's name or ID")}
	}
	if err := errors.Join(o.validate(), programReady("attach")); err != nil {
		return nil, err
	}
	dir, err := o.stateDir.open()
	if err != nil {
		return nil, err
	}
	id, err := findPool(dir, pool, provider.Name(), o.takeover)
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
	p, kept, err := takeUp(ctx, dir, id, provider.Name(), driver, o)
	if err != nil {
		return nil, errors.Join(err, driver.Close())
	}
	if err = p.attach(kept); err != nil {
		err = p.notOpened(ctx, "attach", err)
	}
	p.events.opened()
	p.lives.Done()
	if err != nil {
		return nil, errors.Join(err, p.leavePool(err))
	}
	p.mu.Lock()
	p.attaching = false
	p.mu.Unlock()
	if ctx.Err() != nil {
		p.finish(context.Cause(ctx))
	}
	return &Compute{p: p, ctx: p.ctx}, nil
}

// WithTakeover lets Attach take a pool whose program lives, or seems to: one that hangs,
// or that runs on a computer that cannot be reached. That program is fenced off.
func WithTakeover() Option { return func(o *options) { o.takeover = true } }

// WithSecrets gives Attach the values of Task.Secrets, by their names, for tasks that
// had not begun, or are tried again: they are kept nowhere. References among them are
// looked up by Attach.
func WithSecrets(secrets map[string]Secret) Option {
	return func(o *options) { o.secrets = secrets }
}

// findPool returns the ID of the pool that is meant.
func findPool(dir *ledger.Dir, pool, provider string, takeover bool) (string, error) {
	ids, err := dir.Pools()
	if err != nil {
		return "", ledgerError("list the ledgers", err)
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

// takeUp makes this program the pool's, and reads what is kept of it.
func takeUp(ctx context.Context, dir *ledger.Dir, id, provider string, driver Driver, o options) (_ *pool, _ *keptPoolState, err error) {
	snap, err := dir.Read(id)
	if err != nil {
		return nil, nil, ledgerError("attach", err)
	}
	switch account := driver.Capabilities().Account; {
	case snap.Provider != provider || len(snap.Members) == 0 && snap.Account != account:
		return nil, nil, &Error{Provider: provider, Op: "attach", Kind: ErrInvalid, Err: fmt.Errorf("pool %s is of %s in %q, not of %s in %q", id, snap.Provider, snap.Account, provider, account)}
	case snap.Closing:
		return nil, nil, &Error{Provider: provider, Op: "attach", Kind: ErrClosed, Err: fmt.Errorf("pool %s was being closed", id), Hint: "Reap ends what is left of it"}
	case !snap.Expires.IsZero() && now().After(snap.Expires):
		return nil, nil, &Error{Provider: provider, Op: "attach", Kind: ErrExpired, Err: fmt.Errorf("pool %s had a TTL, until %v", id, snap.Expires), Hint: "Reap ends what is left of it"}
	}
	if err := takeMembers(driver, snap); err != nil {
		return nil, nil, err
	}
	l, snap, err := dir.Take(id, owner.Self().String(), ledger.TakeOptions{Force: o.takeover})
	if err != nil {
		return nil, nil, ledgerError("attach", err)
	}
	defer func() {
		if err != nil {
			l.Close(false)
		}
	}()
	key, err := l.Key()
	if err != nil {
		return nil, nil, ledgerError("attach", err)
	}
	signer, err := ssh.ParseKey(key)
	if err != nil {
		return nil, nil, ledgerError("attach", fmt.Errorf("the pool's key: %w", err))
	}
	j, kept, err := readJournal(l.TasksPath())
	if err != nil {
		return nil, nil, &Error{Provider: provider, Op: "attach", Kind: ErrLedger, Err: fmt.Errorf("what pool %s keeps of its tasks: %w", id, err), Hint: "Reap ends the pool"}
	}
	if o.resultsDir == "" {
		o.resultsDir = keptResultsDir(id, kept.spec.ResultsDir)
	}
	o.name = snap.Name
	p := newPool(ctx, provider, driver, kept.spec.Spec, o, identity{
		id: id, keys: keys{signer: signer, private: key, public: snap.AuthorizedKey}, expires: snap.Expires, generation: l.Generation(), attaching: true,
	})
	p.ledger, p.journal = l, j
	j.failed = p.journalFailed
	p.taskSeq.Store(kept.lastTask)
	for _, up := range kept.uploads {
		p.uploads.add(upload(up))
	}
	return p, kept, nil
}

// leavePool lets a pool go that could not be attached to: it is as it was, for another
// Attach, or Reap.
func (p *pool) leavePool(why error) error {
	return p.closeBy(func() error {
		p.watch()
		p.cancel(why)
		p.expire()
		p.finish(why)
		p.lives.Wait()
		p.disconnect()
		p.running.Wait()
		p.background.Wait()
		p.journal.close()
		defer p.events.close()
		return errors.Join(p.closeLedger(false), p.driver.Close())
	})
}

// attach takes up the nodes and tasks of a pool.
func (p *pool) attach(kept *keptPoolState) error {
	p.events.emit(Event{Kind: EventPool, State: "attaching"})
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
	p.recall(kept)
	for _, n := range nodes {
		p.lives.Go(func() { n.live(n.inst, nil) })
	}
	p.mu.Lock()
	var more []*poolNode
	for len(p.nodes) < p.least {
		more = append(more, p.addNodeLocked())
	}
	p.mu.Unlock()
	if more != nil {
		p.lives.Go(func() { p.rentMore(more) })
	}
	p.keepUp()
	if err := p.awaitTaken(nodes); err != nil {
		return err
	}
	p.resumeRest()
	p.events.emit(Event{Kind: EventPool, State: "ready"})
	return nil
}

// takeNodes makes nodes of the ledger's machines, and finds out what has become of
// those that a launch was about to make.
func (p *pool) takeNodes() ([]*poolNode, error) {
	rows := p.ledger.Snapshot().Rows
	byRank := map[int]ledger.Row{}
	for _, row := range rows {
		p.remember(row)
		p.remembered(row)
		if row.Kind != "machine" {
			continue
		}
		p.named = bump(p.named, row.Rank)
		switch {
		case row.ID != "":
			m := p.machineOf(row)
			m.unwanted = row.State == ledger.Ending
			p.machines[row.ID] = m
			p.bought = append(p.bought, m)
			if row.State == ledger.Created || row.State == ledger.Leased {
				if older, twice := byRank[row.Rank]; twice {
					p.machines[older.ID].unwanted = true
				}
				byRank[row.Rank] = row
			}
		case row.State != ledger.Gone:
			p.inFlight[row.Name] = row.Intended
		}
	}
	if names := p.openIntents(); len(names) > 0 {
		found, err := p.settle(p.ctx, names, now().Add(p.caps.ListLag), nil)
		if err != nil {
			return nil, p.interrupted(err)
		}
		for _, inst := range found {
			if _, taken := byRank[inst.Rank]; taken {
				p.machines[inst.ID].unwanted = true
				continue
			}
			byRank[inst.Rank] = p.rowOf(inst)
		}
	}
	var nodes []*poolNode
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rank := range sortedKeys(byRank) { // dense again, should one be missing
		row := byRank[rank]
		n := newPoolNode(p, len(p.nodes))
		n.name, n.inst, n.root, n.server.earlier = row.Name, p.machines[row.ID].inst, row.Root, row.HostKeys
		n.of.Store(p.memberOf(n.inst.Offer))
		p.nodes = append(p.nodes, n)
		nodes = append(nodes, n)
		n.enterLocked(NodeLaunching, nil)
	}
	p.most = max(p.most, len(p.nodes))
	return nodes, nil
}

func bump(counts map[int]int, rank int) map[int]int {
	if counts == nil {
		counts = map[int]int{}
	}
	counts[rank]++
	return counts
}

func sortedKeys[V any](m map[int]V) []int {
	var keys []int
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// resumeNodes has the machines reachable again that only their program has made so.
func (p *pool) resumeNodes(nodes []*poolNode) error {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.inst.ID
	}
	for _, m := range accounts(p.members) {
		r, ok := m.driver.(Resumer)
		own := m.ownIDs(ids)
		if !ok || len(own) == 0 {
			continue
		}
		if err := patiently(p.ctx, func() error { return r.Resume(p.ctx, m.info(p.infoNow()), own...) }); err != nil {
			return p.interrupted(err)
		}
	}
	return nil
}

// describeNodes asks the provider for the machines as they are now.
func (p *pool) describeNodes(nodes []*poolNode) error {
	if len(nodes) == 0 {
		return nil
	}
	byID := map[string]*poolNode{}
	var ids []string
	for _, n := range nodes {
		byID[n.inst.ID] = n
		ids = append(ids, n.inst.ID)
	}
	var found []Instance
	err := patiently(p.ctx, func() (err error) {
		found, err = p.driver.Describe(p.ctx, ids...)
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
		offer := n.inst.Offer // what is charged was told at the launch
		if _, known := inst.Offer.HourlyUSD.USD(); !known {
			inst.Offer = offer
		}
		inst.Name, inst.Rank = n.name, n.inst.Rank
		n.inst = inst
	}
	return nil
}

// awaitTaken waits until each of the nodes is ready, or over.
func (p *pool) awaitTaken(nodes []*poolNode) error {
	stop := context.AfterFunc(p.ctx, p.changed.Broadcast)
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range nodes {
		for n.state != NodeReady && !n.state.over() {
			if p.ctx.Err() != nil {
				return p.interrupted(context.Cause(p.ctx))
			}
			p.changed.Wait()
		}
	}
	return nil
}
