package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
)

// keptBuffer bounds what a File keeps for its next append.
const keptBuffer = 1 << 20

// A File is one to append to. Its methods can be called at the same time. It
// knows nothing of other programs: where several append to one file, a lock
// between them is the caller's, and so is calling [File.Missed] under it.
type File struct {
	path string

	mu     sync.Mutex
	f      *os.File
	end    position
	buf    []byte
	broken error // why nothing can be appended any more
}

// Create makes an empty file that only this user can read, and returns once its
// name is on disk. There must be none yet.
func Create(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return &File{path: path, f: f}, nil
}

// Open opens a file to append to. Before, it gives each everything that [Read]
// would yield, and gives up with the first error that each returns. Then it cuts
// off the last record where that is not whole; damage stays as it is. Where each
// is nil, records are checked and not kept.
func Open(path string, each func(Record, error) error) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	opened := &File{path: path, f: f}
	if err := opened.catchUp(each); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return opened, nil
}

// Missed gives each what other programs have appended since, as [Open] does.
func (f *File) Missed(each func(Record, error) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	return f.catchUp(each)
}

func (f *File) catchUp(each func(Record, error) error) error {
	info, err := f.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < f.end.offset {
		return fmt.Errorf("%s has become shorter: another program has changed it", f.path)
	}
	s := newScanner(f.f, f.path, f.end, info.Size())
	s.skip = each == nil
	var stopped error
	s.each(func(r Record, err error) bool {
		if each != nil {
			stopped = each(r, err)
		} else if !isFinding(err) {
			stopped = err
		}
		return stopped == nil
	})
	if stopped != nil {
		return stopped
	}
	if s.end.offset < info.Size() {
		if err := f.truncate(s.end.offset); err != nil {
			return err
		}
	}
	f.end = s.end
	return nil
}

// isFinding reports whether reading goes on, or has come to the end, with err.
func isFinding(err error) bool {
	if err == nil {
		return true
	}
	if _, ok := errors.AsType[*DamageError](err); ok {
		return true
	}
	_, ok := errors.AsType[*TornError](err)
	return ok
}

// Append appends records in one write, and with sync returns once they are on
// disk. Where it fails nothing is appended: the file is cut back to what it was,
// so a full disk leaves no half record before a later whole one. Where not even
// that is possible, or the disk has lost what it had taken, this and every later
// call say so.
func (f *File) Append(sync bool, recs ...Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	size := 0
	for _, r := range recs {
		size += overhead + len(r.Head) + len(r.Body) + 2
	}
	b := f.buf[:0]
	if cap(b) < size {
		b = make([]byte, 0, size)
	}
	if size <= keptBuffer {
		f.buf = b
	}
	for _, r := range recs {
		var err error
		if b, err = appendRecord(b, r); err != nil {
			return err
		}
	}
	n, err := f.f.Write(b)
	if err != nil {
		return f.undo(int64(n), err)
	}
	if sync {
		if err := f.f.Sync(); err != nil {
			err = f.undo(int64(n), err)
			if !IsFull(err) && f.broken == nil { // what else the disk had taken may be lost with it
				f.broken = fmt.Errorf("%s cannot be relied on: %w", f.path, err)
			}
			return err
		}
	}
	f.end.offset += int64(len(b))
	f.end.lines += len(recs)
	return nil
}

// undo cuts off what an append has written before it failed.
func (f *File) undo(written int64, why error) error {
	info, err := f.f.Stat()
	switch {
	case err != nil:
	case info.Size() == f.end.offset && written == 0:
		return why
	case info.Size() != f.end.offset+written:
		err = errors.New("another program has changed it")
	default:
		err = f.truncate(f.end.offset)
	}
	if err != nil {
		f.broken = fmt.Errorf("%s may end in half a record, which could not be cut off: %w; after %w", f.path, err, why)
		return f.broken
	}
	return why
}

func (f *File) truncate(size int64) error {
	if runtime.GOOS == "windows" { // a file opened to append has no right to it there
		return os.Truncate(f.path, size)
	}
	return f.f.Truncate(size)
}

// Sync returns once everything that was appended is on disk.
func (f *File) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	if err := f.f.Sync(); err != nil {
		f.broken = fmt.Errorf("%s cannot be relied on: %w", f.path, err)
		return f.broken
	}
	return nil
}

// Size returns where the next record will be.
func (f *File) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end.offset
}

// Stat describes the file as it is, other programs' records included.
func (f *File) Stat() (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.f.Stat()
}

// Close closes the file. Nothing can be appended after it; calling it again does nothing.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(f.broken, fs.ErrClosed) {
		return nil
	}
	f.broken = fmt.Errorf("%s: %w", f.path, fs.ErrClosed)
	return f.f.Close()
}

// SyncDir returns once the names in a folder are on disk.
func SyncDir(path string) error {
	if runtime.GOOS == "windows" { // has no such thing, and writes names as they come
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
