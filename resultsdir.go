package gputrain

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/private"
)

// resultsFolder, in the state directory, has a folder for each pool's results.
const resultsFolder = "results"

// A resultsDir is where what is too long for memory goes, made once it is needed: for
// each attempt at a task a folder that only this user can enter.
type resultsDir struct {
	path string // absolute, and not changed
	own  bool   // it is in the state directory: it must be this user's alone
	err  error

	memory *outputMemory // for what need not go there

	mu    sync.Mutex
	names map[string]string // of attempts' folders that could not have the attempt's ID for a name
}

// newResultsDir returns the folder that a user has named, or without a path a new one
// in the state directory, with a name that cannot be guessed.
func newResultsDir(poolID, path string, state StateDir, l Limits) *resultsDir {
	d := &resultsDir{names: map[string]string{}, memory: newOutputMemory(l)}
	results, err := state.path()
	results = filepath.Join(results, resultsFolder)
	if path == "" {
		if err != nil {
			d.err = err
			return d
		}
		path = filepath.Join(results, poolID+"-"+newToken())
	}
	d.path, d.err = filepath.Abs(path) // a later Chdir moves nothing
	d.own = err == nil && filepath.Dir(d.path) == results
	return d
}

// keptResultsDir is the folder that an earlier program of the pool has put results in,
// and "" for one in the system's folder for temporary files, which every user can guess:
// versions before this one took that if users named none.
func keptResultsDir(poolID, path string) string {
	if path == filepath.Join(os.TempDir(), oldResults+poolID) {
		return ""
	}
	return path
}

// oldResults begins the name of a pool's folder of results in the system's folder for
// temporary files, where versions before this one made it.
const oldResults = "gputrain-results-"

// results returns the folders of this user that results are in, by the ID of their pool.
func (d StateDir) results() map[string][]string {
	found := map[string][]string{}
	add := func(parent string, idOf func(name string) (id string, ok bool)) {
		entries, _ := os.ReadDir(parent) // of a folder that is not there there are none
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
	if path, err := d.path(); err == nil {
		add(filepath.Join(path, resultsFolder), func(name string) (string, bool) {
			i := strings.LastIndexByte(name, '-') // before the token, which has none
			return name[:max(i, 0)], i > 0
		})
	}
	add(os.TempDir(), func(name string) (string, bool) { return strings.CutPrefix(name, oldResults) })
	return found
}

// open makes the folder where it is not there, and opens it.
func (d *resultsDir) open() (*os.Root, error) {
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

// attempt returns the folder of one attempt at a task, and makes it.
func (d *resultsDir) attempt(id string) (string, error) {
	root, err := d.open()
	if err != nil {
		return "", err
	}
	defer root.Close()
	name, err := d.folder(root, id)
	return filepath.Join(d.path, name), err
}

// create makes a file in the folder of an attempt, in place of one that an earlier
// program has left there, and returns its path too.
func (d *resultsDir) create(id, base string) (*os.File, string, error) {
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

// folder makes the folder of an attempt, unless it is there: an earlier program's, in
// a folder that users have named. What is not this user's alone is left as it is, and
// the folder has another name.
func (d *resultsDir) folder(root *os.Root, id string) (string, error) {
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

// drop removes what an attempt left that is not the last.
func (d *resultsDir) drop(id string) {
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

// dropEmpty removes an attempt's folder if nothing was put into it.
func (d *resultsDir) dropEmpty(id string) {
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

func (d *resultsDir) nameLocked(id string) string {
	if name := d.names[id]; name != "" {
		return name
	}
	return id
}

// isPrivate reports whether a name is a folder of this user alone.
func isPrivate(root *os.Root, name string) bool {
	info, err := root.Lstat(name)
	return err == nil && private.Check(info) == nil
}
