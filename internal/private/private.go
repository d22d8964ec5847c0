// Package private makes and checks folders and files that belong to this user alone, on a computer
// with other users, who may create any name in a shared folder first, or place a link there.
//
// On Windows, whose users have folders of their own, and rights that are not mode bits, it checks
// only for links and kinds of files.
package private

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Check returns an error if a folder does not belong to this user alone. info is its os.Lstat: a
// link is refused.
func Check(info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return errors.New("it is a link; name the folder itself")
	case !info.IsDir():
		return errors.New("it is not a folder")
	case !Owned(info):
		return errors.New("it is another user's; name a folder of your own")
	case othersWrite(info):
		return errors.New("others can write to it; make it yours alone (chmod 700), or name another folder")
	}
	return nil
}

// Dir calls Check for a folder by its name.
func Dir(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if err := Check(info); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// MakeDir makes a folder that only this user can enter, and its parents, unless it exists. It
// checks the folder in both cases.
func MakeDir(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return Dir(path)
}

// CheckPath returns an error if another user could replace part of a path: a link or a folder that
// belongs to another user, or a folder that every user can write to and that has no sticky bit. It
// ignores parts that do not exist.
func CheckPath(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	there := path // or its longest part that exists
	for p := path; p != filepath.Dir(p); p = filepath.Dir(p) {
		info, err := os.Lstat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			there = filepath.Dir(p)
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0 && !trusted(info):
			return fmt.Errorf("%s is another user's link; name the folder itself", p)
		}
	}
	real, err := filepath.EvalSymlinks(there)
	if err != nil {
		return err
	}
	if there == path {
		real = filepath.Dir(real)
	}
	for p := real; ; p = filepath.Dir(p) {
		info, err := os.Lstat(p)
		switch {
		case err != nil:
			return err
		case !trusted(info):
			return fmt.Errorf("%s, above %s, is another user's; name a folder of your own", p, path)
		case anyoneRenames(info):
			return fmt.Errorf("every user can rename entries of %s, above %s; set its sticky bit (chmod +t), or name another folder", p, path)
		case p == filepath.Dir(p):
			return nil
		}
	}
}

// ReadFile returns the content of a regular file that belongs to this user, of at most limit bytes.
// It does not follow a link at the end of the path, and does not block on a pipe.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("%s is larger than the limit of %d bytes", path, limit)
	}
	return data, nil
}

// Open opens a regular file that belongs to this user for reading. It does not follow a link at the
// end of the path, and does not block on a pipe. Another regular file may take its place meanwhile.
func Open(path string) (*os.File, error) {
	const tries = 100 // who replaces it without an end is no program of this user's
	f, err := openNamed(path)
	for range tries {
		if !errors.Is(err, errReplaced) {
			break
		}
		f, err = openNamed(path)
	}
	return f, err
}

// errReplaced means that the file that was opened has taken the place of the one that was looked at.
var errReplaced = errors.New("the file was replaced")

func openNamed(path string) (*os.File, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular() || !named.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", path)
	case !os.SameFile(named, info):
		err = fmt.Errorf("%s: %w", path, errReplaced)
	case !Owned(info):
		err = fmt.Errorf("%s is another user's", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
