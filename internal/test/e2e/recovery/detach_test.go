package recovery

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// reattach attaches to a pool of this program's cloud that was left.
func reattach(t *testing.T, c *e2etest.SimCloud, id string) *gputrain.Compute {
	t.Helper()
	p, err := gputrain.Attach(t.Context(), sim.Config{Cloud: c.Cloud}, id, gputrain.WithStateDir(c.State), gputrain.WithEvents(c.Tell))
	if err != nil {
		t.Fatal(err)
	}
	c.Pools = append(c.Pools, p)
	return p
}

// leave detaches from a pool of this program's cloud, which the first call refuses.
func leave(t *testing.T, p *gputrain.Compute) {
	t.Helper()
	if id, err := p.Detach(); id != "" || !errors.Is(err, gputrain.ErrUnsupported) || !strings.Contains(err.Error(), "its machines end with this program") || !strings.Contains(err.Error(), "a second call of Detach") {
		t.Errorf("the first call: %q, %v", id, err)
	}
	for range 2 {
		if id, err := p.Detach(); id != p.ID() || err != nil {
			t.Errorf("%q, %v", id, err)
		}
	}
}

// A program that leaves a pool ends nothing of it: what ran goes on, what waited waits, and Attach takes all of it up at once.
// Here calls end with an error that says so.
func TestDetach(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2})
		nodes := e2etest.Alive(t, p)
		done := p.Start(gputrain.Cmd("echo", "done"))
		<-done.Done()
		var results []gputrain.Result
		var err error
		gathered := make(chan bool)
		go func() {
			defer close(gathered)
			results, err = p.Gather(sleeps(3, "10m")...) // the third waits for a slot
		}()
		time.Sleep(time.Minute)
		leave(t, p)
		<-gathered
		left := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, gputrain.ErrClosed) || !strings.Contains(err.Error(), "this program has left it by Detach") {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, r := range results {
			var failed *gputrain.TaskError
			if !errors.As(r.Err, &failed) || failed.Cause != gputrain.CauseCancelled {
				t.Errorf("a task ends with %v", r.Err)
			}
			left("a task", r.Err)
		}
		left("the call", err)
		_, err = p.Run(gputrain.Cmd("echo"))
		left("Run", err)
		_, err = p.Broadcast(gputrain.Cmd("echo"))
		left("Broadcast", err)
		left("Resize", p.Resize(3))
		if err := p.Close(); err != nil {
			t.Errorf("close after it: %v", err)
		}
		if n := c.CountMachines(); n != 2 {
			t.Errorf("%d machines are left", n)
		}
		if n := c.CountEvents(gputrain.EventPool, "detached"); n != 1 {
			t.Errorf("%d events", n)
		}
		if last := c.Events()[len(c.Events())-1]; last.State != "detached" {
			t.Errorf("after it, %v %s is reported", last.Kind, last.State)
		}

		time.Sleep(5 * time.Minute)
		again := reattach(t, c, p.ID())
		if got := e2etest.Alive(t, again); len(got) != 2 || got[0] != nodes[0] || got[1] != nodes[1] {
			t.Errorf("the nodes are %v, and were %v", got, nodes)
		}
		jobs := again.Jobs()
		if len(jobs) != 4 { // one has its result, for which no caller has waited
			t.Fatalf("%d jobs", len(jobs))
		}
		if r, err := jobs[0].Wait(); err != nil || string(r.Stdout) != "done\n" || r.Attempts != 1 {
			t.Errorf("%q after %d attempts, %v", r.Stdout, r.Attempts, err)
		}
		began := time.Now()
		for _, j := range jobs[1:] {
			if r, err := j.Wait(); err != nil || r.Attempts != 1 {
				t.Errorf("%d attempts, %v", r.Attempts, err)
			}
		}
		if took := time.Since(began); took > 15*time.Minute {
			t.Errorf("they took another %v", took)
		}
		c.CloseAndCheck(t, again)
	})
}

