package ledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/record"
)

// What a line of a ledger tells of.
const (
	isPool     = "pool"     // the first: Header
	isRow      = "row"      // a row as it now is, whole: so that what one line lost is told by the next
	isTaken    = "taken"    // by another program: Generation, Owner
	isRenewed  = "renewed"  // its owner lives
	isReleased = "released" // its owner has let it go
	isClosing  = "closing"  // the pool is ended
)

// An entry is one line of a ledger.
type entry struct {
	Is         string    `json:"is"`
	At         time.Time `json:"at"`
	Pool       *Header   `json:"pool,omitempty"`
	Row        *Row      `json:"row,omitempty"`
	Generation int       `json:"generation,omitempty"`
	Owner      string    `json:"owner,omitempty"`
}

func (e entry) record() (record.Record, error) {
	head, err := json.Marshal(e)
	return record.Record{Head: head}, err
}

// A book is what a ledger's lines come to.
type book struct {
	Header
	generation int
	owner      string
	rows       []Row
	index      map[string]int // by name
	closing    bool
	released   bool
	newer      bool
	last       time.Time // of the latest line
	torn       bool
	damage     []error
}

// read takes what package record yields, and reports any error but of what the file holds.
func (b *book) read(r record.Record, err error) error {
	switch err.(type) {
	case nil:
	case *record.TornError:
		b.torn = true
		return nil
	case *record.DamageError:
		b.damage = append(b.damage, err)
		return nil
	default:
		return err
	}
	if b.newer {
		return nil // its lines are not for this program to judge
	}
	var e entry
	if err := json.Unmarshal(r.Head, &e); err != nil {
		if newer := newerHeader(r.Head); newer != nil && b.generation == 0 {
			b.Header, b.owner, b.newer = *newer, newer.Owner, true
			return nil
		}
		b.damage = append(b.damage, fmt.Errorf("a line is not of a ledger: %w", err))
		return nil
	}
	if err := b.apply(e); err != nil {
		b.damage = append(b.damage, fmt.Errorf("the ledger says %w", err))
	}
	return nil
}

// newerHeader reads what it can of a header that has another form by now.
func newerHeader(line []byte) *Header {
	var e struct {
		Pool map[string]json.RawMessage `json:"pool"`
	}
	var h Header
	if json.Unmarshal(line, &e) != nil || json.Unmarshal(e.Pool["schema"], &h.Schema) != nil || h.Schema <= Schema {
		return nil
	}
	for field, to := range map[string]any{
		"pool": &h.Pool, "name": &h.Name, "provider": &h.Provider, "account": &h.Account, "owner": &h.Owner,
		"created": &h.Created, "expires": &h.Expires, "leaseNanoseconds": &h.Lease, "authorizedKey": &h.AuthorizedKey, "members": &h.Members,
	} {
		_ = json.Unmarshal(e.Pool[field], to) // what is another thing by now stays empty
	}
	return &h
}

// apply takes the next line. What cannot follow what was before is an error,
// and changes nothing, unless a thing that may cost money would be lost by that.
func (b *book) apply(e entry) error {
	if b.generation == 0 && e.Is != isPool && !b.newer {
		// The header is lost. What rows tell is still worth having.
		b.begin(Header{})
		b.damage = append(b.damage, fmt.Errorf("the ledger does not begin with its pool"))
	}
	if e.At.After(b.last) {
		b.last = e.At
	}
	switch e.Is {
	case isPool:
		switch {
		case b.generation > 0:
			return fmt.Errorf("twice what the pool is")
		case e.Pool == nil || e.Pool.Schema < 1:
			b.begin(Header{})
			return fmt.Errorf("nothing of what the pool is")
		}
		b.begin(*e.Pool)
		b.newer = e.Pool.Schema > Schema
	case isRow:
		if e.Row == nil {
			return fmt.Errorf("nothing of a row")
		}
		return b.set(*e.Row)
	case isTaken:
		if e.Generation <= b.generation {
			return fmt.Errorf("that generation %d came after %d", e.Generation, b.generation)
		}
		skipped := e.Generation - b.generation - 1
		b.generation, b.owner, b.released = e.Generation, e.Owner, false
		if skipped > 0 {
			return fmt.Errorf("that generation %d came, and not the %d before it", e.Generation, skipped)
		}
	case isRenewed:
	case isReleased:
		if e.Generation == b.generation {
			b.released = true
		}
	case isClosing:
		b.closing = true
	default:
		return fmt.Errorf("%q, which is nothing that this program knows", e.Is)
	}
	return nil
}

