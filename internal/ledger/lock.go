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

// A program waits at most lockPatience until another one has changed a pool's files.
const lockPatience = 20 * time.Second

// If a program is killed while it starts another one, that still holds its locks for a moment. Whoever takes the pool waits for
// orphanPatience.
const orphanPatience = 2 * time.Second

// A program looks at the lock every lockPause.
const lockPause = 2 * time.Millisecond

// A changeLock is held while a program changes a pool's files. It can be locked again after it was
// unlocked.
type changeLock struct {
	dir *Dir
	id  string
	f   *flock.Flock // nil while it is not held
}

// lock locks a pool's change lock.
func (d *Dir) lock(id string, patience time.Duration) (*changeLock, error) {
	l := &changeLock{dir: d, id: id}
	return l, l.Lock(patience)
}

func (l *changeLock) path() string { return l.dir.file(l.id, ".lock") }

// Lock waits for the lock. If the file was removed together with its pool meanwhile, it is no
// longer the lock.
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

// Unlock releases the lock. If the pool has no ledger, it also removes the lock's file.
func (l *changeLock) Unlock() {
	over := !l.dir.has(l.id)
	if over && runtime.GOOS != "windows" {
		os.Remove(l.path()) // while it is held, so that no other program's lock is removed
	}
	l.f.Close()
	l.f = nil
	if over && runtime.GOOS == "windows" { // an open file is not removed there
		os.Remove(l.path())
	}
}

// hold locks a file for as long as this program lives. It waits for programs that hold the lock for
// a moment to test whether it is held.
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

// isHeld reports whether a living program holds, or may hold, a lock.
func isHeld(path string) bool {
	f := flock.New(path, flock.SetFlag(os.O_RDWR))
	defer f.Close()
	ok, err := f.TryRLock()
	return !ok && !errors.Is(err, fs.ErrNotExist)
}
