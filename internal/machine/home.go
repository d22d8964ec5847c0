package machine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gputrain/gputrain/internal/private"
)

// A Home is the path of a folder that only one machine uses. Tasks can make, change and lock
// everything in it.
type Home string

// Make makes the folder, which only this user can enter. One that exists is an error.
func (h Home) Make() error { return os.Mkdir(string(h), 0o700) }

// Exists reports whether there is anything at the path.
func (h Home) Exists() bool {
	_, err := os.Lstat(string(h))
	return err == nil
}

// Has reports whether the home has a file.
func (h Home) Has(name string) bool { return Home(filepath.Join(string(h), name)).Exists() }

// Write replaces a file of the home as a whole, for this user alone. A home that is gone is
// not made again.
func (h Home) Write(name string, data []byte) error {
	f, err := os.CreateTemp(string(h), name+".*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(string(h), name))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// MaxFile is the most bytes that Read takes.
const MaxFile = 64 << 10

// Read returns a file of the home. One that is longer than MaxFile or is not a regular file
// of this user is an error: tasks can put a pipe or a link there.
func (h Home) Read(name string) ([]byte, error) {
	return private.ReadFile(filepath.Join(string(h), name), MaxFile)
}

// Remove removes the home. Folders that cannot be written or entered are made so first. One
// that is gone is a success. It follows no link out of the home, also not one that is put
// there meanwhile.
func (h Home) Remove() error {
	above, err := os.OpenRoot(filepath.Dir(string(h)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer above.Close()
	name := filepath.Base(string(h))
	if err := above.RemoveAll(name); err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := unlock(above, name); err != nil {
		return err
	}
	return above.RemoveAll(name)
}

// unlock makes the folders of a home removable.
func unlock(above *os.Root, name string) error {
	if info, err := above.Lstat(name); err != nil || !info.IsDir() {
		return err
	}
	if err := above.Chmod(name, 0o700); err != nil {
		return err
	}
	home, err := above.OpenRoot(name)
	if err != nil {
		return err
	}
	defer home.Close()
	return fs.WalkDir(home.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			home.Chmod(path, 0o700) // before WalkDir reads it
		}
		return nil
	})
}
