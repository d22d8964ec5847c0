package gputrain

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/ledger"
)

// sharedRow is the ledger's row for Prepare as a whole: until it is gone, something
// may exist that no other row tells of.
const sharedRow = "shared"

// Record puts something that a driver makes beside machines into the pool's ledger: a
// key, a network, a rule, a volume. It is called before the call that makes it, with
// what is known by then, a Kind and a Name at least, and again with its ID once that
// is known. After an error nothing may be made. Where the pool has no ledger it does
// nothing.
//
// What was recorded comes back as PoolInfo.Made, also after the program's death, so
// that Release removes what the pool has made and nothing that was there before.
func (p PoolInfo) Record(r Resource) error {
	if p.record == nil {
		return nil
	}
	return p.record(r)
}

// WithRecord returns a pool whose Record calls record, for tests of drivers: a pool
// of [Open] has its ledger there.
func (p PoolInfo) WithRecord(record func(Resource) error) PoolInfo {
	p.record = record
	return p
}

// infoNow is what drivers are told of the pool.
func (p *pool) infoNow() PoolInfo {
	info := p.info
	info.record = p.recordShared
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.shared)) {
		info.Made = append(info.Made, p.shared[name])
	}
	return info
}

// sharedName is the name of the ledger's row for a resource that is no machine.
func sharedName(r Resource) string { return r.Kind + " " + cmp.Or(r.Name, r.ID) }

func (p *pool) recordShared(r Resource) error {
	member := p.keyOf(cmp.Or(r.Name, r.ID))
	r.Provider, r.Pool = p.providerOf(member), p.id
	row := ledger.Row{Name: sharedName(r), Kind: r.Kind, ID: r.ID, Region: r.Region, Member: member}
	if usd, known := r.HourlyUSD.USD(); known {
		row.HourlyUSD = &usd
	}
	note := p.ledger.Intend
	if r.ID != "" {
		note = p.ledger.Created
	}
	if err := note(row); err != nil {
		p.lostLedger(err)
		return ledgerError("note "+row.Name+"; it is not to be made", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared == nil {
		p.shared = map[string]Resource{}
	}
	p.shared[row.Name] = r
	return nil
}

// remembered takes what an earlier program has recorded.
func (p *pool) remembered(row ledger.Row) {
	if row.Kind == "machine" || row.Kind == sharedRow || row.State == ledger.Gone {
		return
	}
	r := Resource{
		Provider: p.providerOf(row.Member), Pool: p.id, Kind: row.Kind, ID: row.ID, Name: strings.TrimPrefix(row.Name, row.Kind+" "),
		Region: row.Region, Created: row.Created,
	}
	if row.HourlyUSD != nil {
		r.HourlyUSD = USD(*row.HourlyUSD)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared == nil {
		p.shared = map[string]Resource{}
	}
	p.shared[row.Name] = r
}

// noteReleased puts down that nothing is left of what the nodes shared.
func (p *pool) noteReleased() {
	p.mu.Lock()
	names := append(slices.Sorted(maps.Keys(p.shared)), sharedRow) // those that were never there count for nothing
	for _, m := range accounts(p.members) {
		names = append(names, m.sharedRow())
	}
	p.shared = nil
	p.mu.Unlock()
	p.noted(p.ledger.Gone("", names...))
}

// unreleased adds to what the provider lists of a pool what was recorded, and may be
// left too since Release has failed.
func (p *pool) unreleased(listed []Resource) []Resource {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.shared)) {
		made := p.shared[name]
		if !slices.ContainsFunc(listed, func(r Resource) bool {
			return r.Kind == made.Kind && (r.Name == made.Name || made.ID != "" && r.ID == made.ID)
		}) {
			listed = append(listed, made)
		}
	}
	return listed
}
