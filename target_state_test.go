package gputrain

import (
	"errors"
	"strings"
	"testing"
)

// A broadcast that was allowed, and whose nodes are lost before it is queued,
// says so of the nodes that it is for.
func TestNoneReadyNamesTheTarget(t *testing.T) {
	p := &pool{id: "p", provider: "acme", members: []*member{{provider: "acme"}}}
	for rank, state := range []NodeState{NodeReady, NodeLost, NodeUnreachable, NodeBootstrapping} {
		n := &poolNode{p: p, name: "p-" + string(rune('0'+rank)), state: state}
		n.at.Store(int32(rank))
		n.inst.Labels = map[string]string{"zone": string(rune('a' + rank))}
		n.labels = n.labelsLocked()
		p.nodes = append(p.nodes, n)
	}
	p.nodes[1].err = &Error{Op: "node p-1", Kind: ErrNodeLost, Err: errors.New("it vanished")}
	for _, tt := range []struct {
		target Target
		kind   error
		want   string
	}{
		{OnRank(1), ErrNodeLost, "no node with rank 1 is left: node p-1: node lost: it vanished"},
		{OnLabels(map[string]string{"zone": "b"}), ErrNodeLost, "no node with zone=b is left: node p-1: node lost: it vanished"},
		{OnRank(3), ErrUnavailable, "no node is ready of those with rank 3: p-3 is bootstrapping"},
		{OnLabels(map[string]string{"zone": "d"}), ErrUnavailable, "no node is ready of those with zone=d: p-3 is bootstrapping"},
		{OnRank(4), ErrInvalid, "there is no rank 4"},
	} {
		if err := p.noneReadyLocked(tt.target); !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v", tt.target, err)
		}
	}
}
