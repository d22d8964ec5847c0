package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/owner"
	"github.com/gputrain/gputrain/internal/private"
	"github.com/gputrain/gputrain/internal/record"
)

// DefaultDir returns gputrain's folder in the user's state directory:
// $XDG_STATE_HOME/gputrain if that is an absolute path, else
// ~/.local/state/gputrain; on Windows %LocalAppData%\gputrain. It makes nothing.
func DefaultDir() (string, error) {
	if runtime.GOOS == "windows" {
		if d := os.Getenv("LocalAppData"); d != "" {
			return filepath.Join(d, "gputrain"), nil
		}
		return "", errors.New("%LocalAppData% is not set: set it, or name a state directory")
	}
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "gputrain"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", errors.New("neither HOME nor XDG_STATE_HOME is set: set one, or name a state directory")
	}
	return filepath.Join(home, ".local", "state", "gputrain"), nil
}

// A Dir is a folder with the ledgers of pools.
type Dir struct{ path string } // path is that of the subfolder "pools"

// OpenDir opens a folder, and makes it if it does not exist. It must belong to this user, and no
// other user may be able to write to it or replace it.
func OpenDir(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := private.CheckPath(path); err != nil {
		return nil, err
	}
	d := &Dir{path: filepath.Join(path, "pools")}
	var made []string // new folders, whose names must be on disk for a ledger to survive a crash
	for p := d.path; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) || p == filepath.Dir(p) {
			break
		}
		made = append(made, p)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(path) // the user's own links are allowed
	if err != nil {
		return nil, err
	}
	if err := private.Dir(real); err != nil {
		return nil, err
	}
	if err := private.MakeDir(d.path); err != nil {
		return nil, err
	}
	for _, p := range made {
		if err := record.SyncDir(filepath.Dir(p)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
	}
	return d, nil
}

var idPattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

func (d *Dir) file(id, suffix string) string { return filepath.Join(d.path, id+suffix) }

func (d *Dir) generationLock(id string, generation int) string {
	return d.file(id, "."+strconv.Itoa(generation)+".lock")
}

// TasksPath returns the name of the file for the journal of a pool's tasks.
func (d *Dir) TasksPath(id string) string { return d.file(id, ".tasks") }

// Pools returns the IDs of the pools that have a ledger. It removes the files of pools without one,
// which a program left because it was killed while it made or removed the pool.
func (d *Dir) Pools() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var ids []string
	hasLedger := map[string]bool{}
	for _, e := range entries {
		id, suffix, _ := strings.Cut(e.Name(), ".")
		if !idPattern.MatchString(id) {
			continue
		}
		isLedger := suffix == "ledger"
		if isLedger {
			ids = append(ids, id)
		}
		hasLedger[id] = hasLedger[id] || isLedger
	}
	for id, has := range hasLedger {
		if !has {
			d.sweep(id)
		}
	}
	return ids, nil
}

// sweep removes the files of a pool that has no ledger, unless a program is using them.
func (d *Dir) sweep(id string) {
	lock, err := d.lock(id, 0)
	if err != nil {
		return
	}
	defer lock.Unlock()
	generations, err := d.generations(id)
	if err == nil && d.heldOf(id, generations) == 0 && !d.has(id) {
		d.remove(id, generations)
	}
}

// has reports whether a pool may have a ledger.
func (d *Dir) has(id string) bool {
	_, err := os.Stat(d.file(id, ".ledger"))
	return !errors.Is(err, fs.ErrNotExist)
}

// generations returns the numbers of a pool's lock files. It reads the whole folder; operations on
// many pools use [Dir.generationsOf] instead.
func (d *Dir) generations(id string) ([]int, error) {
	entries, err := os.ReadDir(d.path) // not Glob: the folder's own name may contain a pattern
	if err != nil {
		return nil, err
	}
	var found []int
	for _, e := range entries {
		of, rest, _ := strings.Cut(e.Name(), ".")
		number, isLock := strings.CutSuffix(rest, ".lock")
		if n, err := strconv.Atoi(number); of == id && isLock && err == nil && n > 0 && strconv.Itoa(n) == number {
			found = append(found, n)
		}
	}
	return found, nil
}

