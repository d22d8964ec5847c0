package ignore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/gputrain/gputrain/internal/bounded"
)

// ErrFollow, returned by a WalkFunc for a link to a folder, makes the walk continue inside that
// folder.
var ErrFollow = errors.New("follow this link")

// A WalkFunc is called with one path of a tree, relative to its root and with
// slashes. For a folder it may return fs.SkipDir, for a link ErrFollow. Any
// other error ends the walk.
type WalkFunc func(path string, d fs.DirEntry) error

// Walk calls fn for everything below root that neither m nor a .gitignore file of a folder on the
// way excludes: for a folder before its entries, in the order of the names. A folder that is removed meanwhile has no entries. Like git, it reads no
// .gitignore above root and skips every .git.
func Walk(root string, m *Matcher, fn WalkFunc) error {
	return walker{root, fn, true}.walk("", m)
}

// WalkAll is like Walk, but only m excludes files.
func WalkAll(root string, m *Matcher, fn WalkFunc) error {
	return walker{root, fn, false}.walk("", m)
}

type walker struct {
	root string
	fn   WalkFunc
	git  bool // treat .git and .gitignore as git does
}

// maxRules bounds a .gitignore, in bytes: who made the folder may be a stranger.
const maxRules = 16 << 20

func readRules(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rules, err := bounded.ReadAll(f, maxRules)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return rules, err
}

func (w walker) walk(dir string, m *Matcher) error {
	real := filepath.Join(w.root, filepath.FromSlash(dir))
	entries, err := os.ReadDir(real)
	if dir != "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
		return nil // it was removed since it was listed
	}
	if err != nil {
		return err
	}
	for _, d := range entries {
		if !w.git || d.Name() != ".gitignore" || !d.Type().IsRegular() {
			continue
		}
		file, err := readRules(filepath.Join(real, d.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // an editor is saving it
		}
		if err != nil {
			return err
		}
		m = m.within(dir, file)
	}
	for _, d := range entries {
		if err := w.visit(path.Join(dir, d.Name()), d, m); err != nil {
			return err
		}
	}
	return nil
}

func (w walker) visit(name string, d fs.DirEntry, m *Matcher) error {
	folder := isFolder(d)
	if w.git && d.Name() == ".git" || m.matchOne(name, folder) {
		return nil
	}
	switch err := w.fn(name, d); {
	case errors.Is(err, fs.SkipDir) && folder:
		return nil
	case errors.Is(err, ErrFollow) && !folder:
		return w.walk(name, m)
	case err != nil:
		return err
	}
	if folder {
		return w.walk(name, m)
	}
	return nil
}
