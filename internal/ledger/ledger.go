package ledger

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/gputrain/gputrain/internal/private"
	"github.com/gputrain/gputrain/internal/record"
)

// A Ledger is the ledger of a pool that this program has. Its methods may be called concurrently.
// What they write is on disk when they return, and if they return an error, nothing is written. A
// nil Ledger writes nothing, and is never fenced: it stands for the ledger of a pool from another
// computer.
type Ledger struct {
	dir        *Dir
	id         string
	generation int
	life       *flock.Flock // of this program's generation

	mu      sync.Mutex // guards waiting
	waiting *batch     // collects changes while another batch is written

	book   atomic.Pointer[book] // the state on disk; a book is replaced, never changed
	closed atomic.Bool

	writing sync.Mutex // guards the fields below, and changes of book and closed
	lock    *changeLock
	file    *record.File
	fenced  bool
}

// A change makes entries from the current book.
type change struct {
	makes func(*book) []entry
	err   error // of this change, not of its batch
}

// A batch is a group of changes that are written together.
type batch struct {
	changes []*change
	done    chan struct{}
	err     error
}

// change writes a change. Changes that arrive while a batch is written form the next batch.
func (l *Ledger) change(makes func(*book) []entry) error {
	if l == nil {
		return nil
	}
	c := &change{makes: makes}
	l.mu.Lock()
	b, leads := l.waiting, false
	if b == nil {
		b, leads = &batch{done: make(chan struct{})}, true
		l.waiting = b
	}
	b.changes = append(b.changes, c)
	l.mu.Unlock()
	if leads {
		l.lead(b)
	} else {
		<-b.done
	}
	return wrapError("write", l.id, cmp.Or(c.err, b.err))
}

// lead writes a batch when its turn comes.
func (l *Ledger) lead(b *batch) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	l.waiting = nil // later changes go into the next batch
	l.mu.Unlock()
	defer close(b.done)
	if l.closed.Load() {
		b.err = fs.ErrClosed
		return
	}
	b.err = l.owning(func() error { return l.append(b.changes...) })
}

// owning calls f while this program has the pool and no other program can change its files.
func (l *Ledger) owning(f func() error) error {
	if l.fenced {
		return ErrFenced
	}
	if err := l.lock.Lock(lockPatience); err != nil {
		return err
	}
	defer l.lock.Unlock()
	if err := l.check(); err != nil {
		return err
	}
	return f()
}

// append applies the changes to the book and appends their entries to the file. A change that
// cannot be applied gets an error, and is left out.
func (l *Ledger) append(changes ...*change) error {
	next := l.book.Load().clone()
	var recs []record.Record
	for _, c := range changes {
		if c.err != nil {
			continue
		}
		var made []record.Record
		if made, c.err = next.take(c.makes(next)); c.err != nil {
			return l.append(changes...) // again, on a book without the failed change
		}
		recs = append(recs, made...)
	}
	if len(recs) == 0 {
		return nil
	}
	if err := l.file.Append(true, recs...); err != nil {
		return err
	}
	l.book.Store(next)
	return nil
}

// begin writes the first line of a program that has taken the pool. b has the state of the file.
func (l *Ledger) begin(b *book, taken entry) error {
	rec, err := taken.record()
	if err != nil {
		return err
	}
	if err := l.file.Append(true, rec); err != nil {
		return err
	}
	b.torn = false // the torn line was cut off
	l.book.Store(b)
	return b.read(rec, nil) // this may add missing generations to the damage
}

