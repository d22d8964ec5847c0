package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// homePrefix begins the name of every home; the node's ID follows.
const homePrefix = "gputrain-"

// markFile, in a home, says whose it is.
const markFile = ".gputrain-node"

// A mark says which pool and program made a home.
type mark struct {
	Pool  string `json:"pool"`
	Owner string `json:"owner"`
	Rank  int    `json:"rank"`
}

var idPattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// validID reports whether id can be a node's: never one that leads out of the
// directory of homes.
func validID(id string) bool { return idPattern.MatchString(id) }

func homePath(dir, id string) string { return filepath.Join(dir, homePrefix+id) }

// makeHome makes a home that only this user can enter. It does not take over
// one that exists, and leaves nothing where it fails.
func makeHome(home string, m mark) error {
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(m)
	if err == nil {
		err = os.WriteFile(filepath.Join(home, markFile), data, 0o600)
	}
	if err != nil {
		removeHome(home)
	}
	return err
}

func readMark(home string) (mark, error) {
	var m mark
	data, err := os.ReadFile(filepath.Join(home, markFile))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(home, markFile), err)
	}
	return m, nil
}

// homesOf returns the IDs of a pool's nodes that have a home, also of nodes
// that another program made. A home that lost its mark belongs to the pool that
// its name begins with.
func homesOf(dir, poolID string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		id, isHome := strings.CutPrefix(e.Name(), homePrefix)
		if !isHome || !e.IsDir() || !validID(id) || !strings.HasPrefix(id, poolID+"-") {
			continue
		}
		if m, err := readMark(filepath.Join(dir, e.Name())); err == nil && m.Pool != poolID {
			continue // pool "a" is not to take the nodes of pool "a-b"
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// removeHome removes a home whatever a task has made of it: directories that
// cannot be written or entered are made so first. One that is gone is a success.
func removeHome(home string) error {
	err := os.RemoveAll(home)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			os.Chmod(path, 0o700) // before WalkDir reads it
		}
		return nil
	})
	return os.RemoveAll(home)
}
