package node

import (
	"errors"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

// No image is made of a node that was lost, be it before it had a connection or after.
func TestSealOfALostNode(t *testing.T) {
	for name, ready := range map[string]bool{"before it had a connection": false, "after it was ready": true} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				l := newLab(t, simnode.Config{CPUs: 4})
				if ready {
					l.ready()
				}
				l.node.GiveUp(errAway)
				if err := Seal(t.Context(), l.node, "k", time.Hour); !errors.Is(err, driver.ErrNodeLost) || !errors.Is(err, errAway) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
