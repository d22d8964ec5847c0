package recovery

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// spotOffer returns an offer of a machine that can be preempted.
func spotOffer() gputrain.Offer {
	o := e2etest.OfferAt("here", 0.2)
	o.Spot = true
	return o
}

// A preemption notice is reported, runs the spec's OnPreemption, with the pool's secrets, within the remaining time, and keeps new tasks away.
// The node is replaced only once it is gone, so that a rank never has two machines.
func TestANoticeOfPreemption(t *testing.T) {
	saved := make(chan string, 9)
	exec := func(ctx context.Context, cmd sim.Command) int {
		if strings.HasPrefix(cmd.Script, "save") {
			saved <- cmd.ID + " " + cmd.Getenv("HF_TOKEN") + " " + cmd.Getenv("GPUTRAIN_SECONDS")
			return e2etest.Words(ctx, sim.Command{Args: []string{"sleep", "1h"}}) // longer than the remaining time
		}
		return e2etest.Words(ctx, cmd)
	}
	e2etest.InCloud(t, sim.Options{Exec: exec, Offers: []gputrain.Offer{spotOffer()}, BootTime: 30 * time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2, Allocation: gputrain.Spot, OnPreemption: "save", Secrets: map[string]gputrain.Secret{"HF_TOKEN": "sesame"}})
		first := e2etest.Alive(t, p)
		job := p.Start(gputrain.Task{Args: []string{"sleep", "20m"}, Target: gputrain.OnRank(0)})
		time.Sleep(time.Minute)
		if err := c.Preempt(first[0], 2*time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if n := c.CountEvents(gputrain.EventPreemption, "notice"); n != 1 {
			t.Errorf("%d notices were reported", n)
		}
		if ran := <-saved; !strings.HasPrefix(ran, first[0]+" sesame 1") || len(saved) > 0 { // a little over 100 seconds
			t.Errorf("OnPreemption ran as %q and %d more times", ran, len(saved))
		}
		results, err := p.Gather(sleeps(3, "10s")...)
		if err != nil || slices.ContainsFunc(results, func(r gputrain.Result) bool { return r.Node.Rank != 1 }) {
			t.Errorf("a node that is about to go got a task: %v", err)
		}
		if n := c.CountLaunches(); n != 2 {
			t.Errorf("%d machines before it is gone", n)
		}
		if r, err := job.Wait(); err != nil || r.Attempts != 2 || r.Node.ID == first[0] || r.Node.Rank != 0 {
			t.Errorf("%d attempts, the last on %s of rank %d: %v", r.Attempts, r.Node.ID, r.Node.Rank, err)
		}
		if n := c.CountEvents(gputrain.EventPreemption, "failed"); n != 1 {
			t.Errorf("%d events report that the command did not end in time", n)
		}
		c.CloseAndCheck(t, p)
	})
}

// A broadcast does not go to a node that is about to be preempted.
func TestABroadcastAfterANotice(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{spotOffer()}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2, Allocation: gputrain.Spot})
		c.Preempt(e2etest.Alive(t, p)[0], 2*time.Minute)
		time.Sleep(20 * time.Second)
		results, err := p.Broadcast(gputrain.Cmd("sleep", "10m"))
		if err != nil || len(results) != 1 || results[0].Node.Rank != 1 {
			t.Errorf("%v, %v", results, err)
		}
		c.CloseAndCheck(t, p)
	})
}
