package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/record"
)

// These are the kinds of a ledger's lines.
const (
	isPool     = "pool"     // the first line: Header
	isRow      = "row"      // a row with all its fields, so that the next line of a row replaces a lost one
	isTaken    = "taken"    // another program has taken the pool: Generation, Owner
	isRenewed  = "renewed"  // the pool's owner lives
	isReleased = "released" // its owner has released it
	isClosing  = "closing"  // its owner is ending it
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

// A book is the state that a ledger's lines describe.
type book struct {
	Header
	generation int
	owner      string
	owners     []string // all that the pool has had
	rows       []Row
	index      map[string]int // by name
	closing    bool
	released   bool
	newer      bool
	last       time.Time // of the latest line
	torn       bool
	damage     []error
}

// read takes what package record yields. It returns only errors of reading: those in the file's
// content become damage.
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
		return nil // this program cannot judge its lines
	}
	var e entry
	if err := json.Unmarshal(r.Head, &e); err != nil {
		if newer := newerHeader(r.Head); newer != nil && b.generation == 0 {
			b.Header, b.owner, b.newer = *newer, newer.Owner, true
			return nil
		}
		b.damage = append(b.damage, fmt.Errorf("a line of the ledger cannot be read: %w", err))
		return nil
	}
	if err := b.apply(e); err != nil {
		b.damage = append(b.damage, fmt.Errorf("a line of the ledger is wrong: %w", err))
	}
	return nil
}

// newerHeader reads the fields of a newer header whose form has not changed.
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
		_ = json.Unmarshal(e.Pool[field], to) // a field whose type has changed stays empty
	}
	return &h
}

// apply applies the next line. A line that contradicts those before it is an error and changes
// nothing, unless a thing that may cost money would be lost then.
func (b *book) apply(e entry) error {
	if b.generation == 0 && e.Is != isPool && !b.newer {
		// The header is lost, but the rows are still useful.
		b.begin(Header{})
		b.damage = append(b.damage, errors.New("the first line of the ledger does not describe its pool"))
	}
	if e.At.After(b.last) {
		b.last = e.At
	}
	switch e.Is {
	case isPool:
		switch {
		case b.generation > 0:
			return errors.New("it describes the pool a second time")
		case e.Pool == nil || e.Pool.Schema < 1:
			b.begin(Header{})
			return errors.New("it does not describe the pool")
		}
		b.begin(*e.Pool)
		b.newer = e.Pool.Schema > Schema
	case isRow:
		if e.Row == nil {
			return errors.New("it has no row")
		}
		return b.set(*e.Row)
	case isTaken:
		if e.Generation <= b.generation {
			return fmt.Errorf("generation %d follows generation %d", e.Generation, b.generation)
		}
		skipped := e.Generation - b.generation - 1
		b.generation, b.owner, b.owners, b.released = e.Generation, e.Owner, append(b.owners, e.Owner), false
		if skipped > 0 {
			return fmt.Errorf("generation %d follows generation %d", e.Generation, e.Generation-skipped-1)
		}
	case isRenewed:
	case isReleased:
		if e.Generation == b.generation {
			b.released = true
		}
	case isClosing:
		b.closing = true
	default:
		return fmt.Errorf("this program does not know its kind %q", e.Is)
	}
	return nil
}

func (b *book) begin(h Header) {
	b.Header, b.owner, b.owners, b.generation = h, h.Owner, []string{h.Owner}, 1
	b.index = map[string]int{}
}

// set sets a row to what a line says.
func (b *book) set(r Row) error {
	if r.Name == "" || r.Kind == "" || r.Rank < 0 {
		return fmt.Errorf("a row has no name, no kind, or the rank %d", r.Rank)
	}
	i, known := b.index[r.Name]
	if !known {
		b.index[r.Name] = len(b.rows)
		b.rows = append(b.rows, r)
		if r.State > Created {
			return fmt.Errorf("%s is %v, but was never created", r.Name, r.State)
		}
		return nil
	}
	old := b.rows[i]
	if old.Kind != r.Kind || old.Rank != r.Rank {
		return fmt.Errorf("%s is %s of rank %d, but was %s of rank %d", r.Name, r.Kind, r.Rank, old.Kind, old.Rank)
	}
	if err := follows(old.State, r.State); err != nil {
		return fmt.Errorf("%s %w", r.Name, err)
	}
	b.rows[i] = r
	return nil
}

// follows returns an error if a row cannot go from one state to another. A row may stay in its
// state, to add fields.
func follows(from, to State) error {
	switch {
	case to == from, from == Gone && to <= Created: // requested again, or found after all
		return nil
	case to < from, to == Leased && from != Created:
		return fmt.Errorf("is %v, but was %v before", to, from)
	}
	return nil
}

// take applies entries to the book, and returns their records.
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
	c.rows, c.index, c.damage, c.owners = slices.Clone(b.rows), maps.Clone(b.index), slices.Clone(b.damage), slices.Clone(b.owners)
	return &c
}

// row returns the row with a name.
func (b *book) row(name string) (Row, bool) {
	i, ok := b.index[name]
	if !ok {
		return Row{}, false
	}
	return b.rows[i], true
}

// A Snapshot is the state of a ledger at one moment.
type Snapshot struct {
	Header
	// Generation is the number of programs that have had the pool, from 1. Holder is the last of
	// them, as package owner writes it, and Holders are all that the ledger names.
	Generation int
	Holder     string
	Holders    []string
	// Rows are in the order in which they were intended.
	Rows []Row
	// Closing means that the pool's program is ending it.
	Closing bool
	// InUse means that the last owner lives, or may live.
	InUse bool
	// Last is the time of the latest line.
	Last time.Time
	// Torn means that the last line is incomplete. No program has been told that it was written.
	Torn bool
	// Damage lists what cannot be read or is contradictory. Rows has the rest.
	Damage []error
	// Newer means that a newer program has written the ledger. Only the Header is read then.
	Newer bool
}

func (b *book) snapshot() Snapshot {
	return Snapshot{
		Header: b.Header, Generation: b.generation, Holder: b.owner, Holders: slices.Clone(b.owners), Rows: slices.Clone(b.rows),
		Closing: b.closing, Last: b.last, Torn: b.torn, Damage: slices.Clone(b.damage), Newer: b.newer,
	}
}
