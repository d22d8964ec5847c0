package local

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/private"
)

// homes is the folder that was named for nodes' homes. Where other users can write to
// it, homes are in a folder of this user alone within it, so that no name in it can be
// taken, redirected or looked into by others.
type homes string

// ownName is the name of that folder, and begins the names of those that take its place
// where another user has made it.
func ownName() string { return "gputrain.local-" + strconv.Itoa(os.Getuid()) }

// isOwn reports whether no other user can write to the folder itself.
func (h homes) isOwn() (bool, error) {
	info, err := os.Stat(string(h))
	return err == nil && private.Check(info) == nil, err
}

// own returns the folder of this user alone, or "" where there is none yet. Every
// program of this user finds the same one.
func (h homes) own() (string, error) {
	if own, err := h.isOwn(); own || err != nil {
		return string(h), err
	}
	entries, err := os.ReadDir(string(h)) // sorted
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		path := filepath.Join(string(h), e.Name())
		if named := e.Name() == ownName() || strings.HasPrefix(e.Name(), ownName()+"-"); named && private.Dir(path) == nil {
			return path, nil
		}
	}
	return "", nil
}

// make returns the folder of this user alone, and makes it where there is none.
func (h homes) make() (string, error) {
	name := ownName()
	for {
		if own, err := h.own(); own != "" || err != nil {
			return own, err
		}
		path := filepath.Join(string(h), name)
		err := os.Mkdir(path, 0o700)
		if err == nil {
			err = private.Dir(path) // a disk that knows no owners makes none for one user
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		name = ownName() + "-" + strings.ToLower(rand.Text()) // should that be another user's
	}
}

// tidy removes the folder of this user alone if nothing is in it.
func (h homes) tidy() {
	if own, err := h.own(); err == nil && own != "" && own != string(h) {
		os.Remove(own)
	}
}

// folders returns where homes of this user may be: in the folder of this user alone,
// and where older versions made them.
func (h homes) folders() ([]string, error) {
	own, err := h.own()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Compact([]string{own, string(h)}), func(dir string) bool { return dir == "" }), nil
}

// newHome makes a home for a node.
func (h homes) newHome(id string, m mark, hostKey []byte) (string, error) {
	for {
		own, err := h.make()
		if err != nil {
			return "", err
		}
		home := homePath(own, id)
		if err = makeHome(home, m, hostKey); errors.Is(err, fs.ErrNotExist) && !exists(own) {
			continue // another program has found it empty, and removed it
		}
		return home, err
	}
}

// find returns the home of a node, or "" where it has none. What another user has made
// of its name is none.
func (h homes) find(id string) string {
	dirs, _ := h.folders()
	for _, dir := range dirs {
		if home := homePath(dir, id); h.holds(home) {
			return home
		}
	}
	return ""
}

// holds reports whether a folder is this user's. Beside those of other users it must be
// as makeHome has left it; elsewhere a task may have changed its rights.
func (h homes) holds(home string) bool {
	info, err := os.Lstat(home)
	if err != nil || !info.IsDir() || !private.Owned(info) {
		return false
	}
	if filepath.Dir(home) != string(h) {
		return true
	}
	own, err := h.isOwn()
	return err == nil && own || private.Check(info) == nil
}

// hasOther reports whether a process has the token of another node than the one that it
// names: a task can change the name.
func (h homes) hasOther(p marked) bool {
	if p.token == "" {
		return false
	}
	all, _ := h.of("")
	for id, home := range all {
		if home.mark.Token == p.token {
			return id != p.node
		}
	}
	return false
}

// A home is one that a node of this user has, or had.
type home struct {
	path string
	mark mark
}

// of returns a pool's homes by the IDs of their nodes, also of nodes that another
// program made. A home that lost its mark belongs to the pool that its name begins
// with. An empty poolID stands for every pool of this user.
func (h homes) of(poolID string) (map[string]home, error) {
	dirs, err := h.folders()
	if err != nil {
		return nil, err
	}
	found := map[string]home{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			id, isHome := strings.CutPrefix(e.Name(), homePrefix)
			path := filepath.Join(dir, e.Name())
			if _, known := found[id]; known || !isHome || !validID(id) || !strings.HasPrefix(id, poolID) || !h.holds(path) {
				continue
			}
			m, err := readMark(path)
			switch {
			case err != nil && poolID == "":
				m = mark{Pool: poolOf(id)}
			case err != nil:
				m = mark{Pool: poolID}
			}
			if poolID == "" || m.Pool == poolID && strings.HasPrefix(id, poolID+"-") { // pool "a" is not to take the nodes of pool "a-b"
				found[id] = home{path, m}
			}
		}
	}
	return found, nil
}
