package gputrain

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/inventory"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/test/growth"
	"github.com/gputrain/gputrain/providers/driver"
)

// fakePool returns a pool of ready nodes without machines: tasks wait for the nodes, and get their
// slots, but do not run.
func fakePool(tb testing.TB, nodes, slots int) *Compute {
	ctx, cancel := context.WithCancelCause(tb.Context())
	p := &pool{identity: identity{id: "p"}, lifetime: lifetime{ctx: ctx, tasksCtx: ctx}, account: inventory.Account{Provider: "acme"}, spec: Spec{Nodes: nodes, Concurrency: slots}}
	p.events = newEvents("p", nil, nil)
	p.access = newAccess(p)
	p.fleet = p.newFleet()
	tb.Cleanup(func() {
		cancel(ErrClosed)
		p.running.Wait()
		p.events.close()
	})
	var machines []node.Earlier
	for rank := range nodes {
		name := "p-" + strconv.Itoa(rank)
		machines = append(machines, node.Earlier{Name: name, Instance: driver.Instance{Labels: map[string]string{"host": name, "zone": strconv.Itoa(rank % 3)}}})
	}
	members := p.fleet.Resume(machines)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range members {
		m.Ready()
	}
	return &Compute{p: p, ctx: ctx}
}

// BenchmarkJobWaitGrowth measures Wait of jobs that are over, by their number.
func BenchmarkJobWaitGrowth(b *testing.B) {
	growth.Report(b, []int{5000, 20000, 80000}, func(n int) time.Duration {
		c := fakePool(b, 1, 1)
		var jobs []*Job
		for range n {
			ba := c.newBatch()
			ba.units = []*unit{ba.unit(0, Cmd("true"))}
			j := ba.newJob()
			j.end()
			jobs = append(jobs, j)
		}
		start := time.Now()
		for i := range jobs {
			jobs[len(jobs)-1-i].Wait()
		}
		return time.Since(start)
	})
}

// BenchmarkBroadcastGrowth measures the cost of a broadcast of a command apart from the command
// itself, by the number of nodes: its journal, its queues, each node's environment.
func BenchmarkBroadcastGrowth(b *testing.B) {
	growth.Report(b, []int{500, 2000, 8000}, func(n int) time.Duration {
		c := fakePool(b, n, 1)
		c.p.journal = recorder{journal.Create(filepath.Join(b.TempDir(), "tasks"), Spec{}, "", func(err error) { b.Error(err) })}
		defer c.p.journal.Close()
		for _, node := range c.p.fleet.Members() { // every slot is taken
			c.p.fleet.Tasks.Take(node.Slots, 0)
		}
		batch := c.newBatch()
		start := time.Now()
		if err := batch.everywhere(Cmd("true")); err != nil {
			b.Fatal(err)
		}
		for _, u := range batch.units {
			u.command(u.pin, 0).Place.Env()
		}
		batch.close()
		return time.Since(start)
	})
}
