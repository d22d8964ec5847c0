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

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/owner"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"golang.org/x/sync/errgroup"
)

const (
	// reapAtOnce is how many pools are ended at the same time, and reapTimeout how
	// long one of them may take.
	reapAtOnce, reapTimeout = 8, 5 * time.Minute
	// clockSkew is how far two computers' clocks may be apart.
	clockSkew = 5 * time.Minute
)

// Reap ends whatever belongs to pools whose programs are dead, with the providers
// that are given, and returns what it has ended. It goes by the ledgers of this
// computer and by what the providers themselves list, so that it also finds what
// was made from another one. It never touches the pool of a program that lives: one
// on this computer is asked for, by its lock and its process; of another computer
// it must be certain that the pool's lease or TTL has run out, and where that cannot
// be told the pool is left alone. Results that the pool's program has put on disk stay
// where they are: Pools names the folders, before Reap has removed the ledger. Errors name what could not be ended, in a
// [*LeakError].
func Reap(ctx context.Context, providers ...Provider) ([]Resource, error) {
	return StateDir("").Reap(ctx, providers...)
}

// Reap is [Reap], by the ledgers of the folder.
func (d StateDir) Reap(ctx context.Context, providers ...Provider) ([]Resource, error) {
	if len(providers) == 0 {
		return nil, &Error{Op: "reap", Kind: ErrInvalid, Err: errors.New("no provider is given: whose machines are to be looked for?")}
	}
	dir, err := d.open()
	if err != nil {
		return nil, err
	}
	r := &reaper{dir: dir, self: owner.Self().String()}
	for _, provider := range r.flat(providers) {
		driver, err := provider.Open(ctx)
		if err != nil {
			r.failed(err)
			continue
		}
		defer driver.Close()
		r.accounts = append(r.accounts, account{provider.Name(), driver, driver.Capabilities()})
	}
	r.work.SetLimit(reapAtOnce)
	known := r.byLedger(ctx)
	r.byProvider(ctx, known)
	_ = r.work.Wait() // the errors are the reaper's
	slices.SortFunc(r.ended, func(a, b Resource) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), strings.Compare(a.Kind, b.Kind), strings.Compare(a.ID, b.ID))
	})
	return r.ended, errors.Join(r.errs...)
}

// flat returns the providers, and for a group its members.
func (r *reaper) flat(providers []Provider) (all []Provider) {
	for _, provider := range providers {
		if provider == nil {
			r.failed(&Error{Op: "reap", Kind: ErrInvalid, Err: errors.New("a provider is nil")})
			continue
		}
		g, ok := provider.(group)
		if !ok {
			all = append(all, provider)
			continue
		}
		members, err := g.flat()
		if err != nil {
			r.failed(err)
		}
		for _, m := range members {
			all = append(all, m.Provider)
		}
	}
	return all
}

// An account is a provider that is open.
type account struct {
	name   string
	driver Driver
	caps   Capabilities
}

// A reaper is one call of Reap.
type reaper struct {
	dir      *ledger.Dir
	self     string
	accounts []account
	work     errgroup.Group

	mu    sync.Mutex
	ended []Resource
	errs  []error
}

func (r *reaper) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// byLedger ends the pools of which there is a ledger here, and returns the ids of all
// such pools, also of those that live.
func (r *reaper) byLedger(ctx context.Context) map[string]bool {
	known := map[string]bool{}
	ids, err := r.dir.Pools()
	if err != nil {
		r.failed(ledgerError("list the ledgers", err))
	}
	for _, id := range ids {
		known[id] = true
		snap, err := r.dir.Read(id)
		switch {
		case err != nil:
			r.failed(ledgerError("read the ledger of "+id, err))
			continue
		case snap.InUse:
			continue
		}
		a, ok := r.accountOf(snap)
		if !ok {
			continue // it is no business of the providers given
		}
		r.work.Go(func() error {
			r.take(ctx, a, id)
			return nil
		})
	}
	return known
}

// accountOf returns whose a pool is. Of a group's pool it is those of the members that
// are given, if any is of those that may hold something.
func (r *reaper) accountOf(snap *ledger.Snapshot) (account, bool) {
	if len(snap.Members) == 0 {
		i := slices.IndexFunc(r.accounts, func(a account) bool { return a.name == snap.Provider && a.caps.Account == snap.Account })
		if i < 0 {
			return account{}, false
		}
		return r.accounts[i], true
	}
	g := &groupDriver{name: snap.Provider}
	for _, a := range r.accounts {
		if slices.Contains(snap.Members, memberKey(a.name, a.caps.Account)) {
			g.add(a.name, 0, a.driver)
		}
	}
	want := owed(snap.Rows)
	if g.members == nil || len(want) > 0 && !slices.ContainsFunc(g.keys(), func(key string) bool { return slices.Contains(want, key) }) {
		return account{}, false
	}
	g.caps = g.common()
	g.begin()
	for _, key := range want {
		g.touch(key)
	}
	return account{snap.Provider, g, g.caps}, true
}

