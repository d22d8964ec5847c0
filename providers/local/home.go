package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/providers/driver"
)

// homePrefix begins the name of every home; the node's ID follows.
const homePrefix = "gputrain-"

// markFile, in a home, holds its mark.
const markFile = ".gputrain-node"

// hostKeyFile, in a home, is the private key of its server, in OpenSSH's PEM form, which only
// this user can read. With it another program can serve the home after its own program was
// killed. It ends with the home.
const hostKeyFile = ".gputrain-hostkey"

// A mark identifies the pool and program of a home, and the end of its lease. Marks of older
// versions have no token and nothing after the rank.
type mark struct {
	Pool    string    `json:"pool"`
	Token   string    `json:"token,omitempty"` // the value of tokenEnv in the node's processes
	Owner   string    `json:"owner"`
	Rank    int       `json:"rank"`
	Lease   float64   `json:"lease,omitempty"` // seconds
	Expires time.Time `json:"expires,omitzero"`
	Created time.Time `json:"created,omitzero"`
	// GPUs are the indices of the node's own GPUs, and Accelerator what they are. A node without
	// any may use all.
	GPUs        []string                 `json:"gpus,omitempty"`
	Accelerator accelerators.Accelerator `json:"accelerator,omitzero"`
}

// renewed returns the mark with the pool's present owner and lease. It keeps the time of
// creation.
func (m mark) renewed(pool driver.PoolInfo) mark {
	m.Pool, m.Owner = pool.ID, pool.Owner
	m.Lease, m.Expires = pool.Lease.Seconds(), pool.Expires
	return m
}

// resource describes a thing of a pool by the mark.
func (m mark) resource(kind, id, node string) driver.Resource {
	return driver.Resource{
		Provider: name, Kind: kind, ID: id, Name: node, HourlyUSD: driver.USD(0),
		Pool: m.Pool, Owner: m.Owner, Created: m.Created,
		Lease: time.Duration(m.Lease * float64(time.Second)), Expires: m.Expires,
	}
}

var idPattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// validID reports whether id can be a node's. It must not lead out of the directory of homes.
func validID(id string) bool { return idPattern.MatchString(id) }

func homePath(dir, id string) string { return filepath.Join(dir, homePrefix+id) }

// makeHome makes a home. It does not take over an existing one, and leaves nothing if it fails.
// It writes the mark last, so that a home with a mark is complete.
func makeHome(home machine.Home, m mark, hostKey []byte) error {
	if err := home.Make(); err != nil {
		return err
	}
	err := home.Write(hostKeyFile, hostKey)
	if err == nil {
		err = writeMark(home, m)
	}
	if err != nil {
		home.Remove()
	}
	return err
}

func writeMark(home machine.Home, m mark) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return home.Write(markFile, data)
}

func readMark(home machine.Home) (mark, error) {
	var m mark
	data, err := home.Read(markFile)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(string(home), markFile), err)
	}
	return m, nil
}

// keptHostKey returns the host key of an existing home.
func keptHostKey(home machine.Home) (string, error) {
	kept, err := home.Read(hostKeyFile)
	if err == nil && len(kept) == 0 {
		err = errors.New("the file is empty")
	}
	return string(kept), err
}

// poolOf derives the pool from the name of a node: the part before the rank.
func poolOf(id string) string {
	pool := strings.TrimRight(id, "0123456789")
	if pool, found := strings.CutSuffix(pool, "-"); found && pool != "" && len(pool)+1 < len(id) {
		return pool
	}
	return id
}
