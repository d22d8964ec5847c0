package worker

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// NodeFacts describe a node and its pool to functions. A client sends them when it connects.
type NodeFacts struct {
	// Pool is the pool's ID.
	Pool string
	// Rank is the node's index in the pool.
	Rank int
	// PrivateAddr and PublicAddr are the node's addresses, if they are known.
	PrivateAddr, PublicAddr string
	// Scratch is the directory of the scratch directories. Empty means that attempts have none.
	Scratch string
}

// Members are the addresses of a call's nodes, by rank, as the nodes reach each other. They are sent once per
// connection, however many calls refer to them.
type Members struct {
	addrs []string
	key   string
}

// NewMembers returns the membership of nodes with these addresses.
func NewMembers(addrs ...string) *Members {
	return &Members{addrs: addrs, key: strings.Join(addrs, "\x00")}
}

// Place describes a call to its function.
type Place struct {
	// Rank is the node's index among the call's nodes.
	Rank int
	// Slot is the node's slot that the call runs in, or the number in place of it of a call that has accelerators instead.
	// Accelerators are the devices of either.
	Slot         int
	Accelerators []string
	// Units are those of the node that a call without a slot holds, for a program that adopts it.
	Units string
	// TaskID names the task, or the training, and Attempt counts its attempts.
	TaskID  string
	Attempt int
	// MasterPort is the port at which a training's nodes meet, or 0.
	MasterPort int
	// Checkpoints is the folder of the task's checkpoints, and Resume the one to go on from. Both may be empty.
	Checkpoints, Resume string
}

// Meta is everything that a function can know about where it runs.
type Meta struct {
	Node  NodeFacts
	Addrs []string // the addresses in Members
	Place Place

	scratch  *scratch
	reporter *reporter
}

// Scratch returns the attempt's own directory, and makes it at the first call. It is removed once the client has
// released the call.
func (m Meta) Scratch() (string, error) {
	if m.scratch == nil {
		return "", nil
	}
	return m.scratch.make()
}

type metaKey struct{}

// ContextWithMeta returns a context that carries m.
func ContextWithMeta(ctx context.Context, m *Meta) context.Context {
	return context.WithValue(ctx, metaKey{}, m)
}

// MetaFrom returns the Meta that the context of a call carries. It reports false outside of a call.
func MetaFrom(ctx context.Context) (Meta, bool) {
	if ctx == nil {
		return Meta{}, false
	}
	m, ok := ctx.Value(metaKey{}).(*Meta)
	if !ok {
		return Meta{}, false
	}
	without := *m
	without.reporter = nil // it is for Report alone
	return without, true
}

// ScratchName returns the name of an attempt's directory in NodeFacts.Scratch.
func ScratchName(p Place) string {
	return p.TaskID + "-a" + strconv.Itoa(p.Attempt)
}

// MarkSuffix, after the name of a scratch directory, makes the name of the file that marks when the attempt began.
const MarkSuffix = ".start"

// A scratch is an attempt's directory. It is made when it is first asked for, since most functions need none.
type scratch struct {
	parent string
	place  Place

	mu     sync.Mutex
	made   bool
	marked bool
	gone   bool
}

// dir returns the directory's path.
func (s *scratch) dir() string { return filepath.Join(s.parent, ScratchName(s.place)) }

// mark makes the directory, and a file that is as old as the attempt.
func (s *scratch) mark() error {
	if _, err := s.make(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marked = true
	return os.WriteFile(s.dir()+MarkSuffix, nil, 0o600)
}

func (s *scratch) make() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := s.dir()
	if s.made || s.gone {
		return dir, nil
	}
	// A directory that an earlier generation of the pool left under this name is not this attempt's.
	if err := os.RemoveAll(dir); err != nil {
		return dir, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return dir, err
	}
	s.made = true
	return dir, nil
}

// remove removes the directory for good.
func (s *scratch) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made {
		_ = os.RemoveAll(s.dir()) // the pool's end removes what is left
	}
	if s.marked {
		_ = os.Remove(s.dir() + MarkSuffix)
	}
	s.made, s.gone = false, true
}

func (s *scratch) wasMade() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}

// newScratch returns nil if attempts have no scratch directories, or the name is invalid.
func newScratch(facts NodeFacts, p Place) *scratch {
	if facts.Scratch == "" || p.TaskID == "" || p.TaskID != filepath.Base(p.TaskID) {
		return nil
	}
	return &scratch{parent: facts.Scratch, place: p}
}
