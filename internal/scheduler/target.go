package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Target selects the nodes on which a task may run. The zero value allows any.
type Target struct {
	rank   int // and one, so that zero is none; below zero it is a mistake
	labels []Label
}

// A Label is one label of a node.
type Label struct{ Key, Value string }

// OnRank allows the node of one rank.
func OnRank(rank int) Target {
	if rank < 0 {
		return Target{rank: -1}
	}
	return Target{rank: rank + 1}
}

// OnLabels allows the nodes that have all of these labels.
func OnLabels(labels map[string]string) Target {
	t := Target{}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		t.labels = append(t.labels, Label{key, labels[key]})
	}
	return t
}

// String returns "rank 3", "zone=a, arch=arm64" or "any node".
func (t Target) String() string {
	if t.rank != 0 {
		return fmt.Sprintf("rank %d", max(t.rank, 0)-1)
	}
	if len(t.labels) == 0 {
		return "any node"
	}
	words := make([]string, len(t.labels))
	for i, l := range t.labels {
		words[i] = l.Key + "=" + l.Value
	}
	return strings.Join(words, ", ")
}

// IsAny reports whether the target allows any node.
func (t Target) IsAny() bool { return t.rank == 0 && t.labels == nil }

// Equal reports whether two targets are the same.
func (t Target) Equal(other Target) bool {
	return t.rank == other.rank && slices.Equal(t.labels, other.labels)
}

// Rank returns the rank that the target allows, -1 for a rank below zero, and whether it
// is one by rank.
func (t Target) Rank() (rank int, by bool) { return max(t.rank, 0) - 1, t.rank != 0 }

// Labels returns the labels that the target asks for, sorted by key. They are not to be
// changed.
func (t Target) Labels() []Label { return t.labels }

// key returns a text that differs for different labels.
func (t Target) key() string {
	var b strings.Builder
	for _, l := range t.labels {
		fmt.Fprintf(&b, "%q=%q ", l.Key, l.Value)
	}
	return b.String()
}

// matches reports whether the target allows the node now, or may come to allow it: a node
// that is still coming may get labels that it lacks.
func (t Target) matches(n *Node) (now, later bool) {
	if t.rank != 0 {
		return n.rank == t.rank-1, false
	}
	if len(t.labels) == 0 {
		return true, false
	}
	now = true
	for _, l := range t.labels {
		value, known := n.labels[l.Key]
		if known && value != l.Value {
			return false, false
		}
		now = now && known
	}
	return now, !now && n.state == Coming
}
