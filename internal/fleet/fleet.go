// Package fleet is the nodes of a pool by their ranks: how many there are, what becomes of a
// rank whose node is lost, what a notice of preemption changes, and how the number of nodes
// follows Resize, or the tasks. A node's own life is in package node, and what is made and
// billed in package inventory.
//
// Ranks count from 0 and are dense: if a member that is not the last is removed, the last one
// gets its rank. No two members have one rank at the same time, and none is replaced before it
// is over.
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/inventory"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/opening"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/providers/driver"
)

// Config configures a Fleet.
type Config struct {
	// Context ends with the pool. What is done after that is part of the pool's end.
	Context context.Context
	// Least and Most bound the number of members. An Elastic fleet follows the tasks between
	// them; any other one has Least members.
	Least, Most int
	Elastic     bool
	// Slots is the number of tasks without devices of their own that a member runs at a time.
	Slots int
	// Units are what a member has that tasks can have alone: devices, or shares of them.
	Units Units
	// Replacements bounds how often in a row a rank gets another machine.
	Replacements int
	// A member of an elastic fleet ends after it has had no task for IdleTimeout.
	IdleTimeout time.Duration
	// WaitForCapacity is how long members wait for room, quota or a price. Zero means that they
	// fail at once.
	WaitForCapacity time.Duration
	// MaxOffers bounds the offers in a row that refuse a member its machine.
	MaxOffers int

	// Node are the settings that all nodes share.
	Node *node.Settings
	// Packages may be installed by a driver before a machine starts.
	Packages driver.Packages
	// ImageLogin returns the login of the registry of the image that a driver may rent.
	ImageLogin func() driver.ImageLogin
	// Market has the offers. Inventory launches and ends machines, and Spending pays for them.
	Market    *market.Market
	Inventory *inventory.Inventory
	Spending  *inventory.Spending

	// Lock guards the members and the scheduler's queues. A method whose comment says that the
	// lock is held is called with it; the others take it.
	Lock sync.Locker
	// Running counts the goroutines that run tasks, and those that wait to start one again.
	Running *sync.WaitGroup
	// Reporter learns what becomes of the fleet.
	Reporter Reporter
	// History learns which machines come up. Nil means that nothing is remembered.
	History History
	// Guest returns what the pool runs on a new member.
	Guest func(*Member) Guest
}

// Units are how many units a member of a fleet is expected to have, and can have at most.
type Units struct {
	Expected, Most int
	// Slots makes each slot of a member without devices a unit.
	Slots bool
}

// A Reporter learns what becomes of a fleet. Its methods do not block, and may be called with
// the lock held.
type Reporter interface {
	// Changed is called with a member's state whenever it changes, and with its failures. The lock is held.
	Changed(Change)
	// Offered is called with an offer that is tried for machines: "trying", then "taken" if it had room for some, or
	// "refused".
	Offered(o driver.Offer, state string, err error)
	// Preemption is called when a member's provider announces that it takes the machine back
	// ("notice"), when the command for that has run ("done" or "failed"), and if the machine
	// was not taken back ("spared").
	Preemption(rank int, what string, elapsed time.Duration, err error)
	// Launching is called with how a purchase goes on while offers refuse.
	Launching(err error)
	// Trouble is called with accounts whose offers are left out ("member"), and devices of a node that are ("accelerator").
	Trouble(about string, err error)
	// Pending is called when a provider gives another reason why a member's machine has not come up yet.
	Pending(m *Member, reason string)
	// Waiting is called with what members wait for, since when, and until when at most.
	Waiting(why error, since, until time.Time)
}

// A History remembers machines and phases for later pools.
type History interface {
	// Failed is called with the offer of a machine that did not come up, or was not what the offer
	// promised.
	Failed(o driver.Offer, why error) error
	// Booted is called with the offer of a machine that came up, and how long that took.
	Booted(o driver.Offer, took time.Duration) error
	// Ran is called with what identifies the work of a phase that was done, and how long it took; Usual returns how long
	// it usually takes, or 0.
	Ran(phase string, took time.Duration) error
	Usual(phase string) (time.Duration, error)
}

