package credential

import "strings"

// ShortestKnown is the least length of a secret in a Set: shorter ones are too common.
const ShortestKnown = 4

// Redacted is what takes the place of a secret.
const Redacted = "[redacted]"

// A Set has known secrets, as a radix tree: each node adds a piece of text to that of the nodes above it, and no
// two pieces below one node begin with the same byte. The zero value is empty.
type Set struct {
	root    setNode
	longest int // bytes of the longest secret
	// starts has a bit for a hash of the first ShortestKnown bytes of each secret. It rules out most offsets of a
	// text at once.
	starts [1 << 16 / 64]uint64
}

type setNode struct {
	piece string
	whole bool // a secret ends here
	below map[byte]*setNode
}

// Learn adds a secret: as it is, line by line, and in the forms in which texts of programs have them.
func (t *Set) Learn(secret string) {
	for form := range Forms(secret) {
		t.add(form)
	}
}

// add adds a text, unless it is too short.
func (t *Set) add(s string) {
	if len(s) < ShortestKnown {
		return
	}
	t.longest = max(t.longest, len(s))
	bit := startOf(s)
	t.starts[bit/64] |= 1 << (bit % 64)
	t.root.add(s)
}

func (n *setNode) add(s string) {
	for s != "" {
		next := n.below[s[0]]
		if next == nil {
			n.attach(&setNode{piece: s, whole: true})
			return
		}
		common := commonPrefix(s, next.piece)
		if common < len(next.piece) { // they differ within the piece
			fork := &setNode{piece: next.piece[:common]}
			next.piece = next.piece[common:]
			fork.attach(next)
			n.attach(fork)
			next = fork
		}
		n, s = next, s[common:]
	}
	n.whole = true
}

func (n *setNode) attach(child *setNode) {
	if n.below == nil {
		n.below = map[byte]*setNode{}
	}
	n.below[child.piece[0]] = child
}

// Remove returns s with a mark in place of each secret. If several begin at the same offset, the longest is removed.
func (t *Set) Remove(s string) string {
	var b strings.Builder
	done := 0
	for i := 0; i+ShortestKnown <= len(s); {
		n := t.at(s[i:])
		if n == 0 {
			i++
			continue
		}
		b.WriteString(s[done:i])
		b.WriteString(Redacted)
		i += n
		done = i
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// at returns the length of the longest secret that s begins with, or 0.
func (t *Set) at(s string) int {
	if t.longest == 0 || len(s) < ShortestKnown {
		return 0
	}
	if bit := startOf(s); t.starts[bit/64]&(1<<(bit%64)) == 0 {
		return 0
	}
	n, _ := t.root.match(s)
	return n
}

// Begun returns the length of the longest end of s that begins a secret without being all of it.
func (t *Set) Begun(s string) int {
	for i := max(0, len(s)-t.longest+1); i < len(s); i++ {
		if _, open := t.root.match(s[i:]); open {
			return len(s) - i
		}
	}
	return 0
}

// match returns the length of the longest secret that s begins with, or 0, and whether all of s begins a longer one.
func (n *setNode) match(s string) (length int, open bool) {
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

// startOf hashes the first ShortestKnown bytes of a text, which has at least as many.
func startOf(s string) uint32 {
	first := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
	return first * 0x9e3779b1 >> 16
}
