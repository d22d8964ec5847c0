package gputrain

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Target says which nodes a task may run on. The zero value means any. Make
// one with [OnRank] or [OnLabels]. For Broadcast it says which nodes take part.
type Target struct {
	rank   int // and one, so that zero is none
	labels []label
}

type label struct{ key, value string }

// OnRank is the node of one rank. A rank that the pool does not have is an
// error at once, and so is one whose node is lost or failed.
func OnRank(rank int) Target {
	if rank < 0 {
		return Target{rank: -1}
	}
	return Target{rank: rank + 1}
}

// OnLabels is any node that has all of these labels: see [Node].Labels. Labels
// that no node of the pool has, or can come to have, are an error at once.
func OnLabels(labels map[string]string) Target {
	t := Target{}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		t.labels = append(t.labels, label{key, labels[key]})
	}
	return t
}

// String returns "rank 3" or "zone=a, arch=arm64", or "any node".
func (t Target) String() string {
	if t.rank != 0 {
		return fmt.Sprintf("rank %d", max(t.rank, 0)-1)
	}
	if len(t.labels) == 0 {
		return "any node"
	}
	words := make([]string, len(t.labels))
	for i, l := range t.labels {
		words[i] = l.key + "=" + l.value
	}
	return strings.Join(words, ", ")
}

func (t Target) equal(other Target) bool {
	return t.rank == other.rank && slices.Equal(t.labels, other.labels)
}

// key tells targets apart.
func (t Target) key() string {
	var b strings.Builder
	if t.rank > 0 {
		fmt.Fprintf(&b, "%d ", t.rank)
	}
	for _, l := range t.labels {
		fmt.Fprintf(&b, "%q=%q ", l.key, l.value)
	}
	return b.String()
}

func (t Target) validate(f *faults) {
	if t.rank < 0 {
		f.add("Target is a negative rank")
	}
	for _, l := range t.labels {
		if l.key == "" {
			f.add("Target has a label without a name")
		}
	}
}

// The labels that every node has by itself.
const (
	LabelProvider     = "provider"
	LabelRegion       = "region"
	LabelInstanceType = "instance-type"
	LabelAccelerator  = "accelerator"
	LabelOS           = "os"
	LabelArch         = "arch"
	LabelMarket       = "market" // "spot" or "on-demand"
)

// labelsLocked returns what the node is known by: what its provider says, and
// what the pool knows itself.
func (n *poolNode) labelsLocked() map[string]string {
	labels := make(map[string]string, len(n.inst.Labels)+7)
	add := func(key, value string) {
		if value != "" {
			labels[key] = value
		}
	}
	offer := n.inst.Offer
	add(LabelProvider, n.provider())
	add(LabelRegion, offer.Region)
	add(LabelInstanceType, offer.InstanceType)
	add(LabelAccelerator, offer.Accelerator.Name)
	add(LabelOS, n.facts.OS)
	add(LabelArch, n.facts.Arch)
	if n.inst.ID != "" {
		add(LabelMarket, map[bool]string{true: "spot", false: "on-demand"}[offer.Spot])
	}
	maps.Copy(labels, n.inst.Labels)
	return labels
}

// matchesLocked reports whether the node is one of the target's; a node that is
// still on its way up may come to be.
func (t Target) matchesLocked(n *poolNode) (now, later bool) {
	if t.rank != 0 {
		return n.rank() == t.rank-1, false
	}
	if len(t.labels) == 0 {
		return true, false
	}
	now = true
	for _, l := range t.labels {
		value, known := n.labels[l.key]
		if known && value != l.value {
			return false, false
		}
		now = now && known
	}
	return now, !now && n.state < NodeReady
}

func (p *pool) impossible(t Target) error {
	if t.rank == 0 && t.labels == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.impossibleLocked(t)
}

// impossibleLocked says why no node can ever run what has this target, or nil.
// That no node is left at all is another matter.
func (p *pool) impossibleLocked(t Target) error {
	if t.rank == 0 && t.labels == nil {
		return nil
	}
	if p.hasLocked(t) {
		return nil
	}
	most := max(len(p.nodes), p.most)
	if t.rank > most {
		return &Error{Provider: p.provider, Op: "target", Kind: ErrInvalid,
			Err: fmt.Errorf("there is no %v: the pool has ranks 0 to %d", t, most-1)}
	}
	if p.growsLocked() {
		return nil // a node that is still to come may answer
	}
	if t.rank > len(p.nodes) {
		return p.noNodesLocked() // that is why it did not come
	}
	var over []error
	var kind error // of a node that never became ready, its own
	for _, n := range p.nodes {
		now, later := t.matchesLocked(n)
		if !now && !later {
			continue
		}
		if !n.state.over() {
			return nil
		}
		if n.state == NodeLost {
			kind = ErrNodeLost
		}
		over = append(over, n.endLocked())
	}
	if over != nil {
		return &Error{Provider: p.provider, Op: "target", Kind: kind, Err: fmt.Errorf("no node with %v is left: %w", t, joinOnce(over))}
	}
	if p.spec.MaxNodes > 0 && len(p.nodes) < p.most {
		return p.noNodesLocked() // those that might have could not be had
	}
	return &Error{Provider: p.provider, Op: "target", Kind: ErrInvalid, Err: fmt.Errorf("no node has %v", t), Hint: p.labelsHintLocked(t)}
}

// hasLocked reports whether a node that is not over has the rank, or the labels, now. It
// takes no look at each node.
func (p *pool) hasLocked(t Target) bool {
	if t.rank != 0 {
		return t.rank > 0 && t.rank <= len(p.nodes) && !p.nodes[t.rank-1].state.over()
	}
	return len(p.tasks.queueFor(t).matching) > 0
}

// labelsHintLocked says what the nodes have under the names that were asked for.
func (p *pool) labelsHintLocked(t Target) string {
	var have []string
	for _, l := range t.labels {
		seen := map[string]bool{}
		for _, n := range p.nodes {
			if value, ok := n.labels[l.key]; ok {
				seen[value] = true
			}
		}
		if len(seen) == 0 {
			have = append(have, fmt.Sprintf("no node has a label %q", l.key))
		} else {
			have = append(have, fmt.Sprintf("%q is %s", l.key, strings.Join(slices.Sorted(maps.Keys(seen)), " or ")))
		}
	}
	return "in this pool " + joinSemicolons(have)
}

// endLocked says why a node that is over is so.
func (n *poolNode) endLocked() error {
	if n.err != nil {
		return n.err
	}
	return errors.New(n.name + " is " + n.state.String())
}
