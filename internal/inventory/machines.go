package inventory

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

// machines are the machines of a pool: everything that was launched, or may have been.
type machines struct {
	mu       sync.Mutex           // guards all of them, and each machine
	byID     map[string]*machine  // everything that was launched
	strays   map[string]*machine  // by ID: machines that an audit found beside those
	bought   []*machine           // all of these, in order
	inFlight map[string]time.Time // names of machines that a launch is to make, and since when
	named    map[int]int          // how many names the machines of a rank were given
}

func newMachines() machines {
	return machines{byID: map[string]*machine{}, strays: map[string]*machine{}, inFlight: map[string]time.Time{}, named: map[int]int{}}
}

// name returns "<pool>-<rank>", with a suffix from the second machine of that rank on.
func (s *machines) name(pool string, rank int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprintf("%s-%d", pool, rank)
	if again := s.named[rank]; again > 0 {
		name += fmt.Sprintf("-r%d", again)
	}
	s.named[rank]++
	return name
}

// recall adds a machine by a row of an earlier program.
func (s *machines) recall(a Account, row ledger.Row) {
	if row.Kind != machineKind {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named[row.Rank]++
	switch {
	case row.ID != "":
		m := a.machineOf(row)
		m.unwanted = row.State == ledger.Ending
		s.byID[row.ID] = m
		s.bought = append(s.bought, m)
	case row.State != ledger.Gone:
		s.inFlight[row.Name] = row.Intended
	}
}

// intend notes the names of machines that a launch is about to make.
func (s *machines) intend(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.inFlight[name] = time.Now()
	}
}

// recorded returns the IDs of the machines that the pool has made, and since when it waits for others, by name.
func (s *machines) recorded() (ids map[string]bool, asked map[string]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids = map[string]bool{}
	for id := range s.byID {
		ids[id] = true
	}
	return ids, maps.Clone(s.inFlight)
}

// intents returns the names of machines of which it is not known whether they were made.
func (s *machines) intents() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.inFlight))
}

// forget drops the intents of machines that do not exist.
func (s *machines) forget(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		delete(s.inFlight, name)
	}
}

// adopt adds machines that exist, and returns those that are new.
func (s *machines) adopt(got []driver.Instance) (added []driver.Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, inst := range got {
		if s.byID[inst.ID] == nil {
			m := &machine{inst: inst, launched: time.Now()}
			if asked, ok := s.inFlight[inst.Name]; ok {
				m.launched = asked // it may have been there since
			}
			s.byID[inst.ID] = m
			s.bought = append(s.bought, m)
			added = append(added, inst)
		}
		delete(s.inFlight, inst.Name)
	}
	return added
}

// known returns the machines that are not confirmed gone, as resources.
func (s *machines) known() map[string]driver.Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := map[string]driver.Resource{}
	for id, m := range s.byID {
		if m.gone.IsZero() {
			left[id] = m.resource()
		}
	}
	return left
}

// offers returns the offers of the machines whose nodes are not over.
func (s *machines) offers() (all []driver.Offer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.bought {
		if m.gone.IsZero() && !m.unwanted {
			all = append(all, m.inst.Offer)
		}
	}
	return all
}

// instance returns a machine as it was when it was launched.
func (s *machines) instance(id string) driver.Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id].inst
}

// names returns the names of those of the machines that are known, and calls each for them
// if it is not nil.
func (s *machines) names(ids []string, each func(*machine)) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if m := s.byID[id]; m != nil && m.inst.Name != "" {
			names = append(names, m.inst.Name)
			if each != nil {
				each(m)
			}
		}
	}
	return names
}

// update calls change for a machine, and reports whether it is known.
func (s *machines) update(id string, change func(*machine)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.byID[id]
	if m != nil {
		change(m)
	}
	return m != nil
}

// unwant records that no node has a machine.
func (s *machines) unwant(id string) { s.update(id, func(m *machine) { m.unwanted = true }) }

// isLate reports whether a machine whose end was asked for at a time ought to be gone. A late one counts as billed.
func (s *machines) isLate(id string, asked time.Time) (late bool) {
	s.update(id, func(m *machine) {
		if late = m.isLate(asked); late {
			m.accepted, m.unbilled = time.Time{}, time.Time{}
		}
	})
	return late
}

// observe records the provider's descriptions of machines. It removes those that are gone from left, returns their IDs,
// and reports whether one is no longer billed.
func (s *machines) observe(found []driver.Instance, left map[string]driver.Resource) (gone []string, cheaper bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, inst := range found {
		if m := s.byID[inst.ID]; m != nil && m.observe(inst.State) {
			cheaper = true
		}
		if _, asked := left[inst.ID]; asked && inst.State == driver.InstanceTerminated {
			delete(left, inst.ID)
			gone = append(gone, inst.ID)
		}
	}
	return gone, cheaper
}

// surplus takes from the machines that a provider lists those that the pool wants, or that are
// coming or ended by Discard, adds unwanted ones that are not known to be gone, and returns
// the rest: what is to be ended.
func (s *machines) surplus(listed map[string]driver.Resource) map[string]driver.Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range listed {
		m := s.byID[id]
		if _, comes := s.inFlight[r.Name]; m == nil && comes || m != nil && !m.unwanted {
			delete(listed, id)
			continue
		}
		switch {
		case r.State == driver.InstanceTerminated:
		case m == nil:
			s.addStray(r)
		case !m.gone.IsZero():
			m.gone, m.unbilled = time.Time{}, time.Time{} // that report was wrong
		}
	}
	for id, m := range s.byID {
		switch {
		case m.awaited:
			delete(listed, id)
		case m.unwanted && m.gone.IsZero():
			listed[id] = m.resource()
		}
	}
	return listed
}

// addStray counts a machine that the pool did not know: it costs as much as the others. It is not among them, since the
// ledger may know its name as another's. mu is held.
func (s *machines) addStray(r driver.Resource) {
	if s.strays[r.ID] != nil {
		return
	}
	m := &machine{launched: r.Created, unwanted: true, inst: driver.Instance{
		ID: r.ID, Name: r.Name, Rank: -1, Offer: driver.Offer{Provider: r.Provider, Region: r.Region, HourlyUSD: r.HourlyUSD},
	}}
	if m.launched.IsZero() {
		m.launched = time.Now()
	}
	for _, other := range s.bought {
		if other.inst.Name == r.Name { // it was launched with this one
			m.inst.Offer, m.inst.Rank = other.inst.Offer, other.inst.Rank
		}
	}
	s.strays[r.ID] = m
	s.bought = append(s.bought, m)
}

// endStrays notes which of the strays that were asked to end are gone.
func (s *machines) endStrays(asked []string, left map[string]driver.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range asked {
		if _, remains := left[id]; !remains && s.strays[id] != nil && s.strays[id].gone.IsZero() {
			s.strays[id].gone = time.Now()
		}
	}
}

// each calls f for every machine in the order in which they were launched, strays included.
func (s *machines) each(f func(*machine)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.bought {
		f(m)
	}
}

// usd returns what the machines with known prices cost if they end at a time.
func (s *machines) usd(end time.Time) (sum float64) {
	s.each(func(m *machine) {
		if usd, known := m.usd(end); known {
			sum += usd
		}
	})
	return sum
}
