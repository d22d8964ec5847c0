package gputrain

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gputrain/gputrain/internal/ssh"
)

// Which failures of a machine would come again.
func TestIsCertain(t *testing.T) {
	lost := &Error{Kind: ErrNodeLost, Err: errors.New("unreachable")}
	for _, tt := range []struct {
		name   string
		adopts bool
		node   *poolNode
		why    error
		want   bool
	}{
		{"a refused port", true, &poolNode{}, &Error{Kind: ErrUnavailable}, true},
		{"too small", true, &poolNode{}, &Error{Kind: ErrNoOffers}, true},
		{"a host key", true, &poolNode{}, &Error{Kind: ErrHostKey}, true},
		{"a host key of a node that was ready", true, &poolNode{had: true}, &Error{Kind: ErrNodeLost, Err: &Error{Kind: ErrHostKey}}, true},
		{"a login", true, &poolNode{had: true}, &Error{Kind: ErrAuth}, true},
		{"a rented machine", false, &poolNode{}, &Error{Kind: ErrHostKey}, false},
		{"a host that was a node and may restart", true, &poolNode{had: true}, &Error{Kind: ErrUnavailable}, false},
		{"a host of a pool that was attached to", true, &poolNode{root: "/r"}, &Error{Kind: ErrUnavailable}, false},
		{"a node that was lost", true, &poolNode{}, lost, false},
		{"a connection that was cut", true, &poolNode{}, fmt.Errorf("upload: %w", ssh.ErrDisconnected), false},
	} {
		tt.node.p = &pool{members: []*member{{caps: Capabilities{Adopts: tt.adopts}}}}
		tt.node.inst.ID = "gpu1:22"
		if got := isCertain(tt.node, tt.why); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if isCertain(&poolNode{p: &pool{members: []*member{{caps: Capabilities{Adopts: true}}}}}, &Error{Kind: ErrNoCapacity}) {
		t.Error("a machine that was never had")
	}
}
