package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

// shared are the resources other than machines that drivers have recorded for a pool.
type shared struct {
	account Account
	pool    string
	book    *book

	mu    sync.Mutex
	byRow map[string]driver.Resource // by the names of the ledger's rows; guarded by mu
	since map[string]time.Time       // when each was recorded first; guarded by mu
	spent float64                    // by those that are gone; guarded by mu
}

// sharedRow is the ledger's row for all that machines share, of whatever kind.
var sharedRow = ledger.Row{Name: market.SharedKind, Kind: market.SharedKind}

// record puts a resource into the ledger. It implements [driver.PoolInfo.Record].
func (s *shared) record(r driver.Resource) error {
	r.Provider, r.Pool = s.account.providerOf(r.Account), s.pool
	row := ledger.Row{Name: r.Kind + " " + cmp.Or(r.Name, r.ID), Kind: r.Kind, ID: r.ID, Region: r.Region, Member: r.Account}
	if usd, known := r.HourlyUSD.USD(); known {
		row.HourlyUSD = &usd
	}
	note := s.book.ledger.Intend
	if r.ID != "" {
		note = s.book.ledger.Created
	}
	if err := s.book.must("note "+row.Name+"; it is not to be made", note(row)); err != nil {
		return err
	}
	s.put(row.Name, r)
	return nil
}

// recall loads a row of an earlier program.
func (s *shared) recall(row ledger.Row) {
	switch {
	case row.Kind == machineKind || row.Name == market.SharedKind:
		return
	case row.State == ledger.Gone:
		if row.HourlyUSD != nil && !row.Created.IsZero() && row.Note == "" { // with a note the pool does not pay for it
			s.mu.Lock()
			defer s.mu.Unlock()
			s.spent += *row.HourlyUSD * max(row.Gone.Sub(cmp.Or(row.Intended, row.Created)), 0).Hours()
		}
		return
	}
	r := driver.Resource{
		Provider: s.account.providerOf(row.Member), Account: row.Member, Pool: s.pool, Kind: row.Kind, ID: row.ID, Name: strings.TrimPrefix(row.Name, row.Kind+" "),
		Region: row.Region, Created: cmp.Or(row.Intended, row.Created),
	}
	if row.HourlyUSD != nil {
		r.HourlyUSD = driver.USD(*row.HourlyUSD)
	}
	s.put(row.Name, r)
}

func (s *shared) put(row string, r driver.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byRow == nil {
		s.byRow, s.since = map[string]driver.Resource{}, map[string]time.Time{}
	}
	s.byRow[row] = r
	if s.since[row].IsZero() {
		s.since[row] = cmp.Or(r.Created, time.Now())
	}
}

// cost returns what the resources cost, as far as their prices are known, if they end at a time, and what they cost per hour now.
func (s *shared) cost(end time.Time) (usd, hourly float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	usd = s.spent
	for name, r := range s.byRow {
		perHour, _ := r.HourlyUSD.USD()
		hourly += perHour
		usd += perHour * max(end.Sub(s.since[name]), 0).Hours()
	}
	return usd, hourly
}

// made returns the recorded resources that are not known to be gone.
func (s *shared) made() (all []driver.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.byRow)) {
		all = append(all, s.byRow[name])
	}
	return all
}

// released records that nothing is left of what machines shared.
func (s *shared) released() {
	spent, _ := s.cost(time.Now())
	s.mu.Lock()
	s.spent = spent
	names := append(slices.Sorted(maps.Keys(s.byRow)), market.SharedKind) // those that were never there count for nothing
	s.byRow, s.since = nil, nil
	s.mu.Unlock()
	s.book.note(s.book.ledger.Gone("", names...))
}

// addMade adds to the provider's list of a pool the recorded resources, which may be left too since Release has failed.
func (s *shared) addMade(listed []driver.Resource) []driver.Resource {
	for _, made := range s.made() {
		if !slices.ContainsFunc(listed, func(r driver.Resource) bool {
			return r.Kind == made.Kind && (r.Name == made.Name || made.ID != "" && r.ID == made.ID)
		}) {
			listed = append(listed, made)
		}
	}
	return listed
}