// notGiven returns those rows of a group's pool that are of members which Reap was not
// given, and takes them from the others.
func (a account) notGiven(rows []ledger.Row) (given []ledger.Row, left map[string]Resource) {
	g, ok := a.driver.(*groupDriver)
	if !ok {
		return rows, nil
	}
	left = map[string]Resource{}
	for _, row := range rows {
		switch {
		case row.Member == "" || slices.Contains(g.keys(), row.Member):
			given = append(given, row)
		case row.State != ledger.Gone && row.Kind != sharedRow:
			left[row.Name] = Resource{Provider: row.Member, Kind: row.Kind, ID: row.ID, Name: row.Name, Region: row.Region}
		case row.State != ledger.Gone:
			left[row.Name] = Resource{Provider: row.Member, Kind: "whatever nodes shared"}
		}
	}
	return given, left
}

// take takes a dead program's pool over, and ends it.
func (r *reaper) take(ctx context.Context, a account, id string) {
	l, snap, err := r.dir.Take(id, r.self, ledger.TakeOptions{Damaged: true})
	switch {
	case errors.Is(err, ledger.ErrInUse):
		return // another Reap, or an Attach, was first
	case err != nil:
		r.failed(ledgerError("take over "+id, err))
		return
	}
	p := a.remains(ctx, PoolInfo{ID: id, Name: snap.Name, Owner: snap.Holder, Lease: snap.Lease, Expires: snap.Expires}, l)
	rows, left := a.notGiven(snap.Rows)
	for _, row := range rows {
		p.remember(row)
		p.remembered(row)
		switch {
		case row.Kind != "machine" || row.State == ledger.Gone:
		case row.ID == "":
			p.inFlight[row.Name] = row.Intended
		default:
			m := p.machineOf(row)
			p.machines[row.ID] = m
			p.bought = append(p.bought, m)
		}
	}
	err = p.leaveHosts(ctx, rows)
	if len(left) > 0 {
		err = errors.Join(err, p.leaked(left, errors.New("Reap was not given these providers")))
	}
	if err != nil {
		r.failed(fmt.Errorf("pool %s: %w", id, err))
	}
	err = errors.Join(err, r.end(ctx, p))
	if closed := p.closeLedger(err == nil); closed != nil {
		r.failed(closed)
	}
}

// leaveHosts ends what a pool runs on machines that were adopted, as its Close would
// have. What has ended itself by its lease is gone already.
func (p *pool) leaveHosts(ctx context.Context, rows []ledger.Row) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row ledger.Row) bool {
		return row.Kind != "machine" || row.State == ledger.Gone || row.Root == "" || !p.capsOf(p.machineOf(row).inst.Offer).Adopts
	})
	if len(rows) == 0 {
		return nil
	}
	key, err := p.ledger.Key()
	if err == nil {
		p.keys.signer, err = ssh.ParseKey(key)
	}
	if err != nil {
		return ledgerError("reap", fmt.Errorf("the pool's key: %w", err))
	}
	ctx, stop := context.WithTimeout(ctx, leaveTimeout)
	defer stop()
	var hosts sync.WaitGroup
	for _, row := range rows {
		n := newPoolNode(p, row.Rank)
		n.name, n.root, n.server.earlier, n.inst = row.Name, row.Root, row.HostKeys, p.machines[row.ID].inst
		n.of.Store(p.memberOf(n.inst.Offer))
		p.nodes = append(p.nodes, n)
		hosts.Go(func() {
			switch err := n.reach(ctx); {
			case errors.Is(err, supervisor.ErrLapsed), errors.Is(err, supervisor.ErrRestarted):
				n.left = true
			case err != nil:
				n.leaveErr = err
			}
		})
	}
	hosts.Wait()
	err = p.leave(ctx)
	p.disconnect()
	return err
}

// reach connects to a machine where an earlier program has had a node.
func (n *poolNode) reach(ctx context.Context) error {
	found, err := n.p.driver.Describe(ctx, n.inst.ID)
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0].SSH.Addr == "" {
		return &Error{Provider: n.provider(), Op: "reach " + n.inst.ID, Kind: ErrNotFound, Err: errors.New("it is not one of the provider's machines any more")}
	}
	n.inst = found[0]
	if n.client, err = n.p.sshClient(n, n.inst); err != nil {
		return err
	}
	if err := n.client.Connect(ctx); err != nil {
		return err
	}
	n.super, _, err = supervisor.Attach(ctx, n.client, supervisor.Config{
		PoolID: n.p.id, Name: n.name, Lease: n.p.spec.lease(), Generation: n.p.generation, Root: n.root,
	})
	if err == nil {
		n.facts = n.super.Facts()
	}
	return err
}

