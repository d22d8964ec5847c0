package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gputrain/gputrain/internal/ignore"
)

// An item is one thing to be sent.
type item struct {
	name   string      // its path in the tree, with slashes
	local  string      // its local path
	mode   fs.FileMode // kind and permission bits
	size   int64       // of a file
	mtime  time.Time
	target string // of a link
	sum    string // SHA-256 of a file, if it was computed

	root *os.Root // the folder that holds it, if any; else it is opened by local
	path string   // path in root
}

// scan lists the content of a folder, each folder before its content. See Upload for how links are treated. If git is
// set, .gitignore files count. What vanishes meanwhile is left out, and told to gone, unless that is nil. The items are valid
// while root, which is the folder dir, is open.
func scan(root *os.Root, dir string, exclude []string, git bool, links Links, gone *vanished) ([]item, error) {
	s := &scanner{root: root, dir: dir, links: links, gone: gone}
	walk := ignore.WalkAll
	if git {
		walk = ignore.Walk
	}
	if err := walk(dir, ignore.New(exclude), s.visit); err != nil {
		return nil, err
	}
	return s.items, s.leftOut.err("these, in " + dir + ", are absolute or lead out of it")
}

type scanner struct {
	root     *os.Root
	dir      string
	links    Links
	items    []item
	followed []string // links to folders that are sent, outer before inner
	leftOut  outside  // links that are an error
	gone     *vanished
}

func (s *scanner) visit(name string, d fs.DirEntry) error {
	if err := s.take(name, d); !s.gone.takes(name, err) {
		return err
	}
	return nil
}

func (s *scanner) take(name string, d fs.DirEntry) error {
	local := filepath.Join(s.dir, filepath.FromSlash(name))
	info, err := d.Info()
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		it := item{name: name, local: local}
		if s.follower(name) == "" {
			it.root, it.path = s.root, filepath.FromSlash(name)
		}
		s.add(it, info)
		return nil
	}
	target, err := os.Readlink(local)
	if errors.Is(err, syscall.EINVAL) {
		err = fmt.Errorf("%s %w", local, errReplaced) // it was a link when it was listed
	}
	if err != nil {
		return err
	}
	link := item{name: name, local: local, mode: fs.ModeSymlink | 0o777, target: filepath.ToSlash(target)}
	switch {
	case s.links == FollowOutside:
		return s.follow(link, target)
	case !leadsOut(s.root, filepath.FromSlash(name)):
		s.items = append(s.items, link)
	case s.links == RefuseOutside:
		s.leftOut.add(name, target)
	}
	return nil
}

// follow adds a link, or if it leads out, what it leads to.
func (s *scanner) follow(link item, target string) error {
	info, err := os.Stat(link.local)
	if errors.Is(err, fs.ErrNotExist) || s.staysInside(link.name, target) {
		s.items = append(s.items, link)
		return nil
	}
	if err != nil {
		return err
	}
	s.add(item{name: link.name, local: link.local}, info)
	if !info.IsDir() {
		return nil
	}
	if err := isLoop(link.local); err != nil {
		return err
	}
	s.followed = append(s.followed, link.name+"/")
	return ignore.ErrFollow
}

func (s *scanner) add(it item, info fs.FileInfo) {
	if kind := info.Mode().Type(); kind == 0 || kind == fs.ModeDir {
		it.mode, it.size, it.mtime = kind|info.Mode().Perm(), info.Size(), info.ModTime()
		s.items = append(s.items, it)
	}
}

// follower returns the innermost link to a folder through which a name was reached, with a slash at its end, or "".
func (s *scanner) follower(name string) string {
	for i := len(s.followed) - 1; i >= 0; i-- {
		if strings.HasPrefix(name, s.followed[i]) {
			return s.followed[i]
		}
	}
	return ""
}

// staysInside reports whether a link leads to a place in the same tree: the whole one, or the folder of another link
// through which it was reached.
func (s *scanner) staysInside(name, target string) bool {
	if filepath.IsAbs(target) || path.IsAbs(target) {
		return false
	}
	name = strings.TrimPrefix(name, s.follower(name))
	return filepath.IsLocal(filepath.Join(filepath.FromSlash(path.Dir(name)), target))
}

// isLoop refuses a link to a folder that contains the link.
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
