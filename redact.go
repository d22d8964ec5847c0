package gputrain

import (
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/printable"
)

// A redactor takes known secrets out of what is printed. What a text costs depends on
// the text, hardly on how many secrets are known, and so does learning one.
type redactor struct {
	mu    sync.RWMutex
	known secretTree
}

// shortestSecret is the length below which a value is too common to take out
// of every line: what is that short is no secret.
const shortestSecret = 4

// learn adds the secrets of a task. A secret of several lines is also known
// line by line, as output is printed that way.
func (r *redactor) learn(secrets map[string]Secret) {
	if len(secrets) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range secrets {
		r.known.add(string(s))
		for part := range strings.FieldsFuncSeq(string(s), isLineEnd) {
			r.known.add(part)
		}
	}
}

func isLineEnd(r rune) bool { return r == '\n' || r == '\r' }

// text returns what can be seen of a text, without secrets: also without those that
// stood there with a terminal's sequence inside.
func (r *redactor) text(s string) string { return r.raw(printable.Text(r.raw(s))) }

// line is text for one line, without its end.
func (r *redactor) line(s string) string { return r.raw(printable.Line(r.raw(s))) }

// raw returns s without secrets, and else as it is.
func (r *redactor) raw(s string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.known.remove(s)
}

// begun returns how much of a text's end may be the beginning of a secret whose rest
// has not come.
func (r *redactor) begun(s string) int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.known.begun(s)
}

// A secretTree is a set of secrets as a radix tree: each node adds a piece of text to
// that of the nodes above it, and no two pieces below one node begin with the same byte.
type secretTree struct {
	root    secretNode
	longest int // how long the longest secret is
	// starts has a bit for a hash of the first shortestSecret bytes of each secret: most
	// places of a text are ruled out by it.
	starts [1 << 16 / 64]uint64
}

type secretNode struct {
	piece string
	whole bool // a secret ends here
	below map[byte]*secretNode
}

// add adds a secret, unless it is too short to be one.
func (t *secretTree) add(s string) {
	if len(s) < shortestSecret {
		return
	}
	t.longest = max(t.longest, len(s))
	bit := startOf(s)
	t.starts[bit/64] |= 1 << (bit % 64)
	t.root.add(s)
}

func (n *secretNode) add(s string) {
	for s != "" {
		next := n.below[s[0]]
		if next == nil {
			n.attach(&secretNode{piece: s, whole: true})
			return
		}
		common := commonPrefix(s, next.piece)
		if common < len(next.piece) { // the two part within the piece
			fork := &secretNode{piece: next.piece[:common]}
			next.piece = next.piece[common:]
			fork.attach(next)
			n.attach(fork)
			next = fork
		}
		n, s = next, s[common:]
	}
	n.whole = true
}

func (n *secretNode) attach(child *secretNode) {
	if n.below == nil {
		n.below = map[byte]*secretNode{}
	}
	n.below[child.piece[0]] = child
}

// remove returns s with a mark in the place of each secret: of the longest that begins
// at a place.
func (t *secretTree) remove(s string) string {
	if t.longest == 0 {
		return s
	}
	var b strings.Builder
	done := 0
	for i := 0; i+shortestSecret <= len(s); {
		bit := startOf(s[i:])
		if t.starts[bit/64]&(1<<(bit%64)) == 0 {
			i++
			continue
		}
		n, _ := t.root.match(s[i:])
		if n == 0 {
			i++
			continue
		}
		b.WriteString(s[done:i])
		b.WriteString(redacted)
		i += n
		done = i
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// begun returns the length of the longest end of s that is less than a whole secret and
// begins one.
func (t *secretTree) begun(s string) int {
	for i := max(0, len(s)-t.longest+1); i < len(s); i++ {
		if _, open := t.root.match(s[i:]); open {
			return len(s) - i
		}
	}
	return 0
}

// match returns the length of the longest secret that s begins with, or 0, and whether
// all of s is the beginning of a longer one.
func (n *secretNode) match(s string) (length int, open bool) {
	for at := 0; ; {
		if n.whole {
			length = at
		}
		if at == len(s) {
			return length, len(n.below) > 0
		}
		if n = n.below[s[at]]; n == nil {
			return length, false
		}
		common := commonPrefix(s[at:], n.piece)
		if at += common; common < len(n.piece) {
			return length, at == len(s)
		}
	}
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// startOf hashes the first shortestSecret bytes of a text that has as many.
func startOf(s string) uint32 {
	first := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
	return first * 0x9e3779b1 >> 16
}
