package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/cutoff"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Member is the node of one rank: its machine, its slots, and where it is in its life.
type Member struct {
	// Node is the machine, and the connection to it. Slots are what tasks run in.
	Node  *node.Node
	Slots *scheduler.Node

	fleet *Fleet
	guest Guest
	rank  atomic.Int32
	record

	// Guarded by the fleet's lock.
	offer      driver.Offer      // by which its machine was rented; of an offer for any region, the instance has the region
	labels     map[string]string // replaced at every change of state, never modified
	state      State
	err        error
	launchedAt time.Time // or when an earlier program's machine was taken over
	readyAt    time.Time // since when it takes tasks; zero if it never did
	idleSince  time.Time // since when it has none, nor visits
	visits     int       // that have not ended
	leaves     bool      // it takes no more tasks, and is ended once it has none
	retiring   bool      // it is being ended
	takenBack  time.Time // when its provider takes it back; zero if that is not known
	broken     error     // why it takes no more tasks, and is lost once it has none
	losing     bool      // it is being lost for that
}

// A Guest runs a pool's tasks on a member's machine, and is notified of what happens to the node.
// Its methods are called without the fleet's lock.
type Guest interface {
	// Phase is called when a phase changes its state, with how long it has run and usually runs, if that is known.
	Phase(name string, state bootstrap.State, elapsed, usual time.Duration)
	// Progressed, Sending, Bootstrapped, Leased, Resume, Join and TakenOver are those of a [node.Owner]. Join
	// calls the member's Ready.
	Progressed(phase string, p bootstrap.Progress)
	Sending() (progress transfer.Progress, end func(error))
	Bootstrapped(base bootstrap.Base)
	Leased(folder, hostKey string)
	Resume(found []supervisor.Found) (base bootstrap.Base, ready bool)
	Join(resumed bool) error
	TakenOver(why error) bool
	// Failure returns the error of the node as the user is to see it.
	Failure(err error) error
	// Close ends the guest.
	Close()
}

// newMember returns a member that has no machine yet. It is not in the roster.
func (f *Fleet) newMember(rank int) *Member {
	m := &Member{fleet: f}
	m.rank.Store(int32(rank))
	m.Slots = scheduler.NewNode(host{m}, f.config.Slots)
	o := &owner{member: m}
	m.Node = node.New(f.config.Context, f.config.Node, o)
	m.guest = f.config.Guest(m)
	o.Guest = m.guest
	return m
}

// Of returns the member that has the slots, or nil.
func Of(slots *scheduler.Node) *Member {
	if slots == nil {
		return nil
	}
	return slots.Host().(host).member
}

// Rank is the member's index in the fleet. It changes only if the fleet becomes smaller.
func (m *Member) Rank() int { return int(m.rank.Load()) }

// Guest returns what the pool runs on the member.
func (m *Member) Guest() Guest { return m.guest }

// State returns where the member is in its life. The lock is held.
func (m *Member) State() State { return m.state }

// Labels returns what tasks can choose the member by. The map does not change. The lock is held.
func (m *Member) Labels() map[string]string { return m.labels }

// Err returns what went wrong with the member last. The lock is held.
func (m *Member) Err() error { return m.err }

// takesPart reports whether the member gets new tasks: not if it is to end, or its provider
// will take it back.
func (m *Member) takesPart() bool { return m.state == Ready && m.stays() }

// stays reports whether the member is neither to end nor to be taken back, nor broken.
func (m *Member) stays() bool { return !m.leaves && m.takenBack.IsZero() && m.broken == nil }

// Ready has the member take tasks. The lock is held.
func (m *Member) Ready() {
	m.enter(Ready, nil)
	m.fleet.Tasks.Fill(m.Slots)
}

// live takes a machine from its launch to its end. The error launched came with it, if any: it
// is part of the error of a machine that does not come up.
func (m *Member) live(inst driver.Instance, launched error) {
	m.fleet.config.Lock.Lock()
	m.Node.SetInstance(inst)
	m.launchedAt = time.Now()
	unwanted := m.state.Over() // the fleet has become smaller meanwhile
	m.fleet.config.Lock.Unlock()
	if unwanted {
		m.discard()
		return
	}
	m.Node.Run(launched)
}

// fail ends a member that never became ready, or was lost. Its tasks end with its node's context, and
// the scheduler queues them again or fails them. Another member gets its rank if that may help.
func (m *Member) fail(err error) {
	f := m.fleet
	f.config.Lock.Lock()
	state, ended := Failed, f.closing || f.config.Context.Err() != nil
	if !ended {
		err = cutoff.NotDeadline(err)
	}
	switch {
	case m.state.Over(): // it was failed or retired before
		f.config.Lock.Unlock()
		return
	case ended:
		state = Terminated
	case errors.Is(err, driver.ErrNodeLost) && !m.readyAt.IsZero():
		state = Lost
	}
	m.enter(state, err)
	m.Node.GiveUp(err)
	m.rememberFailure(err)
	f.replace(m, err)
	f.Tasks.Dispatch()
	f.config.Lock.Unlock()
	if ended || f.config.Context.Err() != nil {
		return // the end of the pool sees to the rest
	}
	m.end()
}

// retire ends a member that the fleet no longer needs.
func (m *Member) retire() {
	f := m.fleet
	f.config.Lock.Lock()
	if m.state.Over() {
		f.config.Lock.Unlock()
		return
	}
	m.enter(Terminated, nil)
	m.Node.GiveUp(errRetired)
	f.remove(m)
	f.ending++
	f.Tasks.Dispatch()
	f.config.Lock.Unlock()
	m.end()
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	f.ending--
	f.changed.Broadcast()
}