// check checks that the file is as this program left it. It differs if another program has taken or
// ended the pool, or if the file was changed by hand.
func (l *Ledger) check() error {
	path := l.dir.file(l.id, ".ledger")
	have, err := l.file.Stat()
	if err != nil {
		return err
	}
	is, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there := err == nil && os.SameFile(is, have)
	same := there && have.Size() == l.file.Size()
	next := l.dir.generationLock(l.id, l.generation+1)
	if _, err := os.Stat(next); same && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// Another program takes its lock before it writes, and writes before it removes.
	generations, err := l.dir.generations(l.id)
	if err != nil {
		return err
	}
	latest := max(l.dir.heldOf(l.id, generations), l.book.Load().generation)
	if !there { // before it was replaced or removed
		b := l.book.Load().clone()
		if err := l.file.Missed(b.read); err == nil {
			latest = max(latest, b.generation)
		}
	}
	b, half := &book{}, false
	for r, err := range record.Read(path) {
		if torn, ok := errors.AsType[*record.TornError](err); ok {
			half = torn.Offset == l.file.Size()
		}
		if err := b.read(r, err); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	switch {
	case max(latest, b.generation) > l.generation:
		l.fenced = true
		return ErrFenced
	case there && half: // a program was killed while it took the pool
		return l.file.Missed(nil)
	case same: // or before it wrote anything
		os.Remove(next)
		return nil
	}
	return ErrChanged
}

// Intend records rows that are about to be made. A row that is gone begins again.
func (l *Ledger) Intend(rows ...Row) error { return l.rows(Intended, rows) }

// Created records that rows exist, and adds the fields that are known by now. A row that was not
// intended is added.
func (l *Ledger) Created(rows ...Row) error { return l.rows(Created, rows) }

// Leased records that rows end themselves when their lease runs out. Like Created, it adds fields
// to a row that has advanced further, and leaves its state unchanged.
func (l *Ledger) Leased(rows ...Row) error { return l.rows(Leased, rows) }

func (l *Ledger) rows(s State, rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	rows = slices.Clone(rows)
	for i, r := range rows {
		rows[i] = r.own()
	}
	return l.change(func(b *book) []entry {
		var es []entry
		at := time.Now()
		for _, r := range rows {
			old, known := b.row(r.Name)
			if !known || s == Intended && old.State == Gone { // it is a new thing with the same name
				r = r.enter(s, at)
				es = append(es, entry{Is: isRow, At: at, Row: &r})
				continue
			}
			r = old.merged(r)
			if s == Leased && r.State == Intended { // a leased row exists
				created := r.enter(Created, at)
				es = append(es, entry{Is: isRow, At: at, Row: &created})
				r = created
			}
			if follows(r.State, s) == nil {
				r = r.enter(s, at)
			}
			es = append(es, entry{Is: isRow, At: at, Row: &r})
		}
		return es
	})
}

// Billed records prices and bills of rows, in whatever state they are. It ignores rows that the ledger does not have.
func (l *Ledger) Billed(rows ...Row) error {
	if len(rows) == 0 {
		return nil
	}
	return l.change(func(b *book) []entry {
		var es []entry
		at := time.Now()
		for _, now := range rows {
			if r, known := b.row(now.Name); known {
				r = r.merged(Row{HourlyUSD: now.own().HourlyUSD, Billing: Billing{Bill: now.Bill}})
				es = append(es, entry{Is: isRow, At: at, Row: &r})
			}
		}
		return es
	})
}

// Ending records that the named rows have been asked to end. It ignores rows that are gone, and
// names that the ledger does not have.
func (l *Ledger) Ending(names ...string) error { return l.enter(Ending, "", names) }

// Gone records that the named rows do not exist, as their provider says.
func (l *Ledger) Gone(note string, names ...string) error { return l.enter(Gone, note, names) }

func (l *Ledger) enter(s State, note string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return l.change(func(b *book) []entry {
		var es []entry
		at := time.Now()
		for _, name := range names {
			r, known := b.row(name)
			if !known || r.State == Gone || r.State == s {
				continue
			}
			r = r.enter(s, at)
			if note != "" {
				r.Note = note
			}
			es = append(es, entry{Is: isRow, At: at, Row: &r})
		}
		return es
	})
}

// Closing records that the pool is being ended.
func (l *Ledger) Closing() error {
	return l.change(func(b *book) []entry {
		if b.closing {
			return nil
		}
		return []entry{{Is: isClosing, At: time.Now()}}
	})
}

// Renew records that this program lives, for programs on other machines that share the folder.
func (l *Ledger) Renew() error {
	return l.change(func(*book) []entry { return []entry{{Is: isRenewed, At: time.Now()}} })
}

// Generation returns the number of programs that have had the pool, including this one.
func (l *Ledger) Generation() int { return l.generation }

// Snapshot returns the state of the ledger. It does not block.
func (l *Ledger) Snapshot() Snapshot {
	s := l.book.Load().snapshot()
	s.InUse = !l.closed.Load()
	return s
}

// keyBytes bounds what Key reads. Private keys are shorter.
const keyBytes = 64 << 10

// Key returns the pool's private key.
func (l *Ledger) Key() ([]byte, error) {
	key, err := private.ReadFile(l.dir.file(l.id, ".key"), keyBytes)
	return key, wrapError("read the key beside", l.id, err)
}

// KeyPath returns the name of the file with the pool's private key.
func (l *Ledger) KeyPath() string { return l.dir.file(l.id, ".key") }

// TasksPath returns the name of the file for the journal of the pool's tasks.
func (l *Ledger) TasksPath() string { return l.dir.TasksPath(l.id) }

// Fenced returns ErrFenced if another program has taken the pool, or ended it. After Close it
// returns what was known by then.
func (l *Ledger) Fenced() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.closed.Load() && !l.fenced {
		return nil
	}
	return wrapError("read", l.id, l.owning(func() error { return nil }))
}

// Close releases the pool. If remove is true, it removes the pool's files: nothing of the pool may
// be left then. Otherwise they stay for the next program that takes the pool. It removes nothing of
// a pool that another program has taken.
func (l *Ledger) Close(remove bool) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.closed.Swap(true) {
		return nil
	}
	err := error(ErrFenced)
	if !l.fenced {
		if err = l.lock.Lock(lockPatience); err == nil {
			defer l.lock.Unlock()
			err = l.check()
		} else if errors.Is(err, fs.ErrNotExist) { // the folder and its files are gone
			err = ErrChanged
		}
	}
	if err == nil && !remove {
		err = l.append(&change{makes: func(*book) []entry {
			return []entry{{Is: isReleased, At: time.Now(), Generation: l.generation}}
		}})
	}
	// On some systems open files cannot be removed.
	closed := errors.Join(l.file.Close(), l.life.Close())
	switch {
	case errors.Is(err, ErrFenced):
		err = nil // nothing of this program is left here
	case remove && (err == nil || errors.Is(err, ErrChanged)):
		var generations []int
		if generations, err = l.dir.generationsOf(l.book.Load(), l.id, 1); err == nil {
			err = l.dir.remove(l.id, generations)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	default:
		err = errors.Join(err, closed)
	}
	return wrapError("close", l.id, err)
}