func (b *book) begin(h Header) {
	b.Header, b.owner, b.generation = h, h.Owner, 1
	b.index = map[string]int{}
}

// set takes a row as a line has it.
func (b *book) set(r Row) error {
	if r.Name == "" || r.Kind == "" || r.Rank < 0 {
		return fmt.Errorf("of a row no name, no kind or rank %d", r.Rank)
	}
	i, known := b.index[r.Name]
	if !known {
		b.index[r.Name] = len(b.rows)
		b.rows = append(b.rows, r)
		if r.State > Created {
			return fmt.Errorf("that %s is %v, and nothing of it before", r.Name, r.State)
		}
		return nil
	}
	old := b.rows[i]
	if old.Kind != r.Kind || old.Rank != r.Rank {
		return fmt.Errorf("that %s is %s of rank %d, after %s of rank %d", r.Name, r.Kind, r.Rank, old.Kind, old.Rank)
	}
	if err := follows(old.State, r.State); err != nil {
		return fmt.Errorf("of %s %w", r.Name, err)
	}
	b.rows[i] = r
	return nil
}

// follows says whether a row can go from one state to another. Staying in one
// is telling more of the row.
func follows(from, to State) error {
	switch {
	case to == from, from == Gone && to <= Created: // asked for anew, or found after all
		return nil
	case to < from, to == Leased && from != Created:
		return fmt.Errorf("that it is %v after it was %v", to, from)
	}
	return nil
}

// take has the book apply entries, and returns the records of them.
func (b *book) take(entries []entry) ([]record.Record, error) {
	recs := make([]record.Record, len(entries))
	for i, e := range entries {
		if err := b.apply(e); err != nil {
			return nil, err
		}
		var err error
		if recs[i], err = e.record(); err != nil {
			return nil, err
		}
		if n := len(recs[i].Head); n > record.MaxHead {
			return nil, fmt.Errorf("a line of %d bytes is too long for a ledger", n)
		}
	}
	return recs, nil
}

func (b *book) clone() *book {
	c := *b
	c.rows, c.index, c.damage = slices.Clone(b.rows), maps.Clone(b.index), slices.Clone(b.damage)
	return &c
}

// row returns the row of a name.
func (b *book) row(name string) (Row, bool) {
	i, ok := b.index[name]
	if !ok {
		return Row{}, false
	}
	return b.rows[i], true
}

// A Snapshot is what a ledger says at a moment.
type Snapshot struct {
	Header
	// Generation counts the programs that have had the pool, from 1, and Holder
	// is the last of them, as package owner writes it.
	Generation int
	Holder     string
	// Rows are in the order in which they were intended.
	Rows []Row
	// Closing says that the pool is being ended, by whoever has it.
	Closing bool
	// InUse says that the last owner lives, as far as can be told.
	InUse bool
	// Last is when the latest line was written.
	Last time.Time
	// Torn says that the last line is not whole: nobody was told that it is there.
	Torn bool
	// Damage is what cannot be read or cannot be true. The rest is in Rows.
	Damage []error
	// Newer says that a newer program has written the ledger: only the Header is read.
	Newer bool
}

func (b *book) snapshot() Snapshot {
	return Snapshot{
		Header: b.Header, Generation: b.generation, Holder: b.owner, Rows: slices.Clone(b.rows),
		Closing: b.closing, Last: b.last, Torn: b.torn, Damage: slices.Clone(b.damage), Newer: b.newer,
	}
}
