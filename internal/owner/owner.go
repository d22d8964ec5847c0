// Package owner identifies the program that has a pool, and reports whether it still runs. It
// compares host, process ID and start time together, because process IDs are used again, and mean
// nothing on another machine.
package owner

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// An Owner identifies a process on a machine.
type Owner struct {
	// Host is the machine's name, followed by eight digits that identify its boot and, on Linux,
	// its PID namespace. So two containers with the same host name are different hosts, and so is a
	// machine before and after a boot.
	Host string
	// PID is the process ID.
	PID int
	// Start is when the process began, in the system's own unit. It distinguishes the process from
	// an earlier one with the same ID. "0" means unknown.
	Start string
}

// Self returns the owner that is this process. The first result is cached.
func Self() Owner { return self() }

var self = sync.OnceValue(func() Owner {
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "unknown"
	}
	machine, known := machine()
	if !known {
		machine = rand.Text() // no other machine has the same one, so no process ID of this machine is taken for one there
	}
	sum := sha256.Sum256([]byte(machine))
	pid := os.Getpid()
	started, _ := find(pid)
	return Owner{Host: plain(name) + "." + hex.EncodeToString(sum[:4]), PID: pid, Start: started}
})

// String returns "host/pid/start" in letters, digits, dots, dashes and slashes, which every cloud's
// tags can hold.
func (o Owner) String() string {
	return plain(o.Host) + "/" + strconv.Itoa(o.PID) + "/" + plain(o.Start)
}

// Parse reads what String returned.
func Parse(s string) (Owner, error) {
	host, rest, _ := strings.Cut(s, "/")
	pid, start, _ := strings.Cut(rest, "/")
	n, err := strconv.Atoi(pid)
	if o := (Owner{Host: host, PID: n, Start: start}); err == nil && n > 0 && host != "" && start != "" && o.String() == s {
		return o, nil
	}
	return Owner{}, fmt.Errorf("%q is not an owner in the form host/pid/start", s)
}

// SameHost reports whether o's process IDs are comparable with those that this process sees.
func (o Owner) SameHost() bool { return o.Host == Self().Host }

// Alive reports whether the process still runs. If the process is on another machine, or hidden
// from this user, known is false.
func (o Owner) Alive() (alive, known bool) {
	if !o.SameHost() {
		return false, false
	}
	started, is := find(o.PID)
	switch {
	case is == gone:
		return false, true
	case is == hidden || started == "0" || o.Start == "0":
		return false, false
	}
	return started == o.Start, true
}

// A presence describes a process, as far as the system reports it.
type presence int

const (
	running presence = iota
	gone             // there is no such process, or a zombie
	hidden           // the process may exist, but nothing more is known
)

// plain replaces characters that a tag may not hold.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		}
		return '-'
	}, s)
}
