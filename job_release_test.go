package gputrain_test

import (
	"runtime"
	"testing"

	"github.com/gputrain/gputrain"
)

// A job without a Wait does not hold the connection to a node that is gone.
func TestJobsLetDeadNodesGo(t *testing.T) {
	c := realCloud(t)
	p := openReal(t, c, gputrain.Spec{})
	held := gputrain.ConnectionOf(p, 0)
	for range 3 {
		<-p.Start(gputrain.Cmd("true")).Done()
	}
	if _, err := p.Broadcast(gputrain.Cmd("true")); err != nil {
		t.Fatal(err)
	}
	first := p.Nodes()[0].ID
	if !held() {
		t.Fatal("a node that is there has no connection")
	}
	if err := c.Vanish(first); err != nil {
		t.Fatal(err)
	}
	until(t, "another machine", func() bool { n := p.Nodes()[0]; return n.ID != first && n.State == gputrain.NodeReady })
	until(t, "the end of the old one's connection", func() bool { runtime.GC(); return !held() })
	if n := len(p.Jobs()); n != 3 {
		t.Errorf("%d jobs wait for their Wait, of 3", n)
	}
}
