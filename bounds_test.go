package gputrain

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/journal"
)

// The text of an error is short, however many tasks failed and however long their texts are.
// errors.Is still finds the cause of the last one.
func TestErrorTextIsBounded(t *testing.T) {
	const tasks = 300_000
	name := strings.Repeat("n\u00e4me", 200)
	b := &batch{units: make([]*unit, tasks), results: make(chan Result, tasks)}
	for i := range tasks {
		r := Result{Index: i}
		if i != 7 {
			r.Err = &TaskError{Index: i, Name: name, Attempt: 1, ExitCode: 3, Tail: "one\ntwo"}
		}
		b.results <- r
	}
	results, err := b.collect()
	if len(results) != tasks || results[7].Err != nil {
		t.Error("the results differ from those of the tasks")
	}
	text := err.Error()
	if lines := strings.Split(text, "\n"); len(lines) != 1+shownFailures || len(text) > 11*(shownBytes+10) || strings.Contains(text, "\ufffd") {
		t.Errorf("the text has %d lines and %d bytes: %s", len(lines), len(text), lines[0])
	}
	last := results[tasks-1].Err.(*TaskError)
	last.Cause = CauseOutOfMemory
	if !errors.Is(err, ErrOutOfMemory) || errors.Is(err, ErrTimeout) {
		t.Error("errors.Is does not find the last error")
	}
}

// A broadcast's journal names each node once, and the cost of a command's environment does not
// depend on the number of nodes.
func TestBroadcastGrowsWithItsNodes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	env := func(nodes int) (allocs float64) {
		c := fakePool(t, nodes, 1)
		c.p.journal = recorder{journal.Create(path, Spec{}, "", func(err error) { t.Error(err) })}
		for _, n := range c.p.fleet.Members() {
			c.p.fleet.Tasks.Take(n.Slots, 0)
		}
		b := c.newBatch()
		if err := b.everywhere(Cmd("true")); err != nil {
			t.Fatal(err)
		}
		for i, u := range b.units {
			got := u.command(u.pin, 0).Place.Env()
			for name, want := range map[string]string{"RANK": fmt.Sprint(i), "NODE_RANK": fmt.Sprint(i), "NODES": fmt.Sprint(nodes), "MASTER_ADDR": "p-0", "NODE": fmt.Sprint("p-", i)} {
				if got["GPUTRAIN_"+name] != want {
					t.Fatalf("node %d of %d has %s=%s", i, nodes, name, got["GPUTRAIN_"+name])
				}
			}
		}
		u := b.units[1]
		allocs = testing.AllocsPerRun(10, func() { u.command(u.pin, 0).Place.Env() })
		b.close()
		c.p.journal.Close()
		return allocs
	}
	few := env(20)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if many := env(400); many > few+2 {
		t.Errorf("the environment takes %v allocations for one of 400 nodes, %v for one of 20", many, few)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("p-123")); n < 2 || n > 4 { // as a member, and as a unit's node
		t.Errorf("a node is named %d times in %d bytes", n, len(text))
	}
}

// Jobs are listed in the order of their start until their Wait has returned.
func TestJobsAreListedUntilTheirWait(t *testing.T) {
	c := fakePool(t, 1, 1)
	var jobs []*Job
	for range 6 {
		b := c.newBatch()
		b.units = []*unit{b.unit(0, Cmd("true"))}
		j := b.newJob()
		j.end()
		jobs = append(jobs, j)
	}
	for _, i := range []int{3, 0, 5, 3} {
		jobs[i].Wait()
	}
	if got := c.Jobs(); !slices.Equal(got, []*Job{jobs[1], jobs[2], jobs[4]}) {
		t.Errorf("%d jobs are listed", len(got))
	}
}
