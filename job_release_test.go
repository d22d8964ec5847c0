package gputrain_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// A job without a Wait does not hold the connection to a node that is gone.
func TestJobsLetDeadNodesGo(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{})
		held := gputrain.ConnectionOf(p, 0)
		for range 3 {
			<-p.Start(gputrain.Cmd("echo")).Done()
		}
		if _, err := p.Broadcast(gputrain.Cmd("echo")); err != nil {
			t.Fatal(err)
		}
		first := p.Nodes()[0].ID
		if !held() {
			t.Fatal("a running node has no connection")
		}
		if err := c.Vanish(first); err != nil {
			t.Fatal(err)
		}
		e2etest.WithinVirtualTime(t, "another machine", func() bool { n := p.Nodes()[0]; return n.ID != first && n.State == gputrain.NodeReady })
		for range 100 { // in an hour all that waits for it has ended
			time.Sleep(time.Minute)
			if runtime.GC(); !held() {
				break
			}
		}
		if held() {
			t.Error("the old one's connection is still held")
		}
		if n := len(p.Jobs()); n != 3 {
			t.Errorf("%d of 3 jobs have had no Wait", n)
		}
		c.CloseAndCheck(t, p)
	})
}
