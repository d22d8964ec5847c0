package gputrain

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain/internal/journal"
)

// attached returns a pool of nodes whose slots are all taken. It has resumed and queued the tasks
// that a pool of two such nodes had when its program died.
func attached(t *testing.T, nodes int, ask func(*Compute)) *Compute {
	c, _ := attaching(t, nodes, ask)
	c.p.resumption.queueRest(c.p)
	return c
}

// attaching is attached before the tasks are queued. It also returns the path of the journal.
func attaching(t *testing.T, nodes int, ask func(*Compute)) (c *Compute, path string) {
	path = filepath.Join(t.TempDir(), "tasks")
	before := fakePool(t, 2, 1)
	before.p.journal = recorder{journal.Create(path, Spec{}, "", func(err error) { t.Error(err) })}
	takeSlots(before)
	ask(before)
	before.p.journal.Close()
	j, state, err := journal.Open(path, &Spec{}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	c = fakePool(t, nodes, 1)
	c.p.journal = recorder{j}
	takeSlots(c)
	c.p.resume(state)
	return c, path
}

func takeSlots(c *Compute) {
	for _, n := range c.p.fleet.Members() {
		c.p.fleet.Tasks.Take(n.Slots, 0)
	}
}

// After Attach, the shares of a broadcast fail as lost if one of its nodes is gone. They do not run
// on other nodes.
func TestAttachToABroadcastWithoutItsNode(t *testing.T) {
	c := attached(t, 1, func(c *Compute) {
		b := c.newBatch()
		if err := b.everywhere(Cmd("true")); err != nil {
			t.Fatal(err)
		}
	})
	jobs := c.Jobs()
	if len(jobs) != 2 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for _, j := range jobs {
		_, err := j.Wait()
		if te, ok := errors.AsType[*TaskError](err); !ok || te.Cause != CauseNodeLost || te.Attempt != 0 || !errors.Is(err, ErrNodeLost) {
			t.Errorf("%v", err)
		}
	}
}

// After Attach, a job's Cancel cancels a task that waits for a slot, and a share of a broadcast
// too.
func TestAttachCancelsTasksThatWait(t *testing.T) {
	c := attached(t, 2, func(c *Compute) {
		c.Start(Cmd("true"))
		b := c.newBatch()
		if err := b.everywhere(Cmd("true")); err != nil {
			t.Fatal(err)
		}
	})
	jobs := c.Jobs()
	if len(jobs) != 3 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for _, j := range jobs {
		j.Cancel()
		_, err := j.Wait()
		if te, ok := errors.AsType[*TaskError](err); !ok || te.Cause != CauseCancelled || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}

// After Attach, a node that is lost while its tasks are looked through gets none of those that are
// queued: they would run twice, and end twice.
func TestAttachGivesATaskAwayOnce(t *testing.T) {
	c := attached(t, 1, func(c *Compute) { c.Start(Cmd("true")) })
	n := nodeOf(c.p.fleet.Members()[0])
	if r, _ := n.claim(attemptFound{task: c.Jobs()[0].ID(), attempt: 1, over: true}); r != nil {
		t.Error("a task that a node has is queued too")
	}
}

// If Attach fails, tasks that no node has leave nothing behind in the program, and another Attach
// finds them.
func TestAttachThatFailsKeepsTasks(t *testing.T) {
	c, path := attaching(t, 1, func(c *Compute) { c.Start(Cmd("true")) })
	jobs := c.Jobs()
	if len(jobs) != 1 {
		t.Fatalf("%d jobs", len(jobs))
	}
	c.p.resumption.dropRest(c.p)
	c.p.background.Wait()
	c.p.journal.Close()
	j, state, err := journal.Open(path, &Spec{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if len(state.Tasks) != 1 || state.Tasks[0].Unit.ID != jobs[0].ID() || state.Tasks[0].Outcome != nil {
		t.Errorf("%+v", state.Tasks)
	}
}
