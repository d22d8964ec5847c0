package gputrain_test

import (
	"runtime"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// A job without a Wait does not hold the connection to a node that is gone.
func TestJobsLetDeadNodesGo(t *testing.T) {
	c := e2etest.RealCloud(t)
	p := e2etest.OpenReal(t, c, gputrain.Spec{})
	held := gputrain.ConnectionOf(p, 0)
	for range 3 {
		<-p.Start(gputrain.Cmd("true")).Done()
	}
	if _, err := p.Broadcast(gputrain.Cmd("true")); err != nil {
		t.Fatal(err)
	}
	first := p.Nodes()[0].ID
	if !held() {
		t.Fatal("a running node has no connection")
	}
	if err := c.Vanish(first); err != nil {
		t.Fatal(err)
	}
	e2etest.Until(t, "another machine", func() bool { n := p.Nodes()[0]; return n.ID != first && n.State == gputrain.NodeReady })
	e2etest.Until(t, "the end of the old one's connection", func() bool { runtime.GC(); return !held() })
	if n := len(p.Jobs()); n != 3 {
		t.Errorf("%d of 3 jobs have had no Wait", n)
	}
}
