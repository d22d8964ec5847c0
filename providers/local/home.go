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
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/private"
)

// homePrefix begins the name of every home; the node's ID follows.
const homePrefix = "gputrain-"

// markFile, in a home, says whose it is.
const markFile = ".gputrain-node"

// A mark says which pool and program made a home, and until when they want it.
// Those of older versions have neither a token nor what follows the rank.
type mark struct {
	Pool    string    `json:"pool"`
	Token   string    `json:"token,omitempty"` // that the node's processes carry
	Owner   string    `json:"owner"`
	Rank    int       `json:"rank"`
	Lease   float64   `json:"lease,omitempty"` // seconds
	Expires time.Time `json:"expires,omitzero"`
	Created time.Time `json:"created,omitzero"`
}

// of returns the mark as the pool has it now. When it was made stays.
func (m mark) of(pool gputrain.PoolInfo) mark {
	m.Pool, m.Owner = pool.ID, pool.Owner
	m.Lease, m.Expires = pool.Lease.Seconds(), pool.Expires
	return m
}

// resource is what the mark says of what is held for a pool.
func (m mark) resource(kind, id, node string) gputrain.Resource {
	return gputrain.Resource{
		Provider: name, Kind: kind, ID: id, Name: node, HourlyUSD: gputrain.USD(0),
		Pool: m.Pool, Owner: m.Owner, Created: m.Created,
		Lease: time.Duration(m.Lease * float64(time.Second)), Expires: m.Expires,
	}
}

var idPattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// validID reports whether id can be a node's: never one that leads out of the
// directory of homes.
func validID(id string) bool { return idPattern.MatchString(id) }

func homePath(dir, id string) string { return filepath.Join(dir, homePrefix+id) }

// makeHome makes a home that only this user can enter. It does not take over
// one that exists, and leaves nothing where it fails. The mark comes last, so
// that a home that has one is whole.
func makeHome(home string, m mark, hostKey []byte) error {
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	err := writeFile(home, hostKeyFile, hostKey)
	if err == nil {
		err = writeMark(home, m)
	}
	if err != nil {
		removeHome(home)
	}
	return err
}

func writeMark(home string, m mark) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return writeFile(home, markFile, data)
}

// writeFile replaces a file of a home, whole, for this user alone. A home that
// is gone is not made again.
func writeFile(home, base string, data []byte) error {
	f, err := os.CreateTemp(home, base+".*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(home, base))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// markBytes bounds what is read of a mark, and of a host key: tasks can write to both.
const markBytes = 64 << 10

func readMark(home string) (mark, error) {
	var m mark
	data, err := private.ReadFile(filepath.Join(home, markFile), markBytes)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(home, markFile), err)
	}
	return m, nil
}

// poolOf guesses the pool from the name of a node: what comes before the rank.
func poolOf(id string) string {
	pool := strings.TrimRight(id, "0123456789")
	if pool, found := strings.CutSuffix(pool, "-"); found && pool != "" && len(pool)+1 < len(id) {
		return pool
	}
	return id
}

// removeHome removes a home whatever a task has made of it: directories that
// cannot be written or entered are made so first. One that is gone is a success. It
// follows no link out of the home, also not one that is put there meanwhile.
func removeHome(home string) error {
	above, err := os.OpenRoot(filepath.Dir(home))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer above.Close()
	name := filepath.Base(home)
	if err := above.RemoveAll(name); err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := unlock(above, name); err != nil {
		return err
	}
	return above.RemoveAll(name)
}

// unlock makes the directories of a home such that it can be removed.
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