// A Change is the state of a member, and what went wrong with it, if anything.
type Change struct {
	Member *Member
	State  State
	Err    error
	// HostKey and HostKeySource are set in the states Bootstrapping and Ready.
	HostKey       string
	HostKeySource driver.HostKeySource
}

// A Fleet is the nodes of a pool.
type Fleet struct {
	// Tasks puts tasks onto the members.
	Tasks *scheduler.Scheduler

	config   Config
	machines machines
	renter   *renter
	changed  *sync.Cond // a member's state; its lock is Config.Lock
	phases   phases

	// Guarded by Config.Lock.
	roster  roster
	scaler  *scaler
	closing bool
	ending  int // members that a smaller fleet has let go, and whose end was not asked for yet
}

// New returns a fleet without members. It does nothing before Watch or Launch.
func New(c Config) *Fleet {
	f := &Fleet{config: c, changed: sync.NewCond(c.Lock)}
	f.scaler = &scaler{fleet: f, rescaled: make(chan struct{}, 1), least: c.Least, most: c.Most}
	f.machines = &shop{f.config}
	f.renter = &renter{fleet: f}
	f.Tasks = scheduler.New(scheduler.Config{Fleet: taskFleet{f}, Elastic: c.Elastic, Lock: c.Lock, Running: c.Running})
	return f
}

// Watch looks after the fleet until the context ends: how many members there are and, if spot
// is true, whether their provider takes any back. It returns at once.
func (f *Fleet) Watch(spot bool) {
	f.config.Node.Go(f.scaler.run)
	if spot {
		f.config.Node.Go(func() { node.WatchNotices(f.config.Context, f.config.Node.Driver, f.spotNodes) })
	}
}

// Close has the fleet take no more tasks, and get no more members. The lock is held.
func (f *Fleet) Close() {
	f.closing = true
	f.Tasks.Close()
}

// Launch adds as many members as the fleet has at least, and rents machines by these offers for
// them. It does not wait for those.
func (f *Fleet) Launch(offers []driver.Offer) {
	members := f.complete()
	f.config.Node.Go(func() { f.renter.rent(members, offers) })
}

// Resume adds a member for each machine that an earlier program has left.
func (f *Fleet) Resume(machines []node.Earlier) []*Member {
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	var members []*Member
	for _, e := range machines { // ranks are dense again, should one be missing
		m := f.newMember(len(f.roster.members))
		m.Node.Resume(e)
		f.add(m)
		members = append(members, m)
	}
	f.scaler.most = max(f.scaler.most, len(f.roster.members))
	return members
}

// GoOn has members of Resume live, adds members until there are as many as the fleet has at
// least, and rents machines for those. It does not wait for that.
func (f *Fleet) GoOn(members []*Member) {
	for _, m := range members {
		f.config.Node.Go(func() { m.live(m.Node.Instance(), nil) })
	}
	if more := f.complete(); more != nil {
		f.config.Node.Go(func() { f.renter.rentMore(more) })
	}
}

// complete adds members until there are as many as the fleet has at least.
func (f *Fleet) complete() []*Member {
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	return f.growTo(f.scaler.least)
}

// growTo adds members, which are to be rented, until there are so many. The lock is held.
func (f *Fleet) growTo(want int) []*Member {
	var members []*Member
	for len(f.roster.members) < want {
		m := f.newMember(len(f.roster.members))
		f.add(m)
		members = append(members, m)
	}
	return members
}

// add gives a new member the next rank. The lock is held.
func (f *Fleet) add(m *Member) {
	f.roster.members = append(f.roster.members, m)
	f.Tasks.Place(m.Slots, m.Rank())
	m.enter(Launching, nil)
}

// remove takes a member out. The last one gets its rank. The lock is held.
func (f *Fleet) remove(m *Member) {
	moved, ok := f.roster.remove(m)
	if !ok {
		return
	}
	f.Tasks.Remove(m.Slots)
	if moved != nil { // a reader of the events learns whose rank it is
		f.config.Reporter.Changed(Change{Member: moved, State: moved.state})
	}
	f.changed.Broadcast()
}

