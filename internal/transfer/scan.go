package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/ignore"
)

// An item is one thing to be sent.
type item struct {
	name   string      // its place in the tree, with slashes
	local  string      // where it is here
	mode   fs.FileMode // its kind and permission bits
	size   int64       // of a file
	mtime  time.Time
	target string // of a link
	sum    string // SHA-256 of a file, where it was asked for
}

// scan lists what is in a folder, each folder before what is in it. See Upload
// for how links are treated. Git says whether .gitignore files count.
func scan(root string, exclude []string, git bool) ([]item, error) {
	s := &scanner{root: root}
	walk := ignore.WalkAll
	if git {
		walk = ignore.Walk
	}
	err := walk(root, ignore.New(exclude), s.visit)
	return s.items, err
}

type scanner struct {
	root     string
	items    []item
	followed []string // links whose folders are sent, outer before inner
}

func (s *scanner) visit(name string, d fs.DirEntry) error {
	local := filepath.Join(s.root, filepath.FromSlash(name))
	info, err := d.Info()
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		s.add(name, local, info)
		return nil
	}
	target, err := os.Readlink(local)
	if err != nil {
		return err
	}
	info, err = os.Stat(local)
	if errors.Is(err, fs.ErrNotExist) || s.staysInside(name, target) {
		s.items = append(s.items, item{name: name, local: local, mode: fs.ModeSymlink | 0o777, target: filepath.ToSlash(target)})
		return nil
	}
	if err != nil {
		return err
	}
	s.add(name, local, info)
	if !info.IsDir() {
		return nil
	}
	if err := isLoop(local); err != nil {
		return err
	}
	s.followed = append(s.followed, name+"/")
	return ignore.ErrFollow
}

func (s *scanner) add(name, local string, info fs.FileInfo) {
	if kind := info.Mode().Type(); kind == 0 || kind == fs.ModeDir {
		s.items = append(s.items, item{name: name, local: local, mode: kind | info.Mode().Perm(), size: info.Size(), mtime: info.ModTime()})
	}
}

// staysInside reports whether a link leads to a place in the same tree: the
// whole one, or the folder of another link through which it was reached.
func (s *scanner) staysInside(name, target string) bool {
	if filepath.IsAbs(target) || path.IsAbs(target) {
		return false
	}
	for i := len(s.followed) - 1; i >= 0; i-- {
		if below, ok := strings.CutPrefix(name, s.followed[i]); ok {
			name = below
			break
		}
	}
	return filepath.IsLocal(filepath.Join(filepath.FromSlash(path.Dir(name)), target))
}

// isLoop refuses a link to a folder that the link itself is in.
func isLoop(link string) error {
	to, err := filepath.EvalSymlinks(link)
	if err != nil {
		return err
	}
	from, err := filepath.EvalSymlinks(filepath.Dir(link))
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(to, from); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("%s leads to %s, which it is in: leave it out", link, to)
	}
	return nil
}
