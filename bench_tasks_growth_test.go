package gputrain

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/growth"
)

// fakePool is a pool of nodes that are ready and reach no machine: tasks wait for them,
// and get their slots, but do not run.
func fakePool(tb testing.TB, nodes, slots int) *Compute {
	ctx, cancel := context.WithCancelCause(tb.Context())
	p := &pool{id: "p", provider: "acme", members: []*member{{provider: "acme"}}, ctx: ctx, tasksCtx: ctx, spec: Spec{Nodes: nodes, Concurrency: slots}, most: nodes}
	p.changed = sync.NewCond(&p.mu)
	p.events = newEvents("p", nil, nil)
	tb.Cleanup(func() {
		cancel(ErrClosed)
		p.running.Wait()
		p.events.close()
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	for rank := range nodes {
		n := newPoolNode(p, rank)
		n.name = "p-" + strconv.Itoa(rank)
		n.of.Store(p.members[0])
		n.inst.Labels = map[string]string{"host": n.name, "zone": strconv.Itoa(rank % 3)}
		p.nodes = append(p.nodes, n)
		n.enterLocked(NodeReady, nil)
	}
	return &Compute{p: p, ctx: ctx}
}

// BenchmarkJobWaitGrowth is Wait of jobs that are over, by how many there are.
func BenchmarkJobWaitGrowth(b *testing.B) {
	growth.Report(b, []int{5000, 20000, 80000}, func(n int) time.Duration {
		c := fakePool(b, 1, 1)
		var jobs []*Job
		for range n {
			ba := c.newBatch()
			ba.units = []*unit{ba.unit(0, Cmd("true"))}
			j := c.newJob(ba)
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

// BenchmarkBroadcastGrowth is what a broadcast of a command costs before and beside its
// commands, by how many nodes there are: its journal, its queues, what each is told.
func BenchmarkBroadcastGrowth(b *testing.B) {
	growth.Report(b, []int{500, 2000, 8000}, func(n int) time.Duration {
		c := fakePool(b, n, 1)
		c.p.journal = beginJournal(filepath.Join(b.TempDir(), "tasks"), keptSpec{}, func(err error) { b.Error(err) })
		defer c.p.journal.close()
		for range n { // every slot is taken
			if got, _ := c.p.claim(fakeUnit(c, Target{})); got == nil {
				b.Fatal("no slot is free")
			}
		}
		batch := c.newBatch()
		start := time.Now()
		if err := batch.everywhere(Cmd("true")); err != nil {
			b.Fatal(err)
		}
		for _, u := range batch.units {
			u.pin.taskEnv(u, 0)
		}
		batch.close()
		took := time.Since(start)
		c.p.running.Add(-n) // the claims
		return took
	})
}

// BenchmarkOnRankGrowth is 2000 tasks for one node each, by how many nodes there are.
func BenchmarkOnRankGrowth(b *testing.B) {
	benchmarkTargets(b, func(i, nodes int) Target { return OnRank(i % nodes) })
}

// BenchmarkOnLabelsGrowth is the same for nodes that are named by a label.
func BenchmarkOnLabelsGrowth(b *testing.B) {
	benchmarkTargets(b, func(i, nodes int) Target {
		return OnLabels(map[string]string{"host": "p-" + strconv.Itoa(i%nodes)})
	})
}

func benchmarkTargets(b *testing.B, target func(i, nodes int) Target) {
	growth.Report(b, []int{250, 1000, 4000}, func(nodes int) time.Duration {
		const tasks = 2000
		c := fakePool(b, nodes, 2)
		defer c.p.running.Add(-tasks)
		start := time.Now()
		for i := range tasks {
			u := fakeUnit(c, target(i, nodes))
			if err := c.check(u.task); err != nil {
				b.Fatal(err)
			}
			n, slot := c.p.claim(u)
			if n == nil {
				b.Fatal("no slot is free")
			}
			if c.p.passOn(n, slot) != nil {
				b.Fatal("something waits")
			}
		}
		return time.Since(start)
	})
}

func fakeUnit(c *Compute, t Target) *unit {
	task := Cmd("true")
	task.Target = t
	return c.newBatch().unit(0, task)
}
