package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/scheduler"
)

// An elastic fleet waits for growPause after no machine could be rented.
const growPause = 30 * time.Second

// A scaler decides how many members a fleet has. Its numbers are guarded by the fleet's lock.
type scaler struct {
	fleet    *Fleet
	rescaled chan struct{} // signals that the number of members that are wanted may be another

	least   int       // members that the fleet has at least,
	most    int       // and at most
	woken   int       // members that a Wake waits for
	stalled time.Time // when a machine of an elastic fleet could last not be had
}

// run owns the number of members until the context ends.
func (s *scaler) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-s.fleet.config.Context.Done():
			return
		case <-s.rescaled:
		case <-timer.C:
		}
		s.fleet.config.Lock.Lock()
		next := s.adjust()
		s.fleet.config.Lock.Unlock()
		timer.Reset(next)
	}
}

// rescale has the number of members that are wanted found anew. It does not wait for that.
func (s *scaler) rescale() {
	select {
	case s.rescaled <- struct{}{}:
	default:
	}
}

// adjust begins what brings the fleet to the number of members that it should have, and returns
// when to look again. The lock is held.
func (s *scaler) adjust() (next time.Duration) {
	next = time.Hour
	if s.fleet.closing {
		return next
	}
	s.trim()
	want := min(max(s.demand(), s.least), s.most)
	if pause := s.pause(); pause > 0 {
		next = pause
	} else if len(s.fleet.roster.members) < want {
		s.stalled, s.fleet.roster.lastErr = time.Time{}, nil
		members := s.fleet.growTo(want)
		s.fleet.config.Node.Go(func() { s.fleet.renter.rentMore(members) })
	}
	return min(next, s.shrink(want))
}

// pause returns how long the fleet does not grow, after a machine could not be had. The lock is
// held.
func (s *scaler) pause() time.Duration {
	if s.stalled.IsZero() {
		return 0
	}
	return max(growPause-time.Since(s.stalled), 0)
}

// demand is how many members what waits and what runs would keep busy. The lock is held.
func (s *scaler) demand() int {
	if !s.fleet.config.Elastic {
		return 0
	}
	d := s.fleet.Tasks.Demand()
	return max(membersFor(d, s.fleet.config.Slots, s.fleet.config.Units.Expected)+d.Held, d.Ranks, s.woken)
}

// membersFor returns how many members have room for the tasks of a demand, if each has so many slots, and units as the
// largest that was seen, or else as is expected. The largest tasks are placed first, each where it leaves the least room.
func membersFor(d scheduler.Demand, slots, units int) (members int) {
	if d.MostUnits > 0 {
		units = d.MostUnits
	}
	for size := range d.Units {
		units = max(units, size)
	}
	free := make([]int, units+1) // members by how many units are left there
	for size := units; size > 0; size-- {
		tasks := d.Units[size]
		for left := size; left <= units && tasks > 0; left++ {
			tasks = place(free, left, size, tasks)
		}
		if tasks > 0 {
			more := (tasks + units/size - 1) / (units / size)
			members += more
			free[units] += more
			place(free, units, size, tasks)
		}
	}
	tasks := d.Tasks
	for left, members := range free {
		if units > 0 {
			tasks -= members * (left * slots / units)
		}
	}
	return members + (max(tasks, 0)+slots-1)/slots
}

// place places tasks of a size on the members that have so many units left, and returns how many tasks are left.
func place(free []int, left, size, tasks int) int {
	each := left / size
	full := min(free[left], tasks/each)
	free[left] -= full
	free[left-each*size] += full
	tasks -= full * each
	if tasks > 0 && free[left] > 0 {
		free[left]--
		free[left-tasks*size]++
		return 0
	}
	return tasks
}

// trim drops members of an elastic fleet, or beyond its size, that are over for good: their
// ranks are free again. The lock is held.
func (s *scaler) trim() {
	for _, m := range slices.Backward(slices.Clone(s.fleet.roster.members)) {
		if m.state.Over() && (s.fleet.config.Elastic || m.Rank() >= s.least) && m.Slots.Pinned() == 0 {
			s.fleet.remove(m)
		}
	}
}

// shrink ends members that are too many: those beyond the most at once, or once they have
// finished what they run, and idle ones when their time is over. It returns when the next of
// these is due. The lock is held.
func (s *scaler) shrink(want int) (next time.Duration) {
	next = time.Hour
	alive := slices.DeleteFunc(slices.Clone(s.fleet.roster.members), func(m *Member) bool { return m.leaves || m.state.Over() })
	surplus := len(alive) - max(want, s.least)
	tooMany := len(alive) - s.most
	slices.SortStableFunc(alive, firstToLeave)
	for _, m := range alive {
		if tooMany <= 0 {
			if surplus <= 0 || !s.fleet.config.Elastic || m.state != Ready || m.hasTasks() || m.visits > 0 {
				continue
			}
			if left := s.fleet.config.IdleTimeout - time.Since(m.idleSince); left > 0 {
				next = min(next, left)
				continue
			}
		}
		tooMany--
		surplus--
		m.leaves = true
		s.fleet.Tasks.Update(m.Slots)
	}
	for _, m := range s.fleet.roster.members {
		if m.leaves && !m.retiring && !m.hasTasks() {
			m.retiring = true
			s.fleet.config.Node.Go(m.retire)
		}
	}
	return next
}

// grows reports whether members that are not there yet may run what waits. The lock is held.
func (s *scaler) grows() bool {
	if s.fleet.closing || s.pause() > 0 {
		return false
	}
	room := s.most - len(s.fleet.roster.members)
	if s.fleet.config.Elastic {
		room += s.fleet.roster.count(func(m *Member) bool { return m.state.Over() }) // they are about to be dropped
	}
	return room > 0
}

// hasTasks reports whether tasks run on the member or wait for it alone. The lock is held.
func (m *Member) hasTasks() bool { return m.Slots.Busy() > 0 || m.Slots.Pinned() > 0 }

// firstToLeave orders members by how little is lost with them: those with the fewest tasks, then those with the fewest visits,
// which those that cannot be reached do not have, then those that are not ready yet, then those that cannot be reached, then
// those of the highest ranks. The lock is held.
func firstToLeave(a, b *Member) int {
	return cmp.Or(a.Slots.Busy()-b.Slots.Busy(), a.visited()-b.visited(), comingFirst(a.state, b.state), unreachableFirst(a.state, b.state), b.Rank()-a.Rank())
}

// visited returns how many visits the member has, without those that only wait for its connection.
func (m *Member) visited() int {
	if m.state == Unreachable {
		return 0
	}
	return m.visits
}

func unreachableFirst(a, b State) int {
	switch {
	case a == Unreachable && b != Unreachable:
		return -1
	case b == Unreachable && a != Unreachable:
		return 1
	}
	return 0
}

func comingFirst(a, b State) int {
	switch {
	case a < Ready && b >= Ready:
		return -1
	case b < Ready && a >= Ready:
		return 1
	}
	return 0
}
