package record

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
)

// Unfinished is what the name of a file that [Rewrite] has not finished ends in.
const Unfinished = ".new"

// Rewrite puts records into a file, in place of all that it held, and returns it
// to append more. A crash at any moment leaves either the old file or the new
// one, and possibly one whose name ends in [Unfinished]; that holds for a crash of
// the machine only with sync. The first error that recs yields ends it and leaves
// the old file, as does a full disk. A [File] that is open at path goes on with the
// old file: close it before.
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
