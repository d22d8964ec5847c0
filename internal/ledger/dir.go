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
// $XDG_STATE_HOME/gputrain where that is an absolute path, else
// ~/.local/state/gputrain; on Windows %LocalAppData%\gputrain. It makes nothing.
func DefaultDir() (string, error) {
	if runtime.GOOS == "windows" {
		if d := os.Getenv("LocalAppData"); d != "" {
			return filepath.Join(d, "gputrain"), nil
		}
		return "", errors.New("%LocalAppData% is not set: name a folder for what programs keep")
	}
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "gputrain"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", errors.New("neither HOME nor XDG_STATE_HOME is set: set one, or name a folder for what programs keep")
	}
	return filepath.Join(home, ".local", "state", "gputrain"), nil
}

// A Dir is a folder with the ledgers of pools.
type Dir struct{ path string } // of the folder pools

// OpenDir opens a folder, and makes it where it is not there. It must be this
// user's, and no other user may write to it or exchange it for another.
func OpenDir(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := private.CheckPath(path); err != nil {
		return nil, err
	}
	d := &Dir{path: filepath.Join(path, "pools")}
	var made []string // what a ledger in it needs to be found after a crash
	for p := d.path; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) || p == filepath.Dir(p) {
			break
		}
		made = append(made, p)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(path) // a user may have a link of their own to it
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

// Pools returns the ids of the pools that have a ledger. What a program has left
// of one that has none, since it was killed while it made or removed it, is removed.
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

// sweep removes the files of a pool that has no ledger, unless a program is at it.
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

// has reports whether there may be a ledger of a pool.
func (d *Dir) has(id string) bool {
	_, err := os.Stat(d.file(id, ".ledger"))
	return !errors.Is(err, fs.ErrNotExist)
}

// generations returns the numbers of a pool's lock files. It reads the whole folder, so
// what is done for each of many pools uses [Dir.generationsOf].
func (d *Dir) generations(id string) ([]int, error) {
	entries, err := os.ReadDir(d.path) // and no Glob: the folder's own name may have what that takes for a pattern
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

// generationsOf returns the numbers, from one on, of the lock files of a pool whose
// ledger has been read. A whole ledger has every generation before its last, and a
// program that takes the pool makes the lock of the next one before it writes: so the
// files after the last follow each other, and are looked for by name. A ledger that is
// damaged, or newer, may lack any of them: there the folder is read.
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

// held returns the latest generation of a pool whose program lives, if that is not
// before the ledger's last, or 0.
func (d *Dir) held(b *book, id string) (int, error) {
	generations, err := d.generationsOf(b, id, b.generation)
	if held := d.heldOf(id, generations); held >= b.generation {
		return held, err
	}
	return 0, err
}

// heldOf returns the latest of some generations of a pool whose program lives, or 0.
func (d *Dir) heldOf(id string, generations []int) int {
	held := 0
	for _, n := range generations {
		if n > held && isHeld(d.generationLock(id, n)) {
			held = n
		}
	}
	return held
}

// remove removes all files of a pool but its change lock, which the caller has and
// which goes when it lets it go. The ledger goes after what is secret, so that
// what a crash leaves of that is known. A lock file that is not among the generations
// stays until the next call of Pools, which sweeps what has no ledger.
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

// Read returns what a pool's ledger says, and changes nothing. With ErrNewer
// there is a snapshot too, of what can be read of it.
func (d *Dir) Read(id string) (*Snapshot, error) {
	b, err := d.readBook(id)
	if err != nil {
		return nil, err
	}
	s := d.snapshot(b, id)
	if s.Newer {
		return &s, told("read", id, ErrNewer)
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
			return nil, told("read", id, err)
		}
	}
	return b, nil
}

// snapshot is what the book says, and whether somebody has the pool.
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
	// On another host, which a machine is too before and after a boot, only the
	// lease tells.
	who, err := owner.Parse(b.owner)
	return err == nil && !who.SameHost() && !b.released && time.Since(b.last) < b.Lease
}

// Create begins a pool's ledger with what is about to be made, and returns once it
// is on disk. key is the pool's private key. Where it fails, it leaves nothing.
func (d *Dir) Create(h Header, key []byte, rows ...Row) (_ *Ledger, err error) {
	if !idPattern.MatchString(h.Pool) {
		return nil, fmt.Errorf("%q is not the ID of a pool: it is lower-case letters, digits and dashes, at most 63", h.Pool)
	}
	lock, err := d.lock(h.Pool, lockPatience)
	if err != nil {
		return nil, told("begin", h.Pool, err)
	}
	defer lock.Unlock()
	generations, err := d.generations(h.Pool) // there may be what a program has left that was killed here
	switch {
	case err != nil:
		return nil, told("begin", h.Pool, err)
	case d.has(h.Pool), d.heldOf(h.Pool, generations) > 0:
		return nil, told("begin", h.Pool, fmt.Errorf("%w: it is there already", ErrInUse))
	}
	defer func() {
		if err != nil {
			err = told("begin", h.Pool, err)
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

// TakeOptions say what Take may do.
type TakeOptions struct {
	// Force takes a pool whose program lives: that one is fenced off.
	Force bool
	// Damaged takes a pool whose ledger is damaged, by what can be read of it.
	Damaged bool
}

// Take makes this program the owner of a pool: its generation is the next one,
// and the one before writes nothing more.
func (d *Dir) Take(id, who string, opts TakeOptions) (_ *Ledger, _ *Snapshot, err error) {
	if !idPattern.MatchString(id) {
		return nil, nil, fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	lock, err := d.lock(id, lockPatience)
	if err != nil {
		return nil, nil, told("take", id, err)
	}
	defer lock.Unlock()
	was, err := d.readBook(id)
	if err != nil {
		return nil, nil, err
	}
	s := d.snapshot(was, id)
	snap := &s
	switch {
	case snap.Newer:
		return nil, snap, told("read", id, ErrNewer)
	case snap.InUse && !opts.Force:
		return nil, snap, told("take", id, fmt.Errorf("%w: %s", ErrInUse, snap.Holder))
	case len(snap.Damage) > 0 && !opts.Damaged:
		return nil, snap, told("take", id, fmt.Errorf("%w: %w", ErrDamaged, errors.Join(snap.Damage...)))
	}
	held, err := d.held(was, id) // of whose taking the ledger may have lost the line
	if err != nil {
		return nil, snap, told("take", id, err)
	}
	l := &Ledger{dir: d, id: id, generation: max(snap.Generation, held) + 1, lock: lock}
	if l.life, err = hold(d.generationLock(id, l.generation)); err != nil {
		return nil, snap, told("take", id, err)
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
		return nil, snap, told("take", id, err)
	}
	taken := l.Snapshot()
	return l, &taken, nil
}
