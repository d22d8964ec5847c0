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

// A Ledger is the ledger of a pool that this program has. Its methods can be
// called at the same time; what they put down is on disk when they return.
// After an error nothing of what they were given is in it. A nil Ledger puts
// nothing down, and is never fenced: that of what another computer has made.
type Ledger struct {
	dir        *Dir
	id         string
	generation int
	life       *flock.Flock // of this program's generation

	mu      sync.Mutex // guards waiting
	waiting *batch     // that collects, while another one is written

	book   atomic.Pointer[book] // what is on disk; one is never changed
	closed atomic.Bool

	writing sync.Mutex // guards what follows, and changes of book and closed
	lock    *changeLock
	file    *record.File
	fenced  bool
}

// A change makes entries of the book as it then is.
type change struct {
	makes func(*book) []entry
	err   error // what is wrong with this one, and not with the others of its batch
}

// A batch is changes that are written together.
type batch struct {
	changes []*change
	done    chan struct{}
	err     error
}

// change puts down a change. What comes while a batch is written goes together.
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
	return told("write", l.id, cmp.Or(c.err, b.err))
}

// lead writes a batch when it is its turn.
func (l *Ledger) lead(b *batch) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	l.waiting = nil // who comes now is late
	l.mu.Unlock()
	defer close(b.done)
	if l.closed.Load() {
		b.err = fs.ErrClosed
		return
	}
	b.err = l.owning(func() error { return l.append(b.changes...) })
}

// owning calls a function while no other program changes the pool's files, and
// this one has the pool.
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

// append appends what changes make of the book. One that cannot be is left out,
// and told so.
func (l *Ledger) append(changes ...*change) error {
	next := l.book.Load().clone()
	var recs []record.Record
	for _, c := range changes {
		if c.err != nil {
			continue
		}
		var made []record.Record
		if made, c.err = next.take(c.makes(next)); c.err != nil {
			return l.append(changes...) // of a book without the half of it
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

// begin is the first that a program writes of a pool that it has taken. b is
// what the file holds.
func (l *Ledger) begin(b *book, taken entry) error {
	rec, err := taken.record()
	if err != nil {
		return err
	}
	if err := l.file.Append(true, rec); err != nil {
		return err
	}
	b.torn = false // it was cut off
	l.book.Store(b)
	return b.read(rec, nil) // it may find that generations are missing
}

// check looks whether the file is as this program left it. It is not when another
// one has taken the pool, or ended it; and when somebody has laid hands on it.
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
	// Another program holds its lock before it writes, and writes before it removes.
	generations, err := l.dir.generations(l.id)
	if err != nil {
		return err
	}
	latest := max(l.dir.heldOf(l.id, generations), l.book.Load().generation)
	if !there { // what it was before it was replaced, or removed
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
	case same: // or before it wrote
		os.Remove(next)
		return nil
	}
	return ErrChanged
}

// Intend puts down rows of what is about to be made. One that is gone begins anew.
func (l *Ledger) Intend(rows ...Row) error { return l.rows(Intended, rows) }

// Created puts down that rows exist, with what is known of them by now. One that was
// not intended is added.
func (l *Ledger) Created(rows ...Row) error { return l.rows(Created, rows) }

// Leased puts down that rows end themselves when their lease runs out. Like Created
// it adds to what is known of a row that is further on, and leaves it there.
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
			if !known || s == Intended && old.State == Gone { // which is another one by the same name
				r = r.enter(s, at)
				es = append(es, entry{Is: isRow, At: at, Row: &r})
				continue
			}
			r = old.merged(r)
			if s == Leased && r.State == Intended { // it is there, then
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

// Ending puts down that the named rows are asked to end. Names that the ledger
// does not have, and rows that are gone, count for nothing.
func (l *Ledger) Ending(names ...string) error { return l.enter(Ending, "", names) }

// Gone puts down that the named rows do not exist, as their provider says.
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

// Closing puts down that the pool is being ended.
func (l *Ledger) Closing() error {
	return l.change(func(b *book) []entry {
		if b.closing {
			return nil
		}
		return []entry{{Is: isClosing, At: time.Now()}}
	})
}

// Renew puts down that this program lives. It is for those on other machines that
// share the folder, and has no meaning where there are none.
func (l *Ledger) Renew() error {
	return l.change(func(*book) []entry { return []entry{{Is: isRenewed, At: time.Now()}} })
}

// Generation counts the programs that have had the pool, with this one.
func (l *Ledger) Generation() int { return l.generation }

// Snapshot returns what the ledger says. It waits for nothing.
func (l *Ledger) Snapshot() Snapshot {
	s := l.book.Load().snapshot()
	s.InUse = !l.closed.Load()
	return s
}

// keyBytes bounds what Key reads: no private key has as much.
const keyBytes = 64 << 10

// Key returns the pool's private key.
func (l *Ledger) Key() ([]byte, error) {
	key, err := private.ReadFile(l.dir.file(l.id, ".key"), keyBytes)
	return key, told("read the key beside", l.id, err)
}

// TasksPath returns the name of the file for what the pool keeps of its tasks.
func (l *Ledger) TasksPath() string { return l.dir.file(l.id, ".tasks") }

// Fenced returns ErrFenced where another program has taken the pool, or ended it.
// After Close it says what was known by then.
func (l *Ledger) Fenced() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.closed.Load() && !l.fenced {
		return nil
	}
	return told("read", l.id, l.owning(func() error { return nil }))
}

// Close lets the pool go. With remove all of its files are removed, for a pool
// of which nothing is left; otherwise they stay for whoever takes it next. Of a
// pool that another program has taken it removes nothing.
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
		} else if errors.Is(err, fs.ErrNotExist) { // the folder is gone, and what was in it
			err = ErrChanged
		}
	}
	if err == nil && !remove {
		err = l.append(&change{makes: func(*book) []entry {
			return []entry{{Is: isReleased, At: time.Now(), Generation: l.generation}}
		}})
	}
	// Files that are open cannot be removed everywhere.
	closed := errors.Join(l.file.Close(), l.life.Close())
	switch {
	case errors.Is(err, ErrFenced):
		err = nil // there is nothing here of this program's any more
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
	return told("close", l.id, err)
}
