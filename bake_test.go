package gputrain

import (
	"errors"
	"testing"

	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/providers/local"
)

// No image is made of a node that was lost after Open.
func TestBakeOfALostNode(t *testing.T) {
	c, err := Open(t.Context(), local.Config{}, Spec{MaxReplacements: -1}, WithStateDir(t.TempDir()), WithoutGuardian())
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
	if err := c.p.account.Driver.Terminate(t.Context(), m.Node.Instance().ID); err != nil {
		t.Fatal(err)
	}
	<-m.Node.Context().Done()
	if img, err := bakeNode(c.p, "0123456789abcdef0123456789abcdef"); !errors.Is(err, ErrNodeLost) {
		t.Errorf("got %+v, %v", img, err)
	}
}
