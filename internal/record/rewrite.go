package record

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
)

// Unfinished is the suffix of a file that [Rewrite] has not finished.
const Unfinished = ".new"

// Rewrite replaces the content of a file with the records, and returns the file for appending more.
// After a crash there is either the old file or the new one, and possibly a file with the suffix
// [Unfinished]; with sync this is so even if the machine crashes. If recs yields an error, or the
// disk is full, Rewrite stops and the old file stays. A [File] that is open at path keeps using the
// old file: close it first.
func Rewrite(path string, sync bool, recs iter.Seq2[Record, error]) (_ *File, err error) {
	unfinished := path + Unfinished
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	out, err := os.OpenFile(unfinished, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	f := &File{path: unfinished, f: out}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(unfinished)
		}
	}()
	const batch = 256 << 10
	var waiting []Record
	size := 0
	for r, err := range recs {
		if err != nil {
			return nil, err
		}
		waiting = append(waiting, r)
		if size += len(r.Head) + len(r.Body); size >= batch {
			if err := f.Append(false, waiting...); err != nil {
				return nil, err
			}
			waiting, size = waiting[:0], 0
		}
	}
	if err := f.Append(sync, waiting...); err != nil {
		return nil, err
	}
	end := f.end
	if err := errors.Join(f.Close(), os.Rename(unfinished, path)); err != nil {
		return nil, err
	}
	if sync {
		if err := SyncDir(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	if out, err = os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0); err != nil {
		return nil, err
	}
	return &File{path: path, f: out, end: end}, nil
}