// A pool that no program takes up ends with its lease, and one with a task that holds the lease with its TTL. A task that holds it
// without a TTL is a reason to stay, and so is a machine that cannot end itself.
func TestDetachAndLeases(t *testing.T) {
	held := gputrain.Cmd("sleep", "10h")
	held.HoldsLease = true
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		leave(t, c.Pool(t, gputrain.Spec{Nodes: 2}))
		time.Sleep(10 * time.Minute)
		if n := c.CountMachines(); n != 2 {
			t.Errorf("within the lease there are %d machines", n)
		}
		time.Sleep(10 * time.Minute)
		if n := c.CountMachines(); n != 0 {
			t.Errorf("after the lease there are %d machines", n)
		}
		p := c.Pool(t, gputrain.Spec{TTL: 2 * time.Hour})
		p.Start(held)
		time.Sleep(time.Minute)
		leave(t, p)
		time.Sleep(time.Hour)
		if n := c.CountMachines(); n != 1 {
			t.Errorf("while a task holds the lease there are %d machines", n)
		}
		// The task holds it for the program that attaches, too.
		again := reattach(t, c, p.ID())
		e2etest.WithinVirtualTime(t, "the job", func() bool { return len(again.Jobs()) == 1 })
		if cost := again.Cost(); !cost.Bounded || cost.AtMostUSD < 0.3 {
			t.Errorf("%+v, with a price of 0.20 per hour and two hours", cost)
		}
		leave(t, again)
		time.Sleep(80 * time.Minute)
		if n := c.CountMachines(); n != 0 {
			t.Errorf("after the TTL there are %d machines", n)
		}
		unbounded := c.Pool(t, gputrain.Spec{})
		unbounded.Start(held)
		time.Sleep(time.Minute)
		if _, err := unbounded.Detach(); err == nil || !strings.Contains(err.Error(), "a task may hold the lease, and the pool has no TTL") {
			t.Errorf("a task that holds the lease: %v", err)
		}
		if _, err := gputrain.StateDir(c.State).Reap(t.Context(), sim.Config{Cloud: c.Cloud}); err != nil { // networks and keys
			t.Error(err)
		}
		c.CloseAndCheck(t, unbounded)
		if id, err := unbounded.Detach(); id != "" || !errors.Is(err, gputrain.ErrClosed) {
			t.Errorf("after Close: %q, %v", id, err)
		}
	})
	e2etest.InCloud(t, sim.Options{NoSelfDestruct: true, BootTime: time.Minute}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2, MinReady: 1, MaxNodes: 3})
		if _, err := p.Detach(); err == nil || !strings.Contains(err.Error(), "cannot end itself, and there is no guardian") {
			t.Errorf("machines that cannot end themselves: %v", err)
		}
		c.CloseAndCheck(t, p)
	})
	e2etest.InCloud(t, sim.Options{BootTime: time.Minute, BootJitter: 2 * time.Minute}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 3, MinReady: 1})
		if _, err := p.Detach(); err == nil || !strings.Contains(err.Error(), "is on its way up, and has no lease yet") {
			t.Errorf("machines that come up: %v", err)
		}
		if _, err := p.Detach(); err != nil {
			t.Error(err)
		}
		again := reattach(t, c, p.ID())
		e2etest.WithinVirtualTime(t, "three nodes", func() bool { return len(again.Nodes()) == 3 && e2etest.AllReady(again) })
		if n := c.CountLaunches(); n != 3 {
			t.Errorf("%d machines were launched", n)
		}
		c.CloseAndCheck(t, again)
	})
}

// An Attach that is given up while one node cannot be reached ends nothing on the others.
func TestAttachThatIsGivenUpEndsNothing(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2, Lease: time.Hour})
		nodes := e2etest.Alive(t, p)
		for range 2 {
			p.Start(gputrain.Cmd("sleep", "30m"))
		}
		time.Sleep(time.Minute)
		leave(t, p)
		c.Break(nodes[1])
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := gputrain.Attach(ctx, sim.Config{Cloud: c.Cloud}, p.ID(), gputrain.WithStateDir(c.State))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v", err)
		}
		c.Heal(nodes[1])
		again := reattach(t, c, p.ID())
		jobs := again.Jobs()
		if len(jobs) != 2 {
			t.Fatalf("%d jobs", len(jobs))
		}
		for _, j := range jobs {
			if r, err := j.Wait(); err != nil || r.Attempts != 1 {
				t.Errorf("%d attempts, %v", r.Attempts, err)
			}
		}
		c.CloseAndCheck(t, again)
	})
}
