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

	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/internal/private"
)

// homes is the configured folder for nodes' homes. If other users can write to it, homes are in
// a private folder of this user within it, so that others cannot take, redirect or read any
// name there.
type homes string

// ownName returns the name of that folder. If another user has made it, names that replace it
// begin with it.
func ownName() string { return "gputrain.local-" + strconv.Itoa(os.Getuid()) }

// isOwn reports whether no other user can write to the folder.
func (h homes) isOwn() (bool, error) {
	info, err := os.Stat(string(h))
	return err == nil && private.Check(info) == nil, err
}

// own returns the private folder of this user, or "" if there is none yet. Every program of
// this user finds the same one.
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

// make returns the private folder of this user, and makes a missing one.
func (h homes) make() (string, error) {
	name := ownName()
	for {
		if own, err := h.own(); own != "" || err != nil {
			return own, err
		}
		path := filepath.Join(string(h), name)
		err := os.Mkdir(path, 0o700)
		if err == nil {
			err = private.Dir(path) // it fails on a disk without owners
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		name = ownName() + "-" + strings.ToLower(rand.Text()) // in case that is another user's
	}
}

// tidy removes the private folder if it is empty.
func (h homes) tidy() {
	if own, err := h.own(); err == nil && own != "" && own != string(h) {
		os.Remove(own)
	}
}

// folders returns the folders that may have homes of this user: the private folder, and those
// of older versions.
func (h homes) folders() ([]string, error) {
	own, err := h.own()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Compact([]string{own, string(h)}), func(dir string) bool { return dir == "" }), nil
}

// newHome makes a home for a node.
func (h homes) newHome(id string, m mark, hostKey []byte) (machine.Home, error) {
	for {
		own, err := h.make()
		if err != nil {
			return "", err
		}
		home := machine.Home(homePath(own, id))
		if err = makeHome(home, m, hostKey); errors.Is(err, fs.ErrNotExist) && !machine.Home(own).Exists() {
			continue // another program has found it empty and removed it
		}
		return home, err
	}
}

// find returns the home of a node, or "" if it has none. It ignores a folder of that name from
// another user.
func (h homes) find(id string) machine.Home {
	dirs, _ := h.folders()
	for _, dir := range dirs {
		if home := homePath(dir, id); h.holds(home) {
			return machine.Home(home)
		}
	}
	return ""
}

// holds reports whether a folder is this user's. Next to those of other users it must be as
// makeHome left it; elsewhere a task may have changed its permissions.
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

// hasOther reports whether a process has the token of another node than the one in its name: a
// task can change the name.
func (h homes) hasOther(m marks) bool {
	if m.token == "" {
		return false
	}
	all, _ := h.ofPool("")
	for id, home := range all {
		if home.mark.Token == m.token {
			return id != m.node
		}
	}
	return false
}

// A home is a home that a node of this user has, or had.
type home struct {
	path string
	mark mark
}

// ofPool returns a pool's homes by the IDs of their nodes, including nodes that another program
// made. A home that lost its mark belongs to the pool in its name's prefix. An empty poolID
// means every pool of this user.
func (h homes) ofPool(poolID string) (map[string]home, error) {
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
			m, err := readMark(machine.Home(path))
			switch {
			case err != nil && poolID == "":
				m = mark{Pool: poolOf(id)}
			case err != nil:
				m = mark{Pool: poolID}
			}
			if poolID == "" || m.Pool == poolID && strings.HasPrefix(id, poolID+"-") { // pool "a" must not take the nodes of pool "a-b"
				found[id] = home{path, m}
			}
		}
	}
	return found, nil
}
