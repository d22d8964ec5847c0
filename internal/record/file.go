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

// keptBuffer bounds the buffer that a File keeps for its next append.
const keptBuffer = 1 << 20

// A File is a file of records that can be appended to. Its methods can be called concurrently. It
// does not know of other programs: if several append to one file, the callers need a lock, and call
// [File.Missed] while they hold it.
type File struct {
	path string

	mu     sync.Mutex
	f      *os.File
	end    position
	buf    []byte
	broken error // if not nil, nothing can be appended any more
}

// Create makes an empty file that only this user can read, and returns once its name is on disk.
// The file must not exist.
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

// Open opens a file to append to. First it passes everything that [Read] would yield to each, and
// fails if each returns an error. Then it cuts off the last record if that is incomplete; damage
// stays as it is. If each is nil, records are checked but not kept in memory.
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

// Missed passes what other programs have appended since to each, as [Open] does.
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

// isFinding reports whether err describes the content, so that reading can go on.
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

// Append appends records in one write. With sync it returns once they are on disk. If it fails,
// nothing is appended: the file is cut back to its previous size, so that a full disk leaves no
// half record before a later complete one. If even that fails, or the disk has lost data that it
// had accepted, this and every later call return an error.
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
			if !IsFull(err) && f.broken == nil { // the disk may have lost earlier data too
				f.broken = fmt.Errorf("%s cannot be relied on: %w", f.path, err)
			}
			return err
		}
	}
	f.end.offset += int64(len(b))
	f.end.lines += len(recs)
	return nil
}

// undo cuts off what a failed append has written.
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
		f.broken = fmt.Errorf("%s may end in half a record, which could not be cut off: %w (the first error: %w)", f.path, err, why)
		return f.broken
	}
	return why
}

func (f *File) truncate(size int64) error {
	if runtime.GOOS == "windows" { // which does not allow it for a file that is open for appending
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

// Size returns the offset of the next record.
func (f *File) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end.offset
}

// Stat returns information about the file as it is, including other programs' records.
func (f *File) Stat() (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.f.Stat()
}

// Close closes the file. Nothing can be appended afterwards. Closing again does nothing.
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
	if runtime.GOOS == "windows" { // which needs no call for that
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