// generationsOf returns the numbers of a pool's lock files, from one on, once its ledger has been
// read. An undamaged ledger has every generation before its last, and a program that takes the pool
// makes the next generation's lock before it writes. So the numbers after the last one are
// consecutive, and the files can be looked up by name. A damaged or newer ledger may lack any
// generation: the folder is read then.
func (d *Dir) generationsOf(b *book, id string, from int) ([]int, error) {
	if b.newer || len(b.damage) > 0 {
		return d.generations(id)
	}
	var found []int
	for n := max(1, from); ; n++ {
		_, err := os.Lstat(d.generationLock(id, n))
		switch {
		case err == nil:
			found = append(found, n)
		case !errors.Is(err, fs.ErrNotExist):
			return found, err
		case n > b.generation:
			return found, nil
		}
	}
}

// isGone reports whether an owner's program is known to have ended.
func isGone(text string) bool {
	who, err := owner.Parse(text)
	if err != nil {
		return false
	}
	alive, known := who.Alive()
	return known && !alive
}

// held returns the latest generation whose program lives, if it is not older than the ledger's last
// one, or else 0.
func (d *Dir) held(b *book, id string) (int, error) {
	generations, err := d.generationsOf(b, id, b.generation)
	if held := d.heldOf(id, generations); held >= b.generation {
		return held, err
	}
	return 0, err
}

// heldOf returns the latest of the generations whose program lives, or 0.
func (d *Dir) heldOf(id string, generations []int) int {
	held := 0
	for _, n := range generations {
		if n > held && isHeld(d.generationLock(id, n)) {
			held = n
		}
	}
	return held
}

// remove removes all files of a pool except its change lock, which the caller holds, and which is
// removed when it is unlocked. The ledger is removed after the secret files, so that these can
// still be found after a crash. A lock file that is not among the generations stays until the next
// call of Pools, which removes the files of pools without a ledger.
func (d *Dir) remove(id string, generations []int) error {
	names := []string{d.file(id, ".key"), d.file(id, ".tasks"), d.file(id, ".tasks"+record.Unfinished), d.file(id, ".ledger"), d.file(id, ".ledger"+record.Unfinished)}
	for _, n := range generations {
		names = append(names, d.generationLock(id, n))
	}
	var errs []error
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, record.SyncDir(d.path))...)
}

// Read returns the state of a pool's ledger, and changes nothing. With ErrNewer it also returns a
// snapshot, of what can be read.
func (d *Dir) Read(id string) (*Snapshot, error) {
	b, err := d.readBook(id)
	if err != nil {
		return nil, err
	}
	s := d.snapshot(b, id)
	if s.Newer {
		return &s, wrapError("read", id, ErrNewer)
	}
	return &s, nil
}

// readBook reads a pool's ledger.
func (d *Dir) readBook(id string) (*book, error) {
	if !idPattern.MatchString(id) {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	b := &book{}
	for r, err := range record.Read(d.file(id, ".ledger")) {
		if err := b.read(r, err); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s", ErrUnknown, id)
		} else if err != nil {
			return nil, wrapError("read", id, err)
		}
	}
	return b, nil
}

// snapshot returns the book's snapshot, and whether a program has the pool.
func (d *Dir) snapshot(b *book, id string) Snapshot {
	s := b.snapshot()
	s.InUse = d.inUse(b, id)
	return s
}

func (d *Dir) inUse(b *book, id string) bool {
	held, err := d.held(b, id)
	if err != nil || held > 0 {
		return true
	}
	// For an owner on another host, or on this host before it booted, only the lease counts.
	who, err := owner.Parse(b.owner)
	return err == nil && !who.SameHost() && !b.released && time.Since(b.last) < b.Lease
}