var errRetired = errors.New("the pool has become smaller")

// end ends the machine of a member that is over, before the end of the pool.
func (m *Member) end() {
	if m.Node.Capabilities().Adopts {
		m.guest.Close()
		m.Node.Abandon()
	}
	m.disconnect()
	m.discard()
	m.letGo()
}

// discard ends the machine. If that fails, an audit and the end of the pool try again.
func (m *Member) discard() {
	id := m.Node.Instance().ID
	if id == "" {
		return
	}
	m.fleet.machines.discard(id, func(err error) {
		m.fleet.config.Lock.Lock()
		defer m.fleet.config.Lock.Unlock()
		m.fleet.config.Reporter.Changed(Change{Member: m, State: m.state, Err: err})
	})
}

// clean ends what the pool runs on an adopted machine, and removes its files.
func (m *Member) clean(ctx context.Context) error {
	m.guest.Close()
	return m.Node.Clean(ctx)
}

// disconnect ends what the pool runs on the machine, and closes the connection.
func (m *Member) disconnect() {
	m.guest.Close()
	m.Node.Close()
}

// enter changes the member's state, unless it is over. The lock is held.
func (m *Member) enter(s State, err error) {
	if m.state.Over() {
		return // a change that comes too late
	}
	m.state, m.labels = s, m.currentLabels()
	if err != nil {
		m.err = err
	}
	if s == Ready && m.readyAt.IsZero() {
		m.readyAt, m.idleSince = time.Now(), time.Now()
	}
	m.fleet.Tasks.Update(m.Slots)
	c := Change{Member: m, State: s, Err: err}
	if s == Bootstrapping || s == Ready {
		c.HostKey, c.HostKeySource = m.Node.HostKey()
	}
	m.fleet.config.Reporter.Changed(c)
	m.fleet.changed.Broadcast()
}

// An owner is a member as its node sees it.
type owner struct {
	member *Member
	Guest
}

func (o *owner) Rank() int      { return o.member.Rank() }
func (o *owner) WasReady() bool { return o.member.wasReady }
func (o *owner) Connecting()    { o.enter(Connecting) }
func (o *owner) Bootstrapping() {
	o.enter(Bootstrapping)
	o.member.rememberBoot()
}

func (o *owner) enter(s State) {
	o.member.fleet.config.Lock.Lock()
	defer o.member.fleet.config.Lock.Unlock()
	o.member.enter(s, nil)
}

func (o *owner) Troubled(about string, err error) {
	o.member.fleet.config.Reporter.Trouble(about, fmt.Errorf("node %d: %w", o.Rank(), err))
}

func (o *owner) Pending(reason string) { o.member.fleet.config.Reporter.Pending(o.member, reason) }

// Phase tells the guest how long the phase usually takes, and remembers how long it took.
func (o *owner) Phase(p bootstrap.Phase, state bootstrap.State, elapsed time.Duration) {
	f, usual := o.member.fleet, time.Duration(0)
	if state == bootstrap.Started {
		usual = f.phases.usualTime(&f.config, p.Key)
	}
	o.Guest.Phase(p.Name, state, elapsed, usual)
	if state == bootstrap.Done && f.config.History != nil && f.phases.isFirst(p.Key) {
		o.member.remember(func(h History) error { return h.Ran(p.Key, elapsed) })
	}
}

// Renewed reports the state of a ready node once more, since its lease ends later now.
func (o *owner) Renewed() {
	m := o.member
	m.fleet.config.Lock.Lock()
	defer m.fleet.config.Lock.Unlock()
	if m.state == Ready {
		m.fleet.config.Reporter.Changed(Change{Member: m, State: m.state})
	}
}

// Reachable shows whether the connection is up. Tasks are not started over one that is down.
func (o *owner) Reachable(up bool) {
	m := o.member
	m.fleet.config.Lock.Lock()
	defer m.fleet.config.Lock.Unlock()
	switch {
	case up && m.state == Unreachable:
		m.Ready()
	case !up && m.state == Ready:
		m.enter(Unreachable, nil)
	}
	if up {
		m.spare()
	}
}

func (o *owner) Noticed(at time.Time) { o.member.notice(at) }

func (o *owner) Moved(received, sent int64) {
	o.member.fleet.config.Spending.Moved(o.member.Node.Instance().ID, received, sent)
}

func (o *owner) Offline() bool {
	f := o.member.fleet
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	in := func(s State) int { return f.roster.count(func(m *Member) bool { return m.state == s }) }
	return in(Ready) == 0 && in(Unreachable) > 1
}

func (o *owner) Failed(err error) {
	o.member.fail(cutoff.By(o.member.fleet.config.Context, o.Failure(err)))
}

// A host is a member as the scheduler sees it.
type host struct{ member *Member }

func (h host) State() scheduler.State {
	switch m := h.member; {
	case m.state.Over():
		return scheduler.Over
	case m.state == Unreachable:
		return scheduler.Away
	case m.state != Ready:
		return scheduler.Coming
	case !m.stays():
		return scheduler.Leaving
	}
	return scheduler.Open
}

func (h host) Labels() map[string]string { return h.member.labels }

func (h host) Units() (count, group int) {
	count, group = h.member.Node.Devices().Units()
	if c := h.member.fleet.config; count == 0 && c.Units.Slots {
		count = c.Slots
	}
	return count, group
}

func (h host) End() error {
	if h.member.err != nil {
		return h.member.err
	}
	return errors.New(h.member.Node.Name() + " is " + h.member.state.String())
}

func (h host) Idle() {
	m := h.member
	m.idleSince = time.Now()
	loseBroken(m)
	if m.leaves || m.fleet.config.Elastic {
		m.fleet.scaler.rescale()
	}
}
