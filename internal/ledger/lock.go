package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/gofrs/flock"
)

// lockPatience is how long a program waits for another one to finish what it does
// to a pool's files.
const lockPatience = 20 * time.Second

// lockPause is how long it waits before it looks again.
const lockPause = 2 * time.Millisecond

// A changeLock is held while a program changes a pool's files. It can be locked
// again after it was unlocked.
type changeLock struct {
	dir *Dir
	id  string
	f   *flock.Flock // nil while it is not held
}

// lock takes a pool's change lock.
func (d *Dir) lock(id string, patience time.Duration) (*changeLock, error) {
	l := &changeLock{dir: d, id: id}
	return l, l.Lock(patience)
}

func (l *changeLock) path() string { return l.dir.file(l.id, ".lock") }

// Lock waits for the lock. A file that was removed meanwhile, with the pool, is
// not the lock any more.
func (l *changeLock) Lock(patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(lockPause) {
		f := flock.New(l.path(), flock.SetPermissions(0o600))
		ok, err := f.TryLock()
		if err != nil {
			return err
		}
		if ok && l.isThere(f) {
			l.f = f
			return nil
		}
		f.Close()
		if time.Now().After(deadline) {
			return ErrBusy
		}
	}
}

func (l *changeLock) isThere(f *flock.Flock) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(l.path())
	return err == nil && os.SameFile(held, now)
}

// Unlock lets it go. A pool that has no ledger leaves no lock.
func (l *changeLock) Unlock() {
	over := !l.dir.has(l.id)
	if over && runtime.GOOS != "windows" {
		os.Remove(l.path()) // while it is held: so nobody else's is removed
	}
	l.f.Close()
	l.f = nil
	if over && runtime.GOOS == "windows" { // a file that somebody has open stays there
		os.Remove(l.path())
	}
}

// hold takes a lock for as long as this program lives. Programs that look whether
// it is held have it for a moment, and are waited for.
func hold(path string) (*flock.Flock, error) {
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		f := flock.New(path, flock.SetPermissions(0o600))
		ok, err := f.TryLock()
		if ok || err != nil {
			return f, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w: its lock is held", ErrInUse)
		}
	}
}

// isHeld reports whether a program that lives holds a lock. Where that cannot be
// told it may.
func isHeld(path string) bool {
	f := flock.New(path, flock.SetFlag(os.O_RDWR))
	defer f.Close()
	ok, err := f.TryRLock()
	return !ok && !errors.Is(err, fs.ErrNotExist)
}
