package output

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/private"
)

const (
	// resultsFolder, in the state directory, has a folder for each pool's results.
	resultsFolder = "results"
	// Earlier versions put a pool's results into the system's folder for temporary files, under oldResults and the
	// pool's ID.
	oldResults = "gputrain-results-"
)

// A Dir is a pool's folder for results. It has a folder for each attempt at a task that needs one, which only this user
// can enter. All are made when they are needed. It may be used from several goroutines.
type Dir struct {
	path string // absolute
	own  bool   // it is in the state directory, so it must be private to this user
	err  error

	mu    sync.Mutex
	names map[string]string // of attempts' folders that are not named by the attempt's ID
}

// NewDir returns the folder that the user has set by path. If path is empty, it is a new one in the state directory
// that state returns, with a name that cannot be guessed. NewDir makes no folder; an error of state is returned by the
// methods that need it.
func NewDir(pool, path string, state func() (string, error)) *Dir {
	d := &Dir{names: map[string]string{}}
	results, err := state()
	results = filepath.Join(results, resultsFolder)
	if path == "" {
		if err != nil {
			d.err = err
			return d
		}
		path = filepath.Join(results, pool+"-"+newToken())
	}
	d.path, d.err = filepath.Abs(path) // independent of a later Chdir
	d.own = err == nil && filepath.Dir(d.path) == results
	return d
}

// newToken returns a part of a name that cannot be guessed.
func newToken() string { return strings.ToLower(rand.Text()) }

// Path returns the folder's absolute path, or "" if there is no state directory to put it in.
func (d *Dir) Path() string { return d.path }

// KeptPath returns the path for Attach if an earlier program has put a pool's results at path. It is "" for a folder of
// an older version in the system's folder for temporary files, since every user can guess its name.
func KeptPath(pool, path string) string {
	if path == filepath.Join(os.TempDir(), oldResults+pool) {
		return ""
	}
	return path
}

// FindDirs returns the folders of this user with results, by the ID of their pool: those in a state directory and those
// of older versions in the system's folder for temporary files. With state == "" it returns the latter alone.
func FindDirs(state string) map[string][]string {
	found := map[string][]string{}
	add := func(parent string, idOf func(name string) (id string, ok bool)) {
		entries, _ := os.ReadDir(parent) // a folder that does not exist has none
		for _, e := range entries {
			id, ok := idOf(e.Name())
			if !ok {
				continue
			}
			if info, err := e.Info(); err == nil && private.Check(info) == nil {
				found[id] = append(found[id], filepath.Join(parent, e.Name()))
			}
		}
	}
	if state != "" {
		add(filepath.Join(state, resultsFolder), func(name string) (string, bool) {
			i := strings.LastIndexByte(name, '-') // the token has none
			return name[:max(i, 0)], i > 0
		})
	}
	add(os.TempDir(), func(name string) (string, bool) { return strings.CutPrefix(name, oldResults) })
	return found
}

// open opens the folder, and makes it if it does not exist.
func (d *Dir) open() (*os.Root, error) {
	err := d.err
	switch {
	case err != nil:
	case d.own:
		err = private.MakeDir(d.path)
	default:
		err = os.MkdirAll(d.path, 0o700)
	}
	if err != nil {
		return nil, err
	}
	return os.OpenRoot(d.path)
}

// Attempt makes the folder of an attempt, and returns its path.
func (d *Dir) Attempt(id string) (string, error) {
	root, err := d.open()
	if err != nil {
		return "", err
	}
	defer root.Close()
	name, err := d.folder(root, id)
	return filepath.Join(d.path, name), err
}

// create makes a file in the folder of an attempt, and returns its path too. It replaces one that an earlier program
// has left there.
func (d *Dir) create(id, base string) (*os.File, string, error) {
	root, err := d.open()
	if err != nil {
		return nil, "", err
	}
	defer root.Close()
	name, err := d.folder(root, id)
	if err != nil {
		return nil, "", err
	}
	name = filepath.Join(name, base)
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return f, filepath.Join(d.path, name), err
}

// folder makes the folder of an attempt and returns its name. One that an earlier program has made is used again. One
// that is not private to this user is left alone, and the attempt's has another name.
func (d *Dir) folder(root *os.Root, id string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := d.nameLocked(id)
	err := root.Mkdir(name, 0o700)
	switch {
	case !errors.Is(err, fs.ErrExist):
		return name, err
	case isPrivate(root, name):
		return name, nil
	}
	name = id + "-" + newToken()
	if err := root.Mkdir(name, 0o700); err != nil {
		return "", err
	}
	d.names[id] = name
	return name, nil
}

// Drop removes the folder of an attempt that is followed by another one.
func (d *Dir) Drop(id string) {
	if d.err != nil {
		return
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return
	}
	defer root.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if name := d.nameLocked(id); isPrivate(root, name) {
		root.RemoveAll(name)
		delete(d.names, id)
	}
}

// DropEmpty removes the folder of an attempt if it is empty.
func (d *Dir) DropEmpty(id string) {
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return
	}
	defer root.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if root.Remove(d.nameLocked(id)) == nil {
		delete(d.names, id)
	}
}

// nameLocked returns the name of the folder of an attempt. d.mu is held.
func (d *Dir) nameLocked(id string) string {
	if name := d.names[id]; name != "" {
		return name
	}
	return id
}

// isPrivate reports whether a name is a folder that is private to this user.
func isPrivate(root *os.Root, name string) bool {
	info, err := root.Lstat(name)
	return err == nil && private.Check(info) == nil
}
