// Package owner says which program has a pool, and whether that program still
// runs. Host, process id and start are compared together: a process id alone
// is given to another program sooner or later, and on another machine it means
// nothing.
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

// An Owner is one process on one machine.
type Owner struct {
	// Host is the machine's name and eight digits for what process ids count
	// within: its boot and, on Linux, its PID namespace. So two containers with
	// one host name are two hosts, and so is a machine before and after a boot.
	Host string
	// PID is the process id.
	PID int
	// Start is when the process began, in the system's own unit. It tells it
	// from an earlier process with the same id. "0" means that it cannot be told.
	Start string
}

// Self returns the process that asks. It costs nothing after the first call.
func Self() Owner { return self() }

var self = sync.OnceValue(func() Owner {
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "unknown"
	}
	machine, known := machine()
	if !known {
		machine = rand.Text() // nobody takes this machine for theirs, and a process id for one of ours
	}
	sum := sha256.Sum256([]byte(machine))
	pid := os.Getpid()
	started, _ := find(pid)
	return Owner{Host: plain(name) + "." + hex.EncodeToString(sum[:4]), PID: pid, Start: started}
})

// String returns "host/pid/start" in letters, digits, dots, dashes and slashes,
// which is what tags of every cloud can hold.
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

// SameHost reports whether a process of o would have the process ids that this one sees.
func (o Owner) SameHost() bool { return o.Host == Self().Host }

// Alive reports whether the process still runs. Where that cannot be told,
// because it is on another machine or hidden from this user, known is false.
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

// What can be said of a process id.
type presence int

const (
	running presence = iota
	gone             // no such process, or one that has ended and was not waited for
	hidden           // there is one, and no more can be told
)

// plain replaces what a tag might not hold.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		}
		return '-'
	}, s)
}
