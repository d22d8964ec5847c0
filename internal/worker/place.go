package worker

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// NodeFacts are what functions can know of their node and of the pool around
// it. A client sends them when it connects.
type NodeFacts struct {
	// Pool is the pool's ID.
	Pool string
	// Rank is the node's index in the pool.
	Rank int
	// PrivateAddr and PublicAddr are the node's addresses, where they are known.
	PrivateAddr, PublicAddr string
	// Scratch is the directory in which attempts have theirs. Empty means that
	// they have none.
	Scratch string
}

// Members are the addresses of the nodes of a call, by rank, as the nodes
// reach each other. They are sent once per connection, however many calls
// refer to them.
type Members struct {
	addrs []string
	key   string
}

// NewMembers returns a membership.
func NewMembers(addrs ...string) *Members {
	return &Members{addrs: addrs, key: strings.Join(addrs, "\x00")}
}

// Len returns how many nodes there are.
func (m *Members) Len() int { return len(m.addrs) }

// Place is what a function can know of its own call.
type Place struct {
	// Rank is the node's index among the call's nodes.
	Rank int
	// Slot is which of the node's slots the call runs in, and Accelerators the
	// devices that are that slot's.
	Slot         int
	Accelerators []string
	// TaskID names the task, and Attempt counts its attempts.
	TaskID  string
	Attempt int
}

// Meta is what a function can know of where it runs.
type Meta struct {
	Node  NodeFacts
	Addrs []string // those of Members
	Place Place

	scratch *scratch
}

// Scratch returns the attempt's own directory, which exists once this was
// called. It goes when the client has let go of the call.
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

// MetaFrom returns what the context of a call carries. It is false outside of
// a call.
func MetaFrom(ctx context.Context) (Meta, bool) {
	m, ok := ctx.Value(metaKey{}).(*Meta)
	if !ok {
		return Meta{}, false
	}
	return *m, true
}

// ScratchName returns the name of an attempt's directory in NodeFacts.Scratch.
func ScratchName(p Place) string {
	return p.TaskID + "-a" + strconv.Itoa(p.Attempt)
}

// MarkSuffix follows the name of a scratch directory in that of the file that
// marks when the attempt began.
const MarkSuffix = ".start"

// A scratch is an attempt's directory. It is made when it is first asked for,
// since most functions need none.
type scratch struct {
	parent string
	place  Place

	mu     sync.Mutex
	made   bool
	marked bool
	gone   bool
}

// dir is the directory's path.
func (s *scratch) dir() string { return filepath.Join(s.parent, ScratchName(s.place)) }

// mark makes the directory, and the file that tells what is newer than the attempt.
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
	// What an earlier life of the pool left under this name is not this attempt's.
	if err := os.RemoveAll(dir); err != nil {
		return dir, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return dir, err
	}
	s.made = true
	return dir, nil
}

// remove takes the directory away, for good.
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

// newScratch returns nil where attempts have none, or the name is no name.
func newScratch(facts NodeFacts, p Place) *scratch {
	if facts.Scratch == "" || p.TaskID == "" || p.TaskID != filepath.Base(p.TaskID) {
		return nil
	}
	return &scratch{parent: facts.Scratch, place: p}
}
