package gputrain

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/sim"
)

// No image is made of a node that was lost after Open.
func TestBakeOfALostNode(t *testing.T) {
	state := WithStateDir(t.TempDir())
	bubble.Test(t, func(t *testing.T) {
		cloud := sim.New(sim.Options{Exec: func(context.Context, sim.Command) int { return 0 }})
		defer cloud.Close()
		c, err := Open(t.Context(), sim.Config{Cloud: cloud}, Spec{MaxReplacements: -1}, state)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		member := func() *fleet.Member {
			c.p.mu.Lock()
			defer c.p.mu.Unlock()
			return c.p.fleet.Members()[0]
		}
		m := member()
		if err := cloud.Vanish(m.Node.Instance().ID); err != nil {
			t.Fatal(err)
		}
		<-m.Node.Context().Done()
		if img, err := bakeNode(c.p, "0123456789abcdef0123456789abcdef"); !errors.Is(err, ErrNodeLost) || !strings.Contains(err.Error(), "call Bake again") {
			t.Errorf("got %+v, %v", img, err)
		}
	})
}