// Create begins a pool's ledger with rows that are about to be made, and returns once it is on
// disk. key is the pool's private key. If Create fails, it leaves nothing.
func (d *Dir) Create(h Header, key []byte, rows ...Row) (_ *Ledger, err error) {
	if !idPattern.MatchString(h.Pool) {
		return nil, fmt.Errorf("%q is not the ID of a pool: an ID is at most 63 lower-case letters, digits and dashes", h.Pool)
	}
	lock, err := d.lock(h.Pool, lockPatience)
	if err != nil {
		return nil, wrapError("begin", h.Pool, err)
	}
	defer lock.Unlock()
	generations, err := d.generations(h.Pool) // a program that was killed in Create may have left some
	switch {
	case err != nil:
		return nil, wrapError("begin", h.Pool, err)
	case d.has(h.Pool), d.heldOf(h.Pool, generations) > 0:
		return nil, wrapError("begin", h.Pool, fmt.Errorf("%w: its ledger exists already", ErrInUse))
	}
	defer func() {
		if err != nil {
			err = wrapError("begin", h.Pool, err)
			d.remove(h.Pool, []int{1})
		}
	}()
	if err := d.remove(h.Pool, generations); err != nil {
		return nil, err
	}
	l := &Ledger{dir: d, id: h.Pool, generation: 1, lock: lock}
	if l.life, err = hold(d.generationLock(h.Pool, 1)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.life.Close()
		}
	}()
	if err = writeKey(d.file(h.Pool, ".key"), key); err != nil {
		return nil, err
	}
	h.Schema = Schema
	at := time.Now()
	entries := []entry{{Is: isPool, At: at, Pool: &h}}
	for _, r := range rows {
		r = r.own().enter(Intended, at)
		entries = append(entries, entry{Is: isRow, At: at, Row: &r})
	}
	b := &book{}
	recs, err := b.take(entries)
	if err != nil {
		return nil, err
	}
	l.file, err = record.Rewrite(d.file(h.Pool, ".ledger"), true, func(yield func(record.Record, error) bool) {
		for _, r := range recs {
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	l.book.Store(b)
	return l, nil
}

func writeKey(path string, key []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(key)
	return errors.Join(err, f.Sync(), f.Close())
}

// TakeOptions are options of Take.
type TakeOptions struct {
	// Force takes a pool even if its program lives. That program is fenced off.
	Force bool
	// Damaged takes a pool even if its ledger is damaged, with what can be read of it.
	Damaged bool
}

// Take makes this program the owner of a pool, with the next generation. The previous owner can no
// longer write.
func (d *Dir) Take(id, who string, opts TakeOptions) (_ *Ledger, _ *Snapshot, err error) {
	if !idPattern.MatchString(id) {
		return nil, nil, fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	lock, err := d.lock(id, lockPatience)
	if err != nil {
		return nil, nil, wrapError("take", id, err)
	}
	defer lock.Unlock()
	was, err := d.readBook(id)
	if err != nil {
		return nil, nil, err
	}
	s := d.snapshot(was, id)
	for late, began := false, time.Now(); s.InUse && !opts.Force && isGone(was.owner) && !late; s = d.snapshot(was, id) {
		late = time.Since(began) > orphanPatience
		time.Sleep(lockPause)
	}
	snap := &s
	switch {
	case snap.Newer:
		return nil, snap, wrapError("read", id, ErrNewer)
	case snap.InUse && !opts.Force:
		return nil, snap, wrapError("take", id, fmt.Errorf("%w: %s", ErrInUse, snap.Holder))
	case len(snap.Damage) > 0 && !opts.Damaged:
		return nil, snap, wrapError("take", id, fmt.Errorf("%w: %w", ErrDamaged, errors.Join(snap.Damage...)))
	}
	held, err := d.held(was, id) // the ledger may have lost the line that names it
	if err != nil {
		return nil, snap, wrapError("take", id, err)
	}
	l := &Ledger{dir: d, id: id, generation: max(snap.Generation, held) + 1, lock: lock}
	if l.life, err = hold(d.generationLock(id, l.generation)); err != nil {
		return nil, snap, wrapError("take", id, err)
	}
	b := &book{}
	if l.file, err = record.Open(d.file(id, ".ledger"), b.read); err == nil {
		err = l.begin(b, entry{Is: isTaken, At: time.Now(), Generation: l.generation, Owner: who})
	}
	if err != nil {
		l.life.Close()
		if l.file != nil {
			l.file.Close()
		}
		return nil, snap, wrapError("take", id, err)
	}
	taken := l.Snapshot()
	return l, &taken, nil
}
