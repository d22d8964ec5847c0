package gputrain_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// spotOffer is one that can be taken back.
func spotOffer() gputrain.Offer {
	o := at("here", 0.2)
	o.Spot = true
	return o
}

// A notice is told, runs what the spec has for it within the time that is left, keeps
// further tasks away, and the node is replaced once it is gone: never two at one rank.
func TestANoticeOfPreemption(t *testing.T) {
	saved := make(chan string, 9)
	exec := func(ctx context.Context, cmd sim.Command) int {
		if strings.HasPrefix(cmd.Script, "save") {
			saved <- cmd.ID + " " + cmd.Getenv("GPUTRAIN_SECONDS")
			return words(ctx, sim.Command{Args: []string{"sleep", "1h"}}) // longer than it has
		}
		return words(ctx, cmd)
	}
	inCloud(t, sim.Options{Exec: exec, Offers: []gputrain.Offer{spotOffer()}, BootTime: 30 * time.Second}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{Nodes: 2, Allocation: gputrain.Spot, OnPreemption: "save"})
		first := alive(t, p)
		job := p.Start(gputrain.Task{Args: []string{"sleep", "20m"}, Target: gputrain.OnRank(0)})
		time.Sleep(time.Minute)
		if err := c.Preempt(first[0], 2*time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if n := c.count(gputrain.EventPreemption, "notice"); n != 1 {
			t.Errorf("%d notices were told", n)
		}
		if ran := <-saved; !strings.HasPrefix(ran, first[0]+" 1") || len(saved) > 0 { // 100 seconds and some
			t.Errorf("what ran: %q and %d more", ran, len(saved))
		}
		results, err := p.Gather(sleeps(3, "10s")...)
		if err != nil || slices.ContainsFunc(results, func(r gputrain.Result) bool { return r.Node.Rank != 1 }) {
			t.Errorf("a node that goes got a task: %v", err)
		}
		if n := c.launches(); n != 2 {
			t.Errorf("%d machines before it is gone", n)
		}
		if r, err := job.Wait(); err != nil || r.Attempts != 2 || r.Node.ID == first[0] || r.Node.Rank != 0 {
			t.Errorf("%d attempts, the last on %s of rank %d: %v", r.Attempts, r.Node.ID, r.Node.Rank, err)
		}
		if n := c.count(gputrain.EventPreemption, "failed"); n != 1 {
			t.Errorf("that the command did not end in time was told %d times", n)
		}
		c.end(t, p)
	})
}

// A broadcast does not go to a node that is about to be taken back.
func TestABroadcastAfterANotice(t *testing.T) {
	inCloud(t, sim.Options{Offers: []gputrain.Offer{spotOffer()}}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{Nodes: 2, Allocation: gputrain.Spot})
		c.Preempt(alive(t, p)[0], 2*time.Minute)
		time.Sleep(20 * time.Second)
		results, err := p.Broadcast(gputrain.Cmd("sleep", "10m"))
		if err != nil || len(results) != 1 || results[0].Node.Rank != 1 {
			t.Errorf("%v, %v", results, err)
		}
		c.end(t, p)
	})
}