// letGo drops a member that is over and that the pool's end has nothing to do with: an elastic
// fleet may have very many in its life.
func (m *Member) letGo() {
	f := m.fleet
	if m.Node.Capabilities().Adopts {
		return // it may have left something behind, which the end reports
	}
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	f.roster.forget(m)
}

// Members returns the members, in the order of their ranks. The lock is held; the slice is not
// to be changed, or used without the lock.
func (f *Fleet) Members() []*Member { return f.roster.members }

// everyMember returns the members and those whose rank another one has got, as far as the pool's end
// has to do with them.
func (f *Fleet) everyMember() []*Member {
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	return f.roster.all()
}

// Terminated notes that every machine is confirmed gone.
func (f *Fleet) Terminated() {
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	for _, m := range f.roster.members {
		m.enter(Terminated, nil)
	}
}

// Sever cuts the connections to all nodes, as if this program had died. It takes effect on nodes
// that are to be connected to, too.
func (f *Fleet) Sever() {
	var all sync.WaitGroup
	for _, m := range f.everyMember() {
		all.Go(m.Node.Sever)
	}
	all.Wait()
}

// Disconnect closes the connections to all nodes.
func (f *Fleet) Disconnect() {
	for _, m := range f.everyMember() {
		m.disconnect()
	}
}

// Guests are what the pool runs on machines that go on without it.
func (f *Fleet) Guests() (guests []inventory.Guest) {
	for _, m := range f.everyMember() {
		if m.Node.Capabilities().Adopts {
			guests = append(guests, inventory.Guest{Provider: m.Node.Provider(), ID: m.Node.Instance().ID, Name: m.Node.Name(), Leave: m.clean})
		}
	}
	return guests
}

// Coming returns how far the members' machines have come, by rank.
func (f *Fleet) Coming() map[int]opening.Machine {
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	all := map[int]opening.Machine{}
	for _, m := range f.roster.members {
		c := opening.Machine{Failures: m.Node.Failures()}
		if inst := m.Node.Instance(); inst.ID != "" {
			c.State = fmt.Sprintf("%s is %v", inst.ID, inst.State)
			if inst.StateReason != "" {
				c.State += " (" + inst.StateReason + ")"
			}
		}
		all[m.Rank()] = c
	}
	return all
}

// A roster is the members by their ranks, and former ones. The fleet's lock guards it.
type roster struct {
	members []*Member
	former  []*Member // whose rank another member has got, or none has
	lastErr error     // of the last of them that was removed and had failed
}

// remove takes a member out, if it is there. It returns the last one if that got its rank.
func (r *roster) remove(m *Member) (moved *Member, ok bool) {
	if !r.has(m) {
		return nil, false
	}
	rank, last := m.Rank(), len(r.members)-1
	if rank != last {
		moved = r.members[last]
		r.members[rank] = moved
		moved.rank.Store(int32(rank))
	}
	r.members[last] = nil
	r.members = r.members[:last]
	r.former = append(r.former, m)
	r.lastErr = cmp.Or(m.err, r.lastErr)
	return moved, true
}

// replace gives the rank of a member to another one.
func (r *roster) replace(old, next *Member) {
	r.members[next.Rank()] = next
	r.former = append(r.former, old)
}

// has reports whether a member has its rank still.
func (r *roster) has(m *Member) bool { return m.Rank() < len(r.members) && r.members[m.Rank()] == m }

// forget drops a former member.
func (r *roster) forget(m *Member) {
	r.former = slices.DeleteFunc(r.former, func(other *Member) bool { return other == m })
}

// all returns the members and the former ones.
func (r *roster) all() []*Member { return append(slices.Clone(r.members), r.former...) }

// count returns how many members are in a state for which is reports true.
func (r *roster) count(is func(*Member) bool) (n int) {
	for _, m := range r.members {
		if is(m) {
			n++
		}
	}
	return n
}