// byProvider ends the pools that only a provider knows of.
func (r *reaper) byProvider(ctx context.Context, known map[string]bool) {
	for _, a := range r.accounts {
		listed, err := a.driver.List(ctx, "")
		if err != nil {
			r.failed(err)
			continue
		}
		pools := map[string][]Resource{}
		for _, res := range listed {
			if res.Pool != "" && !known[res.Pool] {
				pools[res.Pool] = append(pools[res.Pool], res)
			}
		}
		for id, held := range pools {
			_, marks := a.driver.(LeaseMarker)
			if !isDead(held, marks, now()) {
				continue
			}
			r.work.Go(func() error {
				_ = r.end(ctx, a.remains(ctx, PoolInfo{ID: id, Owner: held[0].Owner, Lease: held[0].Lease, Expires: held[0].Expires}, nil)) // it is the reaper's
				return nil
			})
		}
	}
}

// isDead reports whether it is certain that the program of a pool is dead, of which
// only its provider tells. marks is whether programs note there that they live. An
// owner that lives decides; one that is dead does not, since another program may have
// taken the pool up: what it was made with says nothing of that.
func isDead(held []Resource, marks bool, at time.Time) bool {
	var created, until, expires time.Time
	var lease time.Duration
	runs := false
	for _, r := range held {
		if who, err := owner.Parse(r.Owner); err == nil {
			if alive, known := who.Alive(); known && alive {
				return false
			}
		}
		latest(&created, r.Created)
		latest(&until, r.LeaseUntil)
		latest(&expires, r.Expires)
		lease = max(lease, r.Lease)
		runs = runs || r.Kind == "machine" && r.State != InstanceStopped && r.State != InstanceFailed && r.State != InstancePreempted && r.State != InstanceTerminated
	}
	switch {
	case !expires.IsZero() && at.After(expires.Add(clockSkew)):
		return true
	case !until.IsZero():
		return at.After(until.Add(clockSkew))
	case runs && !marks, created.IsZero(), lease == 0:
		return false // it may be in use: what lies about on the machine is its own to end
	}
	return at.After(created.Add(lease + DefaultProvisionTimeout + clockSkew))
}

func latest(to *time.Time, t time.Time) {
	if t.After(*to) {
		*to = t
	}
}

// remains is a pool that is only to be ended.
func (a account) remains(ctx context.Context, info PoolInfo, l *ledger.Ledger) *pool {
	who := identity{id: info.ID, generation: 1}
	if l != nil {
		who.generation = l.Generation()
	}
	p := newPool(ctx, a.name, a.driver, Spec{Lease: info.Lease}, options{}, who)
	p.watch() // the end of ctx must not close it: the driver is the reaper's
	p.lives.Done()
	p.info, p.ledger = info, l
	return p
}

// end ends what is left of a pool, and notes what that was.
func (r *reaper) end(ctx context.Context, p *pool) error {
	defer p.events.close()
	defer p.cancel(ErrClosed)
	defer p.finish(ErrClosed)
	p.seen = map[string]Resource{}
	p.look(ctx)
	err := p.endRented(ctx, reapTimeout)
	if err != nil {
		r.failed(fmt.Errorf("pool %s: %w", p.id, err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, res := range p.seen {
		if err == nil || !leaks(err, res.ID) {
			r.ended = append(r.ended, res)
		}
	}
	return err
}

// look finds out, for what Reap tells, which machines of the ledger there are before
// they are ended: lists may lack them.
func (p *pool) look(ctx context.Context) {
	known := p.known()
	if len(known) == 0 {
		return
	}
	found, err := p.driver.Describe(ctx, slices.Sorted(maps.Keys(known))...)
	if err != nil {
		return // they are ended all the same
	}
	for _, inst := range found {
		if r, ok := known[inst.ID]; ok && inst.State != InstanceTerminated && inst.State != InstanceUnknown {
			r.Pool, r.Owner, r.State = p.id, p.info.Owner, inst.State
			p.seen[inst.ID] = r
		}
	}
}

// leaks reports whether an error may be about a resource that is left.
func leaks(err error, id string) bool {
	var leak *LeakError
	if !errors.As(err, &leak) {
		return true
	}
	return slices.ContainsFunc(leak.Resources, func(r Resource) bool { return r.ID == id })
}
